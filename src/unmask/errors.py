"""What can go wrong by a user's hand. Each message says what, got, want and do, in one line.

UnmaskError
├── ConfigError        a setting that cannot work
├── ModelError         a checkpoint that is missing, broken or not known to be right
├── DataError          a row or source that cannot be read
├── PromptError        a prompt that cannot be answered
├── MissingExtraError  an optional package is not installed
├── TrainingError      a run that cannot start or go on
└── Interrupted        stopped by the user, with everything saved
"""

import difflib
from collections.abc import Iterable


class UnmaskError(Exception):
    """Base of everything the command line turns into one line and exit code 2."""

    exit_code = 2


class ConfigError(UnmaskError):
    """A setting that cannot work."""


class ModelError(UnmaskError):
    """A checkpoint that is missing, broken or not known to be right."""


class DataError(UnmaskError):
    """A row or a source that cannot be read."""


class PromptError(UnmaskError):
    """A prompt that cannot be answered."""


class MissingExtraError(UnmaskError):
    """An optional package is not installed."""


class TrainingError(UnmaskError):
    """A run that cannot start or go on."""


class Interrupted(UnmaskError):  # noqa: N818  (not an error: the user asked)
    """Stopped by the user, with everything saved."""

    exit_code = 130


def unknown_name(kind: str, got: str, valid: Iterable[str]) -> str:
    """Message for a name that is not in a list.

    >>> unknown_name("strategy", "treshold", ["threshold", "topk"])
    "unknown strategy 'treshold', did you mean 'threshold'? One of: threshold, topk"
    """
    names = sorted(valid)
    close = difflib.get_close_matches(got, names, n=1)
    hint = f", did you mean '{close[0]}'?" if close else "."
    return f"unknown {kind} '{got}'{hint} One of: {', '.join(names)}"
