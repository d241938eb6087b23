#!/usr/bin/env python3
"""Writes a GGUF file of Gemma 3's shape with random weights, to measure how
fast a size of model runs that nobody has to download. Without flags it is the
shape of the 4B model, some 2.4 GB. The same seed gives the same file; numpy is
needed.

usage: synthetic_model.py [--type q4_0|q4_k] [--seed N] OUT.gguf
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

CHUNK_BYTES = 64 << 20
ALIGNMENT = 32
# The embedding, which is the output as well, keeps six bits.
EMBEDDING = random_models.Q6_K


def n_bytes(dtype, cols, rows):
    elems, block_bytes = random_models.BLOCKS[dtype]
    if cols % elems:
        raise SystemExit(f"error: rows of {cols} are no whole blocks of {elems}")
    return cols // elems * rows * block_bytes


def chunks(rng, model, name, dtype, cols, rows):
    """The bytes of a tensor in pieces of whole blocks."""
    if dtype == random_models.F32:
        yield random_models.tensor_bytes(model, name, dtype, cols, rows)
        return
    block_bytes = random_models.BLOCKS[dtype][1]
    left = n_bytes(dtype, cols, rows) // block_bytes
    while left > 0:
        n = min(left, CHUNK_BYTES // block_bytes)
        blocks = rng.integers(0, 256, (n, block_bytes), np.uint8)
        # The scales follow from the columns, so that sums stay near one.
        random_models.set_scales(blocks, dtype, random_models.gain(name, cols))
        yield blocks.data
        left -= n


def write(path, shape, seed):
    """Writes the file of a shape; its size in bytes."""
    table = list(random_models.tensors(shape))
    kvs = random_models.metadata(shape)
    kvs.append(random_models.kv_u32("tokenizer.ggml.unknown_token_id", 3))
    head = b"GGUF" + struct.pack("<IQQ", 3, len(table), len(kvs))
    head += b"".join(kvs)
    end = 0
    for name, dtype, cols, rows in table:
        dims = (cols,) if rows == 1 else (cols, rows)
        head += random_models.string(name) + struct.pack("<I", len(dims))
        head += struct.pack(f"<{len(dims)}QIQ", *dims, dtype, end)
        end += -(-n_bytes(dtype, cols, rows) // ALIGNMENT) * ALIGNMENT
    rng = np.random.Generator(np.random.SFC64(seed))
    done, said = 0, time.monotonic()
    partial = f"{path}.partial"
    with open(partial, "wb") as file:
        file.write(head + bytes(-len(head) % ALIGNMENT))
        for name, dtype, cols, rows in table:
            for chunk in chunks(rng, str(seed), name, dtype, cols, rows):
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
    parser.add_argument("--type", choices=("q4_0", "q4_k"), default="q4_0")
    parser.add_argument("--seed", type=int, default=1)
    for name, value in (("layers", 34), ("dim", 2560), ("heads", 8),
                        ("kv-heads", 4), ("head-dim", 256), ("ffn", 10240),
                        ("vocab", 262144), ("window", 1024),
                        ("context", 131072)):
        parser.add_argument(f"--{name}", type=int, default=value,
                            help=f"({value})")
    parser.add_argument("out")
    args = parser.parse_args()
    if not random_models.VOCAB <= args.vocab <= random_models.VOCAB + 26**4:
        parser.error(f"--vocab is at least {random_models.VOCAB} and at most "
                     f"{random_models.VOCAB + 26**4}")
    shape = {name: getattr(args, name) for name in
             ("layers", "dim", "heads", "kv_heads", "head_dim", "ffn", "vocab",
              "window", "context")}
    kinds = {"q4_0": random_models.Q4_0, "q4_k": random_models.Q4_K}
    shape |= {"arch": "gemma3", "rope_factor": 8.0, "default": kinds[args.type],
              "types": {"token_embd": EMBEDDING}}
    size = write(args.out, shape, args.seed)
    print(f"{args.out}: {size} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
