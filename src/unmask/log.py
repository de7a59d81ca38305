"""Logging set-up. The library logs, only `cli/` prints; data goes to stdout, words to stderr."""

import logging
import os
import warnings

QUIET_LIBRARIES = ("transformers", "huggingface_hub", "httpx", "accelerate", "peft", "torch")


def set_up_logging(*, quiet: bool) -> None:
    """Send unmask's log to stderr, and keep the libraries below us to their errors."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING if quiet else logging.INFO)
    for name in QUIET_LIBRARIES:
        logging.getLogger(name).setLevel(logging.ERROR)
    # Read by transformers and huggingface_hub when they are imported, which is later than this.
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TQDM_DISABLE", "1")  # the command line has bars of its own
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    warnings.filterwarnings("ignore", module="transformers|peft|torch")
