#!/usr/bin/env python3
"""Writes quantized.txt: rows of floats and their blocks, as llama.cpp's Python
package gguf quantises them.

  pip install gguf
  python3 tests/testdata/make_quantized.py > tests/testdata/quantized.txt

A line is a type, the bits of 256 values in hexadecimal digits, and their blocks.
"""

import random

import gguf
import numpy

SCALES = (1.0, 0.02, 1e-6, 300.0)
# Ties, a block of zeros, both signs of one magnitude, a block below every scale.
EDGES = (
    [i - 127 + 0.5 * (i % 2) for i in range(0, 256, 8)]
    + 32 * [0.0]
    + [1.0, -1.0, 0.5, -0.5] * 8
    + [(-1) ** i * 1e-30 for i in range(32)]
    + 31 * [0.0] + [-3.0]
    + [8.0 - i / 2 for i in range(32)]
    + [i / 2 - 8.0 for i in range(32)]
    + [float(i) for i in range(32)]
)


def main():
    source = random.Random(1)
    rows = [EDGES]
    rows += [[source.gauss(0, scale) for _ in range(256)] for scale in SCALES]
    for name in ("F16", "BF16", "Q8_0", "Q4_0"):
        dtype = gguf.GGMLQuantizationType[name]
        for row in rows:
            values = numpy.array(row, dtype="<f4")
            with numpy.errstate(all="ignore"):
                blocks = gguf.quants.quantize(values.reshape(1, -1), dtype)
            print(name.lower(), values.tobytes().hex(), blocks.tobytes().hex())


if __name__ == "__main__":
    main()
