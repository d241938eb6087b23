#!/usr/bin/env python3
"""Tiny random models, and what they say according to plain float64 arithmetic.

Writes random_models.json beside itself (or GGUF files too, with --out DIR).
tests/worker/random_model.cc writes the same files byte for byte, so that
no model needs to be stored; their hash in the JSON holds the two together.
The forward pass here shares nothing with the worker: numpy, whole sequences,
no cache, weights dequantised from the file's own bytes.
"""

import argparse
import itertools
import json
import math
import pathlib
import struct

import numpy as np

MASK = (1 << 64) - 1
GAMMA = 0x9E3779B97F4A7C15
F32, F16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 = 0, 1, 2, 3, 6, 7, 8
Q4_K, Q5_K, Q6_K, BF16 = 12, 13, 14, 30
# Elements and bytes of a block.
BLOCKS = {F32: (1, 4), F16: (1, 2), BF16: (1, 2), Q4_0: (32, 18),
          Q4_1: (32, 20), Q5_0: (32, 22), Q5_1: (32, 24), Q8_0: (32, 34),
          Q4_K: (256, 144), Q5_K: (256, 176), Q6_K: (256, 210)}
VOCAB = 323
CONTEXT = 4096
MARGIN = 0.02  # between the first and the second token of a step

MODELS = {
    "llama_f32": dict(
        arch="llama", dim=64, heads=4, kv_heads=2, head_dim=16, ffn=128,
        layers=2, types={}, default=F32, rope_freqs=True),
    "llama_half": dict(
        arch="llama", dim=80, heads=5, kv_heads=1, head_dim=16, ffn=112,
        layers=2, types={"attn_v": BF16, "ffn_down": BF16, "output": BF16},
        default=F16, untied=True),
    "llama_q4_1": dict(
        arch="llama", dim=96, heads=3, kv_heads=1, head_dim=32, ffn=160,
        layers=3, types={"token_embd": Q8_0}, default=Q4_1),
    "gemma_q5_0": dict(
        arch="gemma3", dim=96, heads=4, kv_heads=1, head_dim=32, ffn=160,
        layers=7, window=16, types={"token_embd": Q8_0, "attn_v": Q8_0},
        default=Q5_0),
    "gemma_k": dict(
        arch="gemma3", dim=256, heads=4, kv_heads=2, head_dim=64, ffn=512,
        layers=3, window=24, pattern=[True, False, True], rope_factor=8.0,
        types={"token_embd": Q6_K, "attn_v": Q6_K, "ffn_down": Q6_K},
        default=Q4_K),
    "llama_mixed": dict(
        arch="llama", dim=256, heads=4, kv_heads=2, head_dim=64, ffn=512,
        layers=2, types={"attn_v": Q5_K, "ffn_up": Q5_1, "ffn_down": Q5_K},
        default=Q4_0),
}


# --- random bytes -----------------------------------------------------------

def fnv1a(data):
    h = 0xCBF29CE484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001B3 & MASK
    return h


def random_bytes(seed, n):
    """splitmix64's numbers after `seed`, little-endian, cut to n bytes."""
    count = (n + 7) // 8
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.uint64(GAMMA) * np.arange(
            1, count + 1, dtype=np.uint64)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return z.astype("<u8").tobytes()[:n]


def gain(name, cols):
    """Weights of the matrix are about as large as 2^gain."""
    if name in ("token_embd.weight", "output.weight"):
        return -5
    g = -(cols.bit_length() // 2)
    return g + 1 if "attn_q." in name or "attn_k." in name else g


def vector_base(name):
    """The middle of a norm's weights: logits and scores must differ enough."""
    if name == "output_norm.weight":
        return 6.0
    return 1.75 if "_q_norm." in name or "_k_norm." in name else 1.0


def tensor_bytes(model, name, dtype, cols, rows):
    elems, block_bytes = BLOCKS[dtype]
    n_blocks = cols // elems * rows
    raw = np.frombuffer(
        random_bytes(fnv1a(f"{model}/{name}".encode()),
                     n_blocks * block_bytes), np.uint8).copy()
    if name == "rope_freqs.weight":
        return (1.0 + np.arange(cols) % 4).astype("<f4").tobytes()
    if rows == 1 and dtype == F32:
        u = ((raw.view("<u4") >> 12).astype(np.int64) - 2**19) / 2**19
        return (vector_base(name) + 0.25 * u).astype("<f4").tobytes()
    g = gain(name, cols)
    if dtype == F32:
        u = ((raw.view("<u4") >> 12).astype(np.int64) - 2**19) / 2**19
        return (u * 2.0**g).astype("<f4").tobytes()
    if dtype in (F16, BF16):
        bits = raw.view("<u2").astype(np.int64)
        shift, keep, bias = (10, 0x83FF, 15) if dtype == F16 else \
            (7, 0x807F, 127)
        exponent = bias + g - 3 + (bits >> shift & 3)
        return (bits & keep | exponent << shift).astype("<u2").tobytes()
    blocks = raw.reshape(n_blocks, block_bytes)
    set_scales(blocks, dtype, g)
    return blocks.tobytes()


def set_scales(blocks, dtype, g):
    """Makes random blocks of a quantised type weights of about 2^g."""
    at = 208 if dtype == Q6_K else 0
    below = {Q8_0: 6, Q4_0: 2, Q4_1: 2, Q5_0: 3, Q5_1: 3, Q4_K: 8, Q5_K: 9,
             Q6_K: 10}[dtype]
    d = blocks[:, at].astype(np.int64) | blocks[:, at + 1].astype(
        np.int64) << 8
    d = d & 0x03FF | (15 + g - below) << 10
    blocks[:, at], blocks[:, at + 1] = d & 255, d >> 8
    if dtype in (Q4_1, Q5_1, Q4_K, Q5_K):  # the offset, half of the quants
        old = blocks[:, 2].astype(np.int64)
        m = d + (0x1000 if dtype in (Q5_1, Q5_K) else 0x0C00) ^ old & 0x3F
        if dtype in (Q4_1, Q5_1):
            m |= 0x8000
        blocks[:, 2], blocks[:, 3] = m & 255, m >> 8


# --- the file ---------------------------------------------------------------

def string(text):
    data = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(data)) + data


def kv_u32(key, value):
    return string(key) + struct.pack("<II", 4, value)


def kv_f32(key, value):
    return string(key) + struct.pack("<If", 6, value)


def kv_bool(key, value):
    return string(key) + struct.pack("<IB", 7, value)


def kv_string(key, value):
    return string(key) + struct.pack("<I", 8) + string(value)


def kv_array(key, element_type, n, data):
    return string(key) + struct.pack("<IIQ", 9, element_type, n) + data


def spm_vocab(n=VOCAB):
    """n tokens, of which those beyond VOCAB are words of four letters."""
    tokens = ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>",
              "<end_of_turn>"]
    types = [3, 3, 3, 2, 3, 3]
    tokens += [f"<0x{b:02X}>" for b in range(256)]
    types += [6] * 256
    letters = [chr(ord("a") + i) for i in range(26)]
    tokens += ["\u2581"] + letters + ["\u2581" + c for c in letters]
    tokens += ["th", "he", "in", "er", "an", "re", "on", "at"]
    words = itertools.product(letters, repeat=4)
    tokens += map("".join, itertools.islice(words, n - VOCAB))
    types += [1] * (len(tokens) - len(types))
    scores = [0.0] * 262 + [-float(i) for i in range(len(tokens) - 262)]
    return [
        kv_string("tokenizer.ggml.model", "llama"),
        kv_array("tokenizer.ggml.tokens", 8, n,
                 b"".join(map(string, tokens))),
        kv_array("tokenizer.ggml.scores", 6, n,
                 struct.pack(f"<{n}f", *scores)),
        kv_array("tokenizer.ggml.token_type", 5, n,
                 struct.pack(f"<{n}i", *types)),
        kv_u32("tokenizer.ggml.bos_token_id", 2),
        kv_u32("tokenizer.ggml.eos_token_id", 1),
        kv_bool("tokenizer.ggml.add_bos_token", True),
        kv_bool("tokenizer.ggml.add_space_prefix", False),
    ]


def bpe_vocab():
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = [b for b in range(256) if b not in printable]
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    for b in range(256):
        tokens.append(chr(b if b in printable else 256 + other.index(b)))
    merges = [f"{a} {b}" for a in "abcdefgh" for b in "stuvwxyz"]
    tokens += [m.replace(" ", "") for m in merges]
    types = [3] * 3 + [1] * (VOCAB - 3)
    return [
        kv_string("tokenizer.ggml.model", "gpt2"),
        kv_string("tokenizer.ggml.pre", "smollm"),
        kv_array("tokenizer.ggml.tokens", 8, VOCAB,
                 b"".join(map(string, tokens))),
        kv_array("tokenizer.ggml.token_type", 5, VOCAB,
                 struct.pack(f"<{VOCAB}i", *types)),
        kv_array("tokenizer.ggml.merges", 8, len(merges),
                 b"".join(map(string, merges))),
        kv_u32("tokenizer.ggml.bos_token_id", 1),
        kv_u32("tokenizer.ggml.eos_token_id", 2),
        kv_bool("tokenizer.ggml.add_bos_token", False),
    ]


def metadata(m):
    a = m["arch"]
    kvs = [
        kv_string("general.architecture", a),
        kv_u32(f"{a}.block_count", m["layers"]),
        kv_u32(f"{a}.context_length", m.get("context", CONTEXT)),
        kv_u32(f"{a}.embedding_length", m["dim"]),
        kv_u32(f"{a}.feed_forward_length", m["ffn"]),
        kv_u32(f"{a}.attention.head_count", m["heads"]),
        kv_u32(f"{a}.attention.head_count_kv", m["kv_heads"]),
        kv_u32(f"{a}.attention.key_length", m["head_dim"]),
        kv_u32(f"{a}.attention.value_length", m["head_dim"]),
        kv_f32(f"{a}.attention.layer_norm_rms_epsilon", 1e-5),
        kv_f32(f"{a}.rope.freq_base", 1e6 if a == "gemma3" else 1e4),
    ]
    if a == "llama":
        kvs.append(kv_u32("llama.rope.dimension_count", m["head_dim"]))
    if "window" in m:
        kvs.append(kv_u32("gemma3.attention.sliding_window", m["window"]))
    if "pattern" in m:
        kvs.append(kv_array("gemma3.attention.sliding_window_pattern", 7,
                            m["layers"], bytes(m["pattern"])))
    if "rope_factor" in m:
        kvs.append(kv_string("gemma3.rope.scaling.type", "linear"))
        kvs.append(kv_f32("gemma3.rope.scaling.factor", m["rope_factor"]))
    if a == "gemma3":
        return kvs + spm_vocab(m.get("vocab", VOCAB))
    return kvs + bpe_vocab()


def tensors(m):
    """(name, type, cols, rows) of every tensor; rows 1 is a vector."""
    d, hd = m["dim"], m["head_dim"]
    q, kv, f = m["heads"] * hd, m["kv_heads"] * hd, m["ffn"]
    gemma = m["arch"] == "gemma3"

    def kind(role):
        return m["types"].get(role, m["default"])

    yield "token_embd.weight", kind("token_embd"), d, m.get("vocab", VOCAB)
    if m.get("rope_freqs"):
        yield "rope_freqs.weight", F32, hd // 2, 1
    for il in range(m["layers"]):
        matrices = [("attn_q", d, q), ("attn_k", d, kv), ("attn_v", d, kv),
                    ("attn_output", q, d), ("ffn_gate", d, f),
                    ("ffn_up", d, f), ("ffn_down", f, d)]
        vectors = [("attn_norm", d), ("ffn_norm", d)]
        if gemma:
            vectors += [("attn_q_norm", hd), ("attn_k_norm", hd),
                        ("post_attention_norm", d), ("post_ffw_norm", d)]
        for role, cols in vectors:
            yield f"blk.{il}.{role}.weight", F32, cols, 1
        for role, cols, rows in matrices:
            yield f"blk.{il}.{role}.weight", kind(role), cols, rows
    yield "output_norm.weight", F32, d, 1
    if m.get("untied"):
        yield "output.weight", kind("output"), d, VOCAB


def write_file(name):
    """The whole file, and the bytes of each tensor."""
    m = MODELS[name]
    kvs = metadata(m)
    infos, data, by_name = b"", b"", {}
    table = list(tensors(m))
    for tensor, dtype, cols, rows in table:
        content = tensor_bytes(name, tensor, dtype, cols, rows)
        by_name[tensor] = (dtype, cols, rows, content)
        dims = (cols,) if rows == 1 else (cols, rows)
        infos += string(tensor) + struct.pack("<I", len(dims))
        infos += struct.pack(f"<{len(dims)}Q", *dims)
        infos += struct.pack("<IQ", dtype, len(data))
        data += content + bytes(-len(content) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(table), len(kvs))
    head += b"".join(kvs) + infos
    return head + bytes(-len(head) % 32) + data, by_name


# --- dequantisation ---------------------------------------------------------

def half(blocks, at):
    pair = np.ascontiguousarray(blocks[:, at:at + 2])
    return pair.view("<f2").astype(np.float64)


def nibbles(qs):
    """Low nibbles, then high ones."""
    return np.concatenate([qs & 15, qs >> 4], axis=1).astype(np.int64)


def six_bit_scales(s):
    s = s.astype(np.int64)
    sc, mn = np.zeros((2, len(s), 8))
    for j in range(8):
        if j < 4:
            sc[:, j], mn[:, j] = s[:, j] & 63, s[:, j + 4] & 63
        else:
            sc[:, j] = s[:, j + 4] & 15 | s[:, j - 4] >> 6 << 4
            mn[:, j] = s[:, j + 4] >> 4 | s[:, j] >> 6 << 4
    return sc, mn


def fifths(qh):
    """Bit e of a little-endian u32 is element e's, worth 16."""
    bits = np.ascontiguousarray(qh).view("<u4").astype(np.int64)
    return (bits >> np.arange(32) & 1) << 4


def q4_k(b):
    return scaled_k(b, b[:, 16:], np.zeros((len(b), 32), np.int64))


def q5_k(b):
    return scaled_k(b, b[:, 48:], b[:, 16:48].astype(np.int64))


def scaled_k(b, nibbles_of_pairs, qh):
    sc, mn = six_bit_scales(b[:, 4:16])
    q = np.zeros((len(b), 8, 32))
    for j in range(8):
        qs = nibbles_of_pairs[:, 32 * (j // 2):32 * (j // 2) + 32]
        q[:, j] = (qs >> 4 if j % 2 else qs & 15) + 16 * (qh >> j & 1)
    d, dmin = half(b, 0)[:, :, None], half(b, 2)[:, :, None]
    return d * sc[:, :, None] * q - dmin * mn[:, :, None]


def q6_k(b):
    out = np.zeros((len(b), 256))
    scales = np.ascontiguousarray(b[:, 192:208]).view(np.int8)
    for e in range(256):
        h, r = divmod(e, 128)
        g, l = divmod(r, 32)
        low = b[:, 64 * h + l + 32 * (g & 1)].astype(np.int64)
        low = low & 15 if g < 2 else low >> 4
        high = b[:, 128 + 32 * h + l].astype(np.int64) >> 2 * g & 3
        out[:, e] = scales[:, e // 16] * ((low | high << 4) - 32.0)
    return half(b, 208) * out


def dequantise(dtype, cols, rows, content):
    if dtype == F32:
        values = np.frombuffer(content, "<f4").astype(np.float64)
    elif dtype == F16:
        values = np.frombuffer(content, "<f2").astype(np.float64)
    elif dtype == BF16:
        bits = np.frombuffer(content, "<u2").astype(np.uint32) << 16
        values = bits.view(np.float32).astype(np.float64)
    else:
        b = np.frombuffer(content, np.uint8).reshape(-1, BLOCKS[dtype][1])
        if dtype == Q8_0:
            values = half(b, 0) * b[:, 2:].view(np.int8)
        elif dtype == Q4_0:
            values = half(b, 0) * (nibbles(b[:, 2:]) - 8)
        elif dtype == Q4_1:
            values = half(b, 0) * nibbles(b[:, 4:]) + half(b, 2)
        elif dtype == Q5_0:
            q = nibbles(b[:, 6:]) | fifths(b[:, 2:6])
            values = half(b, 0) * (q - 16)
        elif dtype == Q5_1:
            q = nibbles(b[:, 8:]) | fifths(b[:, 4:8])
            values = half(b, 0) * q + half(b, 2)
        else:
            values = {Q4_K: q4_k, Q5_K: q5_k, Q6_K: q6_k}[dtype](b)
    return values.reshape(cols) if rows == 1 else values.reshape(rows, cols)


# --- the forward pass -------------------------------------------------------

EPS = float(np.float32(1e-5))


def rms(x, weight):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + EPS) * weight


def rope(x, base, scale, factors, interleaved):
    """x [T, heads, hd], rotated by its positions 0..T-1."""
    half_dim = x.shape[2] // 2
    theta = base ** (-2.0 * np.arange(half_dim) / x.shape[2]) * scale / factors
    angle = np.arange(len(x))[:, None, None] * theta
    cos, sin = np.cos(angle), np.sin(angle)
    out = np.empty_like(x)
    if interleaved:
        a, b = x[..., 0::2], x[..., 1::2]
        out[..., 0::2], out[..., 1::2] = a * cos - b * sin, a * sin + b * cos
    else:
        a, b = x[..., :half_dim], x[..., half_dim:]
        out[..., :half_dim] = a * cos - b * sin
        out[..., half_dim:] = a * sin + b * cos
    return out


def attention(q, k, v, window):
    n, heads, hd = q.shape
    shared = heads // k.shape[1]
    i, j = np.arange(n)[:, None], np.arange(n)[None, :]
    allowed = (j <= i) if window == 0 else (j <= i) & (i - j < window)
    out = np.empty_like(q)
    for h in range(heads):
        score = q[:, h] @ k[:, h // shared].T / math.sqrt(hd)
        score = np.where(allowed, score, -np.inf)
        p = np.exp(score - score.max(axis=1, keepdims=True))
        out[:, h] = p / p.sum(axis=1, keepdims=True) @ v[:, h // shared]
    return out.reshape(n, heads * hd)


def silu(x):
    return x / (1 + np.exp(-x))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(
        math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def layer_rope(m, w, il):
    """(window, base, scale, frequency factors) of a layer."""
    factors = w.get("rope_freqs.weight", np.ones(m["head_dim"] // 2))
    if m["arch"] == "llama":
        return 0, 1e4, 1.0, factors
    pattern = m.get("pattern", [i % 6 != 5 for i in range(m["layers"])])
    if pattern[il]:
        return m["window"], 1e4, 1.0, factors
    return 0, 1e6, 1.0 / m.get("rope_factor", 1.0), factors


def last_logits(m, w, ids):
    gemma = m["arch"] == "gemma3"
    n = len(ids)
    x = w["token_embd.weight"][ids]
    if gemma:
        x = x * math.sqrt(m["dim"])
    for il in range(m["layers"]):
        def t(role):
            return w[f"blk.{il}.{role}.weight"]
        window, base, scale, factors = layer_rope(m, w, il)
        a = rms(x, t("attn_norm"))
        q = (a @ t("attn_q").T).reshape(n, m["heads"], m["head_dim"])
        k = (a @ t("attn_k").T).reshape(n, m["kv_heads"], m["head_dim"])
        v = (a @ t("attn_v").T).reshape(n, m["kv_heads"], m["head_dim"])
        if gemma:
            q, k = rms(q, t("attn_q_norm")), rms(k, t("attn_k_norm"))
        q = rope(q, base, scale, factors, not gemma)
        k = rope(k, base, scale, factors, not gemma)
        o = attention(q, k, v, window) @ t("attn_output").T
        x = x + (rms(o, t("post_attention_norm")) if gemma else o)
        f = rms(x, t("ffn_norm"))
        activation = gelu_tanh if gemma else silu
        f = activation(f @ t("ffn_gate").T) * (f @ t("ffn_up").T)
        f = f @ t("ffn_down").T
        x = x + (rms(f, t("post_ffw_norm")) if gemma else f)
    x = rms(x[-1], w["output_norm.weight"])
    return w.get("output.weight", w["token_embd.weight"]) @ x


def golden_case(m, w, prompt, n_steps):
    """The greedy continuation, or None if a step of it is too close to call."""
    ids, steps = [int(i) for i in prompt], []
    for _ in range(n_steps):
        logits = last_logits(m, w, ids)
        log_p = logits - logits.max()
        log_p -= math.log(np.exp(log_p).sum())
        order = np.argsort(-log_p, kind="stable")[:10]
        if log_p[order[0]] - log_p[order[1]] < MARGIN:
            return None
        steps.append({"id": int(order[0]),
                      "top": [[int(i), round(float(log_p[i]), 6)]
                              for i in order]})
        ids.append(int(order[0]))
    return {"prompt_ids": ids[:len(prompt)], "steps": steps}


def golden(name):
    content, by_name = write_file(name)
    w = {key: dequantise(*value) for key, value in by_name.items()}
    cases = []
    for n in (1, 5, 33, 90, 150):
        case = None
        salt = 0
        while case is None:
            salt += 1
            seed = fnv1a(f"{name}/{n}/{salt}".encode())
            raw = np.frombuffer(random_bytes(seed, 8 * n), "<u8")
            case = golden_case(MODELS[name], w, raw % np.uint64(VOCAB), 8)
        cases.append(case)
    return content, {"file_hash": f"{fnv1a(content):016x}", "cases": cases}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path,
                        help="write the GGUF files into this folder too")
    args = parser.parse_args()
    result = {}
    for name in MODELS:
        content, result[name] = golden(name)
        if args.out:
            args.out.mkdir(parents=True, exist_ok=True)
            (args.out / f"{name}.gguf").write_bytes(content)
        print(f"{name}: {len(content)} bytes")
    target = pathlib.Path(__file__).parent / "random_models.json"
    text = json.dumps(result, separators=(",", ":"))
    target.write_text(text.replace('{"id"', '\n{"id"') + "\n")


if __name__ == "__main__":
    main()
