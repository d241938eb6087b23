#!/usr/bin/env python3
"""Perplexity of running text that is much longer than the context, by the ways
a context rolls: SHIFT, RECOMPUTE, and SHIFT with nothing pinned.

Without --text the text is this machine's licence texts. Exits with 1 if SHIFT
is worse than --limit times RECOMPUTE, or nothing pinned better than --unpinned
times SHIFT.

usage: roll.py [--plimsoll build/release/bin/plimsoll] MODEL...
"""
import argparse
import glob
import json
import os
import subprocess
import sys
import time

LICENCES = "/usr/share/common-licenses/*"
WAYS = {
    "shift": [],
    "recompute": ["--roll-method", "recompute"],
    "nothing pinned": ["--pin-tokens", "0"],
}


def read_text(paths, n_bytes):
    """The files' text, links left out, cut to whole lines."""
    text = b""
    for path in paths:
        if not os.path.islink(path):
            with open(path, "rb") as file:
                text += file.read()
    if len(text) < n_bytes:
        raise SystemExit(f"there are {len(text)} bytes of text, wanted are "
                         f"{n_bytes}; give more with --text FILE...")
    return text[:text.rindex(b"\n", 0, n_bytes) + 1]


def perplexity(args, model, text, flags):
    command = [args.plimsoll, "perplexity", "--model", model, "--file", "-",
               "-o", "json", "--n-ctx", str(args.n_ctx), "--threads",
               str(args.threads), "--context-policy", "roll",
               "--precision", args.precision, *flags]
    start = time.monotonic()
    result = subprocess.run(command, input=text, capture_output=True)
    if result.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: exit {result.returncode}\n"
                         f"{result.stderr.decode(errors='replace')}")
    answer = json.loads(result.stdout)
    answer["seconds"] = time.monotonic() - start
    return answer


def measure(args, model, text):
    """Prints a line a way; true if the limits hold."""
    print(model.rsplit("/", 1)[-1], flush=True)
    found = {}
    for way in args.ways:
        answer = perplexity(args, model, text, WAYS[way])
        found[way] = answer["perplexity"]
        print(f"  {way:14}  perplexity {answer['perplexity']:10.4f}"
              f"  tokens {answer['tokens']:.0f}"
              f"  evictions {answer['evictions']:.0f}"
              f"  {answer['seconds']:.0f} s", flush=True)
    holds = True
    if "shift" in found and "recompute" in found:
        ratio = found["shift"] / found["recompute"]
        holds = ratio <= args.limit
        print(f"  shift / recompute {ratio:.4f} (at most {args.limit})")
    if "shift" in found and "nothing pinned" in found:
        ratio = found["nothing pinned"] / found["shift"]
        holds = holds and ratio >= args.unpinned
        print(f"  nothing pinned / shift {ratio:.4f} (at least "
              f"{args.unpinned})")
    return holds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plimsoll", default="build/release/bin/plimsoll")
    parser.add_argument("--text", nargs="+", default=sorted(glob.glob(LICENCES)))
    parser.add_argument("--bytes", type=int, default=155_000)
    parser.add_argument("--n-ctx", type=int, default=1024)
    parser.add_argument("--precision", choices=("default", "exact"),
                        default="default")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--limit", type=float, default=1.02)
    parser.add_argument("--unpinned", type=float, default=1.0)
    parser.add_argument("--ways", nargs="+", choices=list(WAYS),
                        default=list(WAYS))
    parser.add_argument("models", nargs="+")
    args = parser.parse_args()
    text = read_text(args.text, args.bytes)
    results = [measure(args, model, text) for model in args.models]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
