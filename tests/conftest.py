"""Tiny random models and a byte tokenizer, built from configs: no network, no files of others."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from unmask.config import DiffusionConfig
from unmask.core.backbone import Backbone
from unmask.core.denoiser import add_denoiser, gated_parts
from unmask.store.vocabulary import MASK_TOKEN

FAMILIES = ["llama", "qwen2", "qwen3"]
SPECIAL = ["<|im_start|>", "<|im_end|>", "<|pad|>"]
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
VOCABULARY = 256 + len(SPECIAL)
MASK = 96
"""Mask token id of models that have no tokenizer."""


@pytest.fixture(autouse=True)
def _two_threads():
    torch.set_num_threads(2)
    torch.manual_seed(0)


def make_model(family="llama", vocab_size=97, **settings):
    """A two-layer random model whose logits are far apart."""
    sizes = {
        "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
        "max_position_embeddings": 512, "initializer_range": 0.3, "pad_token_id": 0,
        "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": False,
    }  # fmt: skip
    torch.manual_seed(0)
    config = AutoConfig.for_model(family, vocab_size=vocab_size, **{**sizes, **settings})
    return AutoModelForCausalLM.from_config(config).eval()


def make_backbone(family="llama", **settings):
    return Backbone(make_model(family, **settings), mask_token_id=MASK)


def make_denoiser(family="llama", *, spread=0.3, **settings):
    """Random adapters of a given spread on a random model; at 0 they change nothing."""
    model = make_model(family, **settings)
    gate = add_denoiser(model, rank=4, alpha=8, mask_token_id=MASK)
    for _, part in gated_parts(model):
        for weight in part.parameters(recurse=False):
            torch.nn.init.normal_(weight, std=spread)
    return Backbone(model, mask_token_id=MASK, gate=gate)


def make_config(**settings):
    defaults = {"block_size": 8, "sub_block_size": 4, "mask_token_id": MASK, "embedding_rows": 97}
    return DiffusionConfig(**{**defaults, **settings})


def make_tokenizer():
    """One token per byte, ChatML."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate([*alphabet, *SPECIAL])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|pad|>",
        extra_special_tokens=["<|im_start|>"], chat_template=CHATML,
    )  # fmt: skip


@pytest.fixture
def tokenizer():
    return make_tokenizer()


def save_parent(folder, **settings):
    """A tiny parent as an ordinary Hugging Face folder."""
    end = VOCABULARY - 2
    model = make_model(vocab_size=VOCABULARY, eos_token_id=end, initializer_range=0.02,
                       **settings)  # fmt: skip
    model.generation_config.eos_token_id = end
    model.save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def parent(tmp_path):
    return save_parent(tmp_path / "parent")


def save_adapted(folder, *, sharp=True, **settings):
    """A tiny adapted checkpoint: random weights, but everything a real one has."""
    from unmask.store.vocabulary import add_mask_token, embedding_rows

    model = make_model(vocab_size=VOCABULARY, eos_token_id=VOCABULARY - 2,
                       initializer_range=0.3 if sharp else 0.02)  # fmt: skip
    tokenizer = make_tokenizer()
    mask = add_mask_token(model, tokenizer)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    config = {
        "block_size": 8, "sub_block_size": 4, "mask_token": MASK_TOKEN, "mask_token_id": mask,
        "embedding_rows": embedding_rows(model), "base_model": "parent", **settings,
    }  # fmt: skip
    DiffusionConfig(**config).save(folder)
    return folder


@pytest.fixture
def adapted(tmp_path):
    return save_adapted(tmp_path / "adapted")


@pytest.fixture
def data(tmp_path):
    """A small JSONL file with all three kinds of rows."""
    path = tmp_path / "data.jsonl"
    rows = [f'{{"prompt": "say {word}", "response": "{word} {word}!"}}' for word in
            ("red", "green", "blue", "black", "white")]  # fmt: skip
    rows.append('{"text": "plain text is learnt from its second token on"}')
    rows.append('{"messages": [{"role": "user", "content": "hi"}, '
                '{"role": "assistant", "content": "hello"}]}')  # fmt: skip
    path.write_text("\n".join(rows) + "\n")
    return path
