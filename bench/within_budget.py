#!/usr/bin/env python3
"""Shows that a model stays within a budget: plans it with the longest context
that fits, loads it so, has it answer a long prompt, and compares its peak
memory with the plan. Exit code 1 if the peak is above the plan.

examples:
  synthetic_model.py --shape gemma4-12b gemma4-12b.gguf
  within_budget.py gemma4-12b.gguf --device-memory 12878086144
"""
import argparse
import bisect
import datetime
import json
import pathlib
import random
import string
import subprocess
import sys
import tempfile
import time

SEED = 1


def run(command):
    """Returns the JSON that a command prints, and the seconds that it took."""
    start = time.monotonic()
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {result.returncode}\n{result.stderr}")
    return json.loads(result.stdout), time.monotonic() - start


def prompt(plimsoll, model, n_tokens):
    """The start of a text of random letters that is `n_tokens` tokens."""
    rng = random.Random(SEED)
    text = "".join(rng.choices(string.ascii_lowercase, k=4 * n_tokens))

    def count(length):
        found, _ = run([plimsoll, "tokenize", "--model", model, "--special",
                        "--text", text[:length], "-o", "json"])
        return len(found["ids"])

    length = bisect.bisect_left(range(len(text)), n_tokens, key=count)
    return text[:length]


def cpu():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(": ", 1)[1] for line in lines
             if line.startswith("model name")]
    return f"{names[0]}, {len(names)} cores"


def measure(args):
    flags = ["--n-ctx", "max", "--device-memory", str(args.device_memory)]
    plan, _ = run([args.plimsoll, "plan", args.model, "-o", "json", *flags])
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(prompt(args.plimsoll, args.model, args.prompt_tokens))
        file.flush()
        reply, seconds = run([
            args.plimsoll, "generate", "--model", args.model, "--raw", "--file",
            file.name, "--max-tokens", str(args.max_tokens), "--temperature",
            "0", "--ignore-eos", "-o", "json", *flags])
    return plan, reply, seconds


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--plimsoll", default="build/release/bin/plimsoll")
    parser.add_argument("--device-memory", type=int, required=True,
                        metavar="BYTES", help="the budget")
    parser.add_argument("--prompt-tokens", type=int, default=5052, metavar="N",
                        help="(5052)")
    parser.add_argument("--max-tokens", type=int, default=16, metavar="N",
                        help="(16)")
    parser.add_argument("model")
    args = parser.parse_args()
    plan, reply, seconds = measure(args)
    total = int(plan["total_bytes"])
    memory, usage = reply["memory"], reply["usage"]
    peak = int(memory["peak_rss_bytes"])
    rows = [
        ("budget", args.device_memory),
        ("context planned and loaded, tokens", plan["n_ctx"]),
        ("plan", total),
        ("arena planned", memory["planned_bytes"]),
        ("arena allocated", memory["allocated_bytes"]),
        ("peak resident memory", peak),
        ("tokens of the prompt", usage["prompt_tokens"]),
        ("tokens generated", usage["generated_tokens"]),
        ("seconds, load included", round(seconds)),
    ]
    print(f"- Date: {datetime.date.today()}\n- CPU: {cpu()}\n")
    print("| what | bytes, if not said otherwise |\n|---|---:|")
    for name, value in rows:
        print(f"| {name} | {int(value):,} |")
    if peak > total or total > args.device_memory:
        sys.exit("the peak is above the plan, or the plan above the budget")


if __name__ == "__main__":
    main()
