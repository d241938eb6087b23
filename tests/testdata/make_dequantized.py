#!/usr/bin/env python3
"""Writes dequantized.txt: blocks of random bytes in each quantised element type
and their values, as llama.cpp's Python package gguf dequantises them.

  pip install gguf
  python3 tests/testdata/make_dequantized.py > tests/testdata/dequantized.txt

A line is a type, the blocks of 256 elements in hexadecimal digits, and the bits
of their values. Blocks whose values are not all finite are drawn again.
"""

import random

import gguf
import numpy

TYPES = ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K",
         "MXFP4", "IQ4_NL", "IQ4_XS", "Q3_K", "Q2_K", "TQ2_0", "IQ2_XXS", "IQ2_XS",
         "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S", "IQ1_M", "TQ1_0", "NVFP4"]


def draw(source, dtype):
    """Returns a block's bytes and its values."""
    _, n_bytes = gguf.GGML_QUANT_SIZES[dtype]
    while True:
        block = numpy.frombuffer(source.randbytes(n_bytes), dtype=numpy.uint8)
        with numpy.errstate(all="ignore"):
            values = gguf.quants.dequantize(block.reshape(1, -1), dtype)
        if numpy.isfinite(values).all():
            return block.tobytes(), values.astype("<f4").tobytes()


def main():
    source = random.Random(1)
    for name in TYPES:
        dtype = gguf.GGMLQuantizationType[name]
        n_elements, _ = gguf.GGML_QUANT_SIZES[dtype]
        drawn = [draw(source, dtype) for _ in range(256 // n_elements)]
        blocks = b"".join(block for block, _ in drawn)
        values = b"".join(values for _, values in drawn)
        print(name.lower().replace("_k", "_K"), blocks.hex(), values.hex())


if __name__ == "__main__":
    main()
