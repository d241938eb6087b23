#!/usr/bin/env python3
"""Did a change make Plimsoll faster or slower?

usage: before_after.py [--runs N] BEFORE AFTER MODEL...

BEFORE and AFTER are two `plimsoll` binaries. They run in turn, and the order
changes from run to run. For each figure the medians of both and their ratio are
printed; a ratio above 1 means that AFTER is better. The exit status is 1 if a
ratio is below 1 - TOLERANCE.

Rates are tokens a second of a prompt of 512 tokens and of 1, 4 and 16 sequences
that decode at once. Start is the time of a whole process from its start to its
first token.
"""
import argparse
import os
import pathlib
import statistics
import sys

sys.path.append(str(pathlib.Path(__file__).parents[1]))

import compare  # noqa: E402
from arguments import parser_of  # noqa: E402

TOLERANCE = 0.03
RATES = ["prefill512", "decode1", "decode4", "decode16"]  # tokens a second


def figures(args, binary, model):
    """Every figure of one binary; more is better."""
    args = argparse.Namespace(**vars(args) | {"plimsoll": binary, "only": RATES})
    rates = compare.our_rates(args, model)
    return {**{name: compare.pick(rates, name) for name in RATES},
            "starts a second": 1 / compare.our_first_token(args, model),
            "1 / peak memory in GB": 1e9 / compare.pick(rates, "peak-rss")}


def compare_model(args, model):
    """Prints a model's figures; returns the worst ratio."""
    seen = {args.before: {}, args.after: {}}
    for i in range(args.runs):
        order = [args.before, args.after][:: 1 if i % 2 == 0 else -1]
        for binary in order:
            for name, value in figures(args, binary, model).items():
                seen[binary].setdefault(name, []).append(value)
    print(f"{os.path.basename(model)}, medians of {args.runs}")
    worst = float("inf")
    for name in seen[args.before]:
        before, after = (statistics.median(seen[binary][name])
                         for binary in (args.before, args.after))
        worst = min(worst, after / before)
        print(f"  {name:26} {before:10.2f} {after:10.2f} {after / before:7.3f}")
    return worst


def main():
    parser = parser_of(__doc__, runs=15, threads=os.cpu_count(), n_ctx=4096,
                       n_ubatch=512)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("models", nargs="+")
    args = parser.parse_args()
    worst = min(compare_model(args, model) for model in args.models)
    sys.exit(0 if worst >= 1 - TOLERANCE else 1)


if __name__ == "__main__":
    main()
