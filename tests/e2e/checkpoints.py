"""Writes checkpoints as Hugging Face's libraries save them, of the tiny models
whose GGUF files golden_families.py makes, and reads GGUF files whole."""

import functools
import importlib.util
import json
import struct

import numpy as np
import pytest

import stubs

SHARED_DIR = stubs.SOURCE_DIR.parent / "shared"
FAMILIES_DIR = stubs.SOURCE_DIR / "tests" / "testdata" / "families"

# The norms of a layer: their names in a checkpoint, by those in the file.
BEFORE = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
AROUND = {
    "attn_norm": "input_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
AFTER = {
    "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
GLM = {
    "attn_norm": "input_layernorm",
    "post_attention_norm": "post_self_attn_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_mlp_layernorm",
}
SEED = {
    "attn_norm": "input_layernorm",
    "post_attention_norm": "post_attention_layernorm",
}
NORMS = {
    "gemma2": AROUND, "gemma3": AROUND, "olmo2": AFTER, "exaone4": AFTER,
    "glm4": GLM, "seed_oss": SEED,
}
MODULES = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_qkv": "self_attn.qkv_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
ENDS = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
GEMMAS = ("gemma", "gemma2", "gemma3")
FUSED_FFN = ("phi3", "glm4")
# In the file, not in a checkpoint.
INTERLEAVED = ("llama", "granite", "smollm3", "mistral3")


def golden(case):
    """What a correct engine answers: a golden of this repository or a shared one,
    without which the test is skipped."""
    path = FAMILIES_DIR / f"{case}.json"
    if not path.is_file():
        path = SHARED_DIR / "golden" / "families" / f"{case}.public.json"
    if not path.is_file():
        pytest.skip(f"no shared data: {path.name}")
    return json.loads(path.read_text(encoding="utf-8"))


@functools.cache
def family_models():
    """The shared script as a module, with the families of this repository."""
    shared = SHARED_DIR / "tools" / "family_models.py"
    if not shared.is_file():
        pytest.skip(f"no shared data: {shared.name}")
    path = FAMILIES_DIR / "golden_families.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.shared


def _name(arch, name):
    """The name in a checkpoint of a tensor of the file."""
    # The model has a part for pictures, too.
    part = "language_model." if arch == "mistral3" else ""
    if name in ENDS:
        return part + ENDS[name]
    _, layer, module, kind = name.split(".")
    if module == "ffn_up" and arch in FUSED_FFN:
        there = "mlp.gate_up_proj"
    else:
        there = NORMS.get(arch, BEFORE).get(module) or MODULES[module]
    return f"{part}model.layers.{layer}.{there}.{kind}"


def _halves(values, n_heads):
    """Rows of heads in the order of a checkpoint, where halves are rotated."""
    shape = values.shape
    heads = values.reshape(n_heads, -1, 2, *shape[1:])
    return heads.swapaxes(1, 2).reshape(shape)


def checkpoint_tensors(model):
    """Yields (name, type, values) of a model of family_models()."""
    p = model.p
    arch = p["arch"]
    for name, _, kind, _, values in model.data():
        if name.startswith("rope_"):
            continue  # config.json describes it
        if arch in INTERLEAVED and ".attn_q." in name:
            values = _halves(values, p["heads"])
        if arch in INTERLEAVED and ".attn_k." in name:
            values = _halves(values, p["kv_heads"])
        if arch in GEMMAS and name.endswith("norm.weight"):
            values = values - np.float32(1)
        yield _name(arch, name), kind, values


def encoded(kind, values):
    """The bytes of float32 values in a type."""
    if kind == "F16":
        return values.astype("<f2").tobytes()
    if kind == "BF16":
        return (values.astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()
    return values.astype("<f4").tobytes()


def write_safetensors(path, tensors):
    """Writes (name, type, values) as one safetensors file."""
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, kind, values in tensors:
        raw = encoded(kind, values)
        header[name] = {
            "dtype": kind,
            "shape": list(values.shape),
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def _scaling(p):
    """rope_scaling of config.json."""
    if "linear" in p:
        return {"rope_type": "linear", "factor": p["linear"]}
    if "llama3" in p:
        s = p["llama3"]
        return {
            "rope_type": "llama3",
            "factor": s["factor"],
            "low_freq_factor": s["low"],
            "high_freq_factor": s["high"],
            "original_max_position_embeddings": s["original"],
        }
    if "longrope" in p:
        s = p["longrope"]
        return {
            "type": "longrope",
            "short_factor": s["short"],
            "long_factor": s["long"],
        }
    if "yarn" in p:
        s = p["yarn"]
        return {
            "rope_type": "yarn",
            "factor": s["factor"],
            "original_max_position_embeddings": s["original"],
            "beta_fast": s["beta_fast"],
            "beta_slow": s["beta_slow"],
        }
    return None


def _layer_types(slides):
    """The kinds of layers; those that slide have a window."""
    kinds = ("full_attention", "sliding_attention")
    return [kinds[value] for value in slides]


def _own_fields(p):
    """What config.json has for one architecture alone."""
    if p["arch"] in GEMMAS:
        return {
            "hidden_activation": "gelu_pytorch_tanh",
            "query_pre_attn_scalar": p["head_dim"],
        }
    if p["arch"] == "smollm3":
        return {"no_rope_layers": [int(i % 4 != 3) for i in range(p["layers"])]}
    if p["arch"] == "cohere2":
        return {
            "rms_norm_eps": None,
            "layer_norm_eps": p["eps"],
            "logit_scale": p["logit_scale"],
            "sliding_window_pattern": 4,
        }
    if p["arch"] == "exaone4":
        fields = {"sliding_window": None, "sliding_window_pattern": "LLLG"}
        if "window" in p:
            fields["sliding_window"] = p["window"]
            fields["layer_types"] = _layer_types(i % 4 != 3 for i in range(p["layers"]))
        return fields
    if p["arch"] == "mistral3":
        growth = {
            "mscale": 1.0,
            "mscale_all_dim": p["yarn"]["log_multiplier"],
            "llama_4_scaling_beta": p["temperature"],
            "rope_theta": p["rope_base"],
        }
        return {
            "model_type": "ministral3",
            "rope_theta": None,
            "rope_scaling": None,
            "rope_parameters": _scaling(p) | growth,
        }
    return {}


def config_of(model, case):
    """config.json."""
    p = model.p
    config = {
        "model_type": "olmo3" if case == "olmo3" else p["arch"],
        "hidden_size": p["dim"],
        "num_hidden_layers": p["layers"],
        "intermediate_size": p["ff"],
        "num_attention_heads": p["heads"],
        "num_key_value_heads": p["kv_heads"],
        "head_dim": p["head_dim"],
        "vocab_size": p["vocab"],
        "max_position_embeddings": p["context"],
        "rms_norm_eps": p["eps"],
        "rope_theta": p["rope_base"],
        "rope_scaling": _scaling(p),
        "tie_word_embeddings": p["tied"] or p["arch"] in GEMMAS,
        "hidden_act": "silu",
        "torch_dtype": "float32",
    }
    if "window" in p:
        config["sliding_window"] = p["window"]
    if "pattern" in p:
        config["layer_types"] = _layer_types(p["pattern"])
    if "longrope" in p:
        config["original_max_position_embeddings"] = p["longrope"]["original"]
    if "rotated" in p:
        config["partial_rotary_factor"] = p["rotated"] / p["head_dim"]
    for ours, theirs in (
        ("attn_cap", "attn_logit_softcapping"),
        ("final_cap", "final_logit_softcapping"),
        ("embedding_scale", "embedding_multiplier"),
        ("attention_scale", "attention_multiplier"),
        ("residual_scale", "residual_multiplier"),
        ("logit_scale", "logits_scaling"),
    ):
        if ours in p:
            config[theirs] = p[ours]
    config |= _own_fields(p)
    if p["arch"] == "mistral3":
        return {"model_type": "mistral3", "text_config": config}
    return config


def tokenizer_of(model):
    """tokenizer.json and tokenizer_config.json."""
    keys = {key: value for key, _, value in model.keys}
    tokens = keys["tokenizer.ggml.tokens"]
    types = keys["tokenizer.ggml.token_type"]
    normal, control = 1, 3
    tokenizer = {
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
        "added_tokens": [
            {"id": i, "content": text, "special": types[i] == control}
            for i, text in enumerate(tokens)
            if types[i] != normal
        ],
        "model": {
            "type": "BPE",
            "vocab": {t: i for i, t in enumerate(tokens) if types[i] == normal},
            "merges": [m.split(" ") for m in keys["tokenizer.ggml.merges"]],
        },
    }
    config = {"bos_token": "<|bos|>", "eos_token": {"content": "<|eos|>"}}
    return tokenizer, config | {"add_bos_token": False}


def write_checkpoint(folder, model, case, n_files=1):
    """Writes the folder of a checkpoint, its weights in so many files."""
    folder.mkdir()
    tensors = list(checkpoint_tensors(model))
    if n_files == 1:
        write_safetensors(folder / "model.safetensors", tensors)
    else:
        places = {}
        for i in range(n_files):
            name = f"model-{i + 1:05}-of-{n_files:05}.safetensors"
            write_safetensors(folder / name, tensors[i::n_files])
            places |= {tensor[0]: name for tensor in tensors[i::n_files]}
        index = {"metadata": {}, "weight_map": places}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    tokenizer, config = tokenizer_of(model)
    for name, value in (
        ("config.json", config_of(model, case)),
        ("tokenizer.json", tokenizer),
        ("tokenizer_config.json", config),
    ):
        (folder / name).write_text(json.dumps(value), encoding="utf-8")
    return folder


class _Gguf:
    """Walks through a GGUF file."""

    SCALARS = {4: "I", 5: "i", 6: "f", 7: "?", 10: "Q"}

    def __init__(self, data):
        self.data = data
        self.at = 0

    def take(self, code):
        value, = struct.unpack_from("<" + code, self.data, self.at)
        self.at += struct.calcsize("<" + code)
        return value

    def value(self, kind):
        if kind == 8:
            return self.take(f"{self.take('Q')}s").decode()
        if kind == 9:
            element, count = self.take("I"), self.take("Q")
            return [self.value(element) for _ in range(count)]
        return self.take(self.SCALARS[kind])


def read_gguf(path):
    """Returns the metadata, and dims, type and bytes of each tensor."""
    file = _Gguf(path.read_bytes())
    assert file.data[:4] == b"GGUF"
    file.at = 4
    _, n_tensors, n_values = file.take("I"), file.take("Q"), file.take("Q")
    metadata = {}
    for _ in range(n_values):
        key = file.value(8)
        metadata[key] = file.value(file.take("I"))
    table = []
    for _ in range(n_tensors):
        name = file.value(8)
        dims = [file.take("Q") for _ in range(file.take("I"))]
        table.append((name, dims, file.take("I"), file.take("Q")))
    start = file.at + -file.at % 32
    sizes = {0: 4, 1: 2, 30: 2}
    tensors = {}
    for name, dims, kind, offset in table:
        begin = start + offset
        size = sizes.get(kind, 0) * int(np.prod(dims))
        tensors[name] = (dims, kind, file.data[begin : begin + size])
    return metadata, tensors
