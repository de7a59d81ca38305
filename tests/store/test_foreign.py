"""Published checkpoints, against forwards written here from the papers' descriptions."""

import json

import pytest
import torch
from conftest import make_model, make_tokenizer
from safetensors.torch import load_file, save_file
from torch.nn.functional import silu

from unmask.core.masks import Places, dense_mask
from unmask.decode.model import load
from unmask.errors import ModelError
from unmask.verify.oracle import decode_one_at_a_time

CONFIGS = {
    "sdar": {
        "architectures": ["SDARForCausalLM"], "model_type": "sdar", "block_size": 4,
        "auto_map": {"AutoModelForCausalLM": "modeling_sdar.SDARForCausalLM"}, "debug": False,
        "fuse_cross_entropy": True, "attention_bias": False, "head_dim": 8,
        "torch_dtype": "float32",
    },
    "fast-dllm-v2": {
        "architectures": ["Fast_dLLM_QwenForCausalLM"], "model_type": "Fast_dLLM_Qwen",
        "auto_map": {"AutoModelForCausalLM": "modeling.Fast_dLLM_QwenForCausalLM"}, "bd_size": 32,
        "torch_dtype": "float32",
    },
    "dream": {
        "architectures": ["DreamModel"], "model_type": "Dream", "torch_dtype": "float32",
        "auto_map": {"AutoModel": "modeling_dream.DreamModel"}, "use_mrope": False,
    },
    "llada": {
        "architectures": ["LLaDAModelLM"], "model_type": "llada", "d_model": 32, "n_layers": 2,
        "auto_map": {"AutoModel": "modeling_llada.LLaDAModelLM"}, "n_heads": 4, "n_kv_heads": 2,
        "mlp_hidden_size": 64, "max_sequence_length": 512, "embedding_size": 264,
        "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "weight_tying": False, "eos_token_id": 257,
        "block_type": "llama", "rope": True,
    },
}  # fmt: skip
MASK = 259
"""Behind the tiny tokenizer's other tokens."""
MASKS = {
    "sdar": "<|MASK|>",
    "fast-dllm-v2": "|<MASK>|",
    "dream": "<|mask|>",
    "llada": "<|mdm_mask|>",
}
FAMILIES = {"sdar": "qwen3", "fast-dllm-v2": "qwen2", "dream": "qwen2", "llada": "llama"}
BLOCKS = {"sdar": 4, "fast-dllm-v2": 32, "dream": None, "llada": None}
"""None: everything sees everything."""
SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 264,
         "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-6,
         "rope_theta": 10000.0, "hidden_act": "silu", "max_position_embeddings": 512,
         "tie_word_embeddings": False, "initializer_range": 0.3, "eos_token_id": 257}  # fmt: skip


def publish(folder, kind):
    """Random weights under the published names and config."""
    own = {key: value for key, value in SIZES.items() if key != "rope_theta"}
    model = make_model(FAMILIES[kind], **own)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" in name or "bias" in name:
                weight.add_(0.3 * torch.randn_like(weight))  # or nobody would miss them
    model.save_pretrained(folder)
    tokenizer = make_tokenizer()
    tokenizer.add_special_tokens({"extra_special_tokens": [MASKS[kind]]})
    tokenizer.save_pretrained(folder)
    sizes = {} if kind == "llada" else SIZES
    (folder / "config.json").write_text(json.dumps({**sizes, **CONFIGS[kind]}))
    if kind == "llada":
        tensors = load_file(folder / "model.safetensors")
        save_file({llada_name(name): tensor for name, tensor in tensors.items()},
                  folder / "model.safetensors", metadata={"format": "pt"})  # fmt: skip
    return folder


def llada_name(name):
    """The name of a Llama tensor in LLaDA's files."""
    for theirs, ours in (
        ("model.embed_tokens", "model.transformer.wte"), ("model.norm", "model.transformer.ln_f"),
        ("lm_head", "model.transformer.ff_out"), ("model.layers", "model.transformer.blocks"),
        ("self_attn.o_proj", "attn_out"), ("self_attn.", ""), ("input_layernorm", "attn_norm"),
        ("post_attention_layernorm", "ff_norm"), ("mlp.gate_proj", "ff_proj"),
        ("mlp.up_proj", "up_proj"), ("mlp.down_proj", "ff_out"),
    ):  # fmt: skip
        name = name.replace(theirs, ours)
    return name


def forward(weights, tokens, mask):
    """(L, V) logits: Qwen2 with its biases, or Qwen3 with its norms of queries and keys."""
    heads, groups, width = 4, 2, 8

    def norm(x, name):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weights[name]

    def linear(x, name):
        bias = weights.get(f"{name}.bias")
        return x @ weights[f"{name}.weight"].T + (0 if bias is None else bias)

    def turn(x):
        angle = torch.arange(len(tokens))[:, None] / 10000.0 ** (torch.arange(0, 8, 2) / 8)
        cos, sin = (f(torch.cat([angle, angle], -1))[:, None] for f in (torch.cos, torch.sin))
        return x * cos + torch.cat([-x[..., 4:], x[..., :4]], -1) * sin

    x = weights["model.embed_tokens.weight"][tokens]
    for layer in range(2):
        at = f"model.layers.{layer}"
        h = norm(x, f"{at}.input_layernorm.weight")
        q, k, v = (
            linear(h, f"{at}.self_attn.{n}_proj").view(len(tokens), -1, width) for n in "qkv"
        )
        if f"{at}.self_attn.q_norm.weight" in weights:
            q, k = (norm(y, f"{at}.self_attn.{n}_norm.weight") for y, n in ((q, "q"), (k, "k")))
        q, k = turn(q), turn(k)
        k, v = (y.repeat_interleave(heads // groups, 1) for y in (k, v))
        score = torch.einsum("qhd,khd->hqk", q, k) / width**0.5
        share = score.masked_fill(~mask, float("-inf")).softmax(-1)
        x = x + linear(torch.einsum("hqk,khd->qhd", share, v).flatten(1), f"{at}.self_attn.o_proj")
        h = norm(x, f"{at}.post_attention_layernorm.weight")
        gate = silu(linear(h, f"{at}.mlp.gate_proj"))
        x = x + linear(gate * linear(h, f"{at}.mlp.up_proj"), f"{at}.mlp.down_proj")
    return linear(norm(x, "model.norm.weight"), "lm_head")


@pytest.mark.parametrize("kind", CONFIGS)
def test_logits_and_answers_are_those_of_the_published_model(tmp_path, kind):
    folder = publish(tmp_path / kind, kind)
    model = load(str(folder))
    size, is_whole = BLOCKS[kind] or 40, BLOCKS[kind] is None
    assert model.config.context == ("full" if is_whole else "block")
    assert is_whole or model.config.block_size == size
    assert model.config.token_shift == (kind in ("fast-dllm-v2", "dream"))
    assert model.config.mask_token_id == MASK
    tokens, place = torch.arange(5, 45), torch.arange(40)
    mask = place[None] // size <= place[:, None] // size
    places = Places(place[None] * 0, place[None] // size, place[None] * 0, place[None])
    seen = dense_mask(places, places, model.config.context)
    ours = model.backbone.logits(model.backbone.hidden(tokens[None], place[None], seen)[0])
    weights = load_file(folder / "model.safetensors")
    if kind == "llada":
        names = make_model("llama", vocab_size=264).state_dict()
        weights = {name: weights[llada_name(name)] for name in names}
    theirs = forward(weights, tokens, mask)
    theirs[:, MASK] = float("-inf")
    torch.testing.assert_close(ours, theirs, atol=2e-4, rtol=1e-4)
    causal = forward(weights, tokens, place[None] <= place[:, None])
    assert (causal - theirs)[:, :MASK].abs().max() > 0.1
    ids = model.encode("hello")
    wanted, _ = decode_one_at_a_time(model.backbone, model.config, ids, 20)
    got = model.generate("hello", max_new_tokens=20, threshold=1.0, ignore_eos=True)[0]
    assert got.token_ids == wanted


def test_what_is_missing_is_named(tmp_path):
    folder = publish(tmp_path / "sdar", "sdar")
    make_tokenizer().save_pretrained(folder)
    with pytest.raises(ModelError, match=r"lacks the mask token <\|MASK\|>"):
        load(str(folder))
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**settings, "num_hidden_layers": 3}))
    with pytest.raises(ModelError, match="tensors of SDARForCausalLM"):
        load(str(folder))
