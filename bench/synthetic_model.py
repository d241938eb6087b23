#!/usr/bin/env python3
"""Writes a GGUF file of a real model's shape with random weights, to measure how
fast a size of model runs that nobody has to download. The same flags give the
same file; numpy is needed.

examples:
  synthetic_model.py gemma3-4b.gguf
  synthetic_model.py --shape qwen3-30b-a3b --layers 8 --type q4_k moe.gguf
"""
import argparse
import os
import pathlib
import struct
import sys
import time

import numpy as np

sys.path.append(str(pathlib.Path(__file__).parents[1] / "tests" / "testdata"))

import make_random_models as random_models  # noqa: E402
from make_random_models import kv_array, kv_f32, kv_string, kv_u32  # noqa: E402

CHUNK_BYTES = 64 << 20
ALIGNMENT = 32
Q2_K, Q3_K, IQ4_XS, MXFP4 = 10, 11, 23, 39
random_models.BLOCKS.update({Q2_K: (256, 84), Q3_K: (256, 110),
                             IQ4_XS: (256, 136), MXFP4: (32, 17)})
TYPES = {"q4_0": random_models.Q4_0, "q4_k": random_models.Q4_K,
         "q8_0": random_models.Q8_0, "q2_k": Q2_K, "q3_k": Q3_K,
         "iq4_xs": IQ4_XS}
# By type, where a block's scale is, and how many exponents its largest weight is
# above it.
SCALES = {Q2_K: (80, 5), Q3_K: (108, 6), IQ4_XS: (0, 10)}
# Numbers of the models' files: dim is the width of a token, ffn that of a dense
# network or of one expert.
SHAPES = {
    "gemma3-4b": dict(
        arch="gemma3", layers=34, dim=2560, heads=8, kv_heads=4, head_dim=256,
        ffn=10240, vocab=262144, context=131072, window=1024, tied=True,
        rope_base=1e6, linear_factor=8.0),
    "gemma4-12b": dict(
        arch="gemma4", layers=48, dim=3840, heads=16, kv_heads=1, head_dim=512,
        window_kv_heads=8, window_head_dim=256, ffn=15360, vocab=262144,
        context=262144, window=1024, tied=True, rope_base=1e6),
    "qwen3-1.7b": dict(
        arch="qwen3", layers=28, dim=2048, heads=16, kv_heads=8, head_dim=128,
        ffn=6144, vocab=151936, context=40960, tied=True, rope_base=1e6),
    "qwen3-30b-a3b": dict(
        arch="qwen3moe", layers=48, dim=2048, heads=32, kv_heads=4,
        head_dim=128, ffn=768, experts=128, used=8, vocab=151936,
        context=40960, rope_base=1e6),
    "gpt-oss-20b": dict(
        arch="gpt-oss", layers=24, dim=2880, heads=64, kv_heads=8, head_dim=64,
        ffn=2880, experts=32, used=4, vocab=201088, context=131072, window=128,
        rope_base=150000.0, yarn_factor=32.0, yarn_context=4096),
    "qwen3.5-4b": dict(
        arch="qwen35", layers=32, dim=2560, heads=16, kv_heads=4, head_dim=256,
        rotated=64, sections=(11, 11, 10, 0), ffn=9216, vocab=248320,
        context=262144, tied=True, rope_base=1e7, interval=4, state_groups=16,
        state_heads=32, state_dim=128, taps=4),
    "qwen3.5-35b-a3b": dict(
        arch="qwen35moe", layers=40, dim=2048, heads=16, kv_heads=2,
        head_dim=256, rotated=64, sections=(11, 11, 10, 0), ffn=512,
        experts=256, used=8, shared=512, vocab=248320, context=262144,
        rope_base=1e7, interval=4, state_groups=16, state_heads=32,
        state_dim=128, taps=4),
}


def is_global(shape, layer):
    """Whether a layer has no window."""
    if "window" not in shape:
        return True
    if shape["arch"] == "gpt-oss":
        return layer % 2 == 1
    return layer % 6 == 5


def heads_of(shape, layer):
    """(width, number of KV heads) of a layer."""
    if "window_head_dim" in shape and not is_global(shape, layer):
        return shape["window_head_dim"], shape["window_kv_heads"]
    return shape["head_dim"], shape["kv_heads"]


def has_state(shape, layer):
    """Whether a layer is a delta net."""
    return "interval" in shape and (layer + 1) % shape["interval"] != 0


def delta_net(shape):
    """(role, dims) of the tensors of a layer that keeps a state."""
    dim, heads = shape["dim"], shape["state_heads"]
    inner = heads * shape["state_dim"]
    channels = inner + 2 * shape["state_groups"] * shape["state_dim"]
    yield "attn_norm", (dim,)
    yield "attn_qkv", (dim, channels)
    yield "attn_gate", (dim, inner)
    yield "ssm_conv1d", (shape["taps"], channels)
    yield "ssm_dt.bias", (heads,)
    yield "ssm_a", (heads,)
    yield "ssm_alpha", (dim, heads)
    yield "ssm_beta", (dim, heads)
    yield "ssm_norm", (shape["state_dim"],)
    yield "ssm_out", (inner, dim)


def attention(shape, layer):
    """(role, dims) of a layer's tensors for attention."""
    dim, arch = shape["dim"], shape["arch"]
    width, n_kv = heads_of(shape, layer)
    q, kv = shape["heads"] * width, n_kv * width
    yield "attn_norm", (dim,)
    # Gates lie behind the queries.
    yield "attn_q", (dim, 2 * q if "interval" in shape else q)
    yield "attn_k", (dim, kv)
    if arch != "gemma4" or not is_global(shape, layer):
        yield "attn_v", (dim, kv)
    yield "attn_output", (q, dim)
    if arch == "gpt-oss":
        yield "attn_sinks", (shape["heads"],)
        for role, n in (("q", q), ("k", kv), ("v", kv), ("output", dim)):
            yield f"attn_{role}.bias", (n,)
    else:
        yield "attn_q_norm", (width,)
        yield "attn_k_norm", (width,)


def network(shape):
    """(role, dims) of a layer's tensors for its feed-forward network."""
    dim, ffn = shape["dim"], shape["ffn"]
    is_gemma = shape["arch"].startswith("gemma")
    is_after = shape["arch"] == "gpt-oss" or "interval" in shape
    yield "post_attention_norm" if is_after else "ffn_norm", (dim,)
    if is_gemma:
        yield "post_attention_norm", (dim,)
        yield "post_ffw_norm", (dim,)
    many = (shape["experts"],) if "experts" in shape else ()
    suffix = "_exps" if many else ""
    if many:
        yield "ffn_gate_inp", (dim, *many)
    for role, dims in (("gate", (dim, ffn)), ("up", (dim, ffn)),
                       ("down", (ffn, dim))):
        yield f"ffn_{role}{suffix}", dims + many
        if shape["arch"] == "gpt-oss":
            yield f"ffn_{role}{suffix}.bias", (dims[1], *many)
    if shape["arch"] == "gpt-oss":
        yield "ffn_gate_inp.bias", many
    if "shared" in shape:
        yield "ffn_gate_inp_shexp", (dim,)
        yield "ffn_gate_shexp", (dim, shape["shared"])
        yield "ffn_up_shexp", (dim, shape["shared"])
        yield "ffn_down_shexp", (shape["shared"], dim)


def tensors(shape, types):
    """(name, type, dims) of every tensor. `types` has the types of dense
    matrices, of experts, and of the embedding and the output."""

    def typed(name, dims):
        if len(dims) == 1 or name.endswith(".bias") or "gate_inp" in name or (
                "conv1d" in name):
            return random_models.F32
        if name in ("token_embd.weight", "output.weight"):
            return types["embedding"]
        return types["experts" if "_exps" in name else "dense"]

    names = [("token_embd", (shape["dim"], shape["vocab"]))]
    if shape["arch"] == "gemma4":
        names.append(("rope_freqs", (shape["head_dim"] // 2,)))
    for layer in range(shape["layers"]):
        mixer = (delta_net(shape) if has_state(shape, layer)
                 else attention(shape, layer))
        for role, dims in (*mixer, *network(shape)):
            names.append((f"blk.{layer}.{role}", dims))
    names.append(("output_norm", (shape["dim"],)))
    if not shape.get("tied"):
        names.append(("output", (shape["dim"], shape["vocab"])))
    for name, dims in names:
        if not name.endswith((".bias", ".ssm_a")):
            name += ".weight"
        yield name, typed(name, dims), dims


def metadata(shape):
    """The file's keys with their values, and the vocabulary."""
    arch, layers = shape["arch"], range(shape["layers"])
    kv_heads = [heads_of(shape, layer)[1] for layer in layers]
    numbers = {
        "block_count": shape["layers"], "context_length": shape["context"],
        "embedding_length": shape["dim"], "feed_forward_length": shape["ffn"],
        "attention.head_count": shape["heads"],
        "attention.key_length": shape["head_dim"],
        "attention.value_length": shape["head_dim"],
        "attention.sliding_window": shape.get("window"),
        "attention.key_length_swa": shape.get("window_head_dim"),
        "attention.value_length_swa": shape.get("window_head_dim"),
        "expert_count": shape.get("experts"),
        "expert_used_count": shape.get("used"),
        "expert_feed_forward_length": "experts" in shape and shape["ffn"],
        "expert_shared_feed_forward_length": shape.get("shared"),
        "full_attention_interval": shape.get("interval"),
        "ssm.conv_kernel": shape.get("taps"),
        "ssm.state_size": shape.get("state_dim"),
        "ssm.group_count": shape.get("state_groups"),
        "ssm.time_step_rank": shape.get("state_heads"),
        "ssm.inner_size": shape.get("state_heads", 0) * shape.get("state_dim", 0),
        "rope.dimension_count": shape.get("rotated", shape["head_dim"]),
        "rope.dimension_count_swa": shape.get("window_head_dim"),
        "rope.scaling.original_context_length": shape.get("yarn_context"),
    }
    kvs = [kv_string("general.architecture", arch)]
    kvs += [kv_u32(f"{arch}.{key}", n) for key, n in numbers.items() if n]
    kvs.append(kv_array(f"{arch}.attention.head_count_kv", 4, len(kv_heads),
                        struct.pack(f"<{len(kv_heads)}I", *kv_heads)))
    kvs.append(kv_f32(f"{arch}.attention.layer_norm_rms_epsilon", 1e-6))
    kvs.append(kv_f32(f"{arch}.rope.freq_base", shape["rope_base"]))
    if "sections" in shape:
        kvs.append(kv_array(f"{arch}.rope.dimension_sections", 5, 4,
                            struct.pack("<4i", *shape["sections"])))
    if arch == "gemma4":
        slides = bytes(not is_global(shape, layer) for layer in layers)
        kvs.append(kv_array(f"{arch}.attention.sliding_window_pattern", 7,
                            len(slides), slides))
    for kind in ("linear", "yarn"):
        if f"{kind}_factor" in shape:
            kvs.append(kv_string(f"{arch}.rope.scaling.type", kind))
            kvs.append(kv_f32(f"{arch}.rope.scaling.factor",
                              shape[f"{kind}_factor"]))
    kvs += random_models.spm_vocab(shape["vocab"])
    kvs.append(kv_u32("tokenizer.ggml.unknown_token_id", 3))
    return kvs


def n_bytes(dtype, dims):
    elems, block_bytes = random_models.BLOCKS[dtype]
    if dims[0] % elems:
        raise SystemExit(
            f"error: rows of {dims[0]} are no whole blocks of {elems}")
    return dims[0] // elems * block_bytes * int(np.prod(dims[1:], dtype=np.int64))


def vector(shape, name, n, rng):
    """Norms are near one, biases near zero. What rotates in a Gemma 4 is the
    first quarter of a head."""
    if name == "rope_freqs.weight":
        return np.where(np.arange(n) < n // 4, 1.0, 1e30)
    values = rng.uniform(-0.25, 0.25, n)
    if name.endswith(".ssm_a"):
        return values - 0.3  # states fade
    if name.endswith(".bias") or "attn_sinks" in name:
        return values
    is_head_norm = "_q_norm." in name or "_k_norm." in name
    # The scores of a Gemma 4 are not divided by the root of a head's width.
    if is_head_norm and shape["arch"] == "gemma4":
        return values + 0.75
    return values + random_models.vector_base(name)


def set_scales(blocks, dtype, gain):
    """Makes random blocks of a type weights of about 2^gain."""
    if dtype == MXFP4:
        blocks[:, 0] = 128 + gain - 3  # an exponent; values are up to 12
        return
    if dtype not in SCALES:
        random_models.set_scales(blocks, dtype, gain)
        return
    at, above = SCALES[dtype]
    exponent = max(0, 15 + gain - above)  # 0: of numbers that are not normal
    blocks[:, at + 1] = blocks[:, at + 1] & 3 | exponent << 2
    if dtype == Q2_K:  # the offset: half of the quants, or a little more
        blocks[:, at + 2] = blocks[:, at]
        blocks[:, at + 3] = blocks[:, at + 1] + 2


def chunks(rng, shape, name, dtype, dims):
    """The bytes of a tensor in pieces of whole blocks."""
    if dtype == random_models.F32:
        n = int(np.prod(dims, dtype=np.int64))
        if len(dims) == 1 or name.endswith(".bias"):
            values = vector(shape, name, n, rng)
        else:
            values = rng.standard_normal(n) / np.sqrt(dims[0])
        yield values.astype("<f4").tobytes()
        return
    block_bytes = random_models.BLOCKS[dtype][1]
    left = n_bytes(dtype, dims) // block_bytes
    while left > 0:
        n = min(left, CHUNK_BYTES // block_bytes)
        blocks = rng.integers(0, 256, (n, block_bytes), np.uint8)
        # The scales follow from the columns, so that sums stay near one.
        set_scales(blocks, dtype, random_models.gain(name, dims[0]))
        yield blocks.data
        left -= n


def write(path, shape, types, seed):
    """Writes the file of a shape; its size in bytes."""
    table = list(tensors(shape, types))
    kvs = metadata(shape)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(table), len(kvs))
    head += b"".join(kvs)
    end = 0
    for name, dtype, dims in table:
        head += random_models.string(name) + struct.pack("<I", len(dims))
        head += struct.pack(f"<{len(dims)}QIQ", *dims, dtype, end)
        end += -(-n_bytes(dtype, dims) // ALIGNMENT) * ALIGNMENT
    rng = np.random.Generator(np.random.SFC64(seed))
    done, said = 0, time.monotonic()
    partial = f"{path}.partial"
    with open(partial, "wb") as file:
        file.write(head + bytes(-len(head) % ALIGNMENT))
        for name, dtype, dims in table:
            for chunk in chunks(rng, shape, name, dtype, dims):
                done += file.write(chunk)
                if time.monotonic() - said > 1:
                    said = time.monotonic()
                    print(f"{done / 1e9:.1f} of {end / 1e9:.1f} GB",
                          file=sys.stderr)
            done += file.write(bytes(-done % ALIGNMENT))
        size = file.tell()
    os.replace(partial, path)
    return size


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="gemma3-4b",
                        help="(gemma3-4b)")
    parser.add_argument("--layers", type=int, metavar="N",
                        help="that many layers instead of the model's")
    parser.add_argument("--type", choices=TYPES, default="q4_0",
                        help="type of matrices (q4_0)")
    parser.add_argument("--experts", choices=(*TYPES, "mxfp4"),
                        help="type of experts; that of the matrices if not "
                        "given")
    parser.add_argument("--seed", type=int, default=1, help="(1)")
    parser.add_argument("out")
    args = parser.parse_args()
    shape = dict(SHAPES[args.shape])
    shape["layers"] = args.layers or shape["layers"]
    dense = TYPES[args.type]
    types = {
        "dense": dense,
        "experts": MXFP4 if args.experts == "mxfp4"
        else TYPES.get(args.experts, dense),
        # The embedding, which may be the output as well, keeps more bits.
        "embedding": random_models.Q8_0 if shape["dim"] % 256
        else random_models.Q6_K,
    }
    size = write(args.out, shape, types, args.seed)
    print(f"{args.out}: {size} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
