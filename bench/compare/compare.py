#!/usr/bin/env python3
"""Runs llama-cpp-python's engine and Plimsoll in turn on the same files,
threads, context and element types, and prints both and their ratios.

usage: compare.py --plimsoll build/release/bin/plimsoll MODEL...

Every run is a process of its own. Rates: tokens a second of a prompt, and of 1,
4 or 16 sequences that decode greedily at once. Start to first token: of ours
the whole process; of the other from before it loads the model, so that Python
costs it nothing. Peak memory: of a process that has prefilled and decoded one
sequence; of the other without what Python and its modules took before the load.

Needs llama-cpp-python in this Python (it builds from source; where the machine
announces AMX and then traps it: CMAKE_ARGS="-DGGML_AMX_INT8=OFF
-DGGML_AMX_TILE=OFF -DGGML_AMX_BF16=OFF").
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

sys.path.append(str(pathlib.Path(__file__).parents[1]))

import report  # noqa: E402
from arguments import parser_of  # noqa: E402

PEER_SCRIPT = str(pathlib.Path(__file__).with_name("peer.py"))
PROMPT = "The capital of France is"
STARTS = 3  # starts of each engine in a run
BEGIN, END = "<!-- compare.py begin -->", "<!-- compare.py end -->"


def run(command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: exit {result.returncode}\n"
                         f"{result.stderr[-2000:]}")
    return result.stdout


def numbers(names, word):
    """The numbers of the chosen figures of a kind: "decode1" has 1."""
    return [int(name.removeprefix(word)) for name in names
            if re.fullmatch(rf"{word}\d+", name)]


def load_flags(args):
    return ["--threads", str(args.threads), "--n-ctx", str(args.n_ctx),
            "--n-ubatch", str(args.n_ubatch)]


def peer_command(args, model, *flags):
    return [sys.executable, PEER_SCRIPT, *load_flags(args), *flags, model]


def joined(counts):
    return ",".join(map(str, counts))


def work(args):
    """Prompts and sequences of one process."""
    prompts = numbers(args.only, "prefill") or [512]
    batches = set(numbers(args.only, "decode"))
    if "all-logits" in args.only or not batches:
        batches.add(1)
    return joined(prompts), joined(sorted(batches))


def peer_rates(args, model):
    prompts, batches = work(args)
    return json.loads(run(peer_command(args, model, "--prompts", prompts,
                                       "--batches", batches)))


def our_rates(args, model):
    prompts, batches = work(args)
    result = json.loads(run([
        args.plimsoll, "bench", "--model", model, "-o", "json",
        "--prompt-tokens", prompts, "--batch", batches, *load_flags(args)]))
    return {"prefill": result["prefill_tokens_per_s"],
            "decode": result["decode_tokens_per_s"],
            "all_logits": result["decode_all_logits_tokens_per_s"],
            "peak_rss": result["peak_rss_bytes"]}


def first_tokens(args, model):
    """Medians of a few starts in turn: whoever comes first after others gave
    their memory back waits for the system to find some."""
    theirs, ours = [], []
    for _ in range(STARTS):
        theirs.append(peer_first_token(args, model))
        ours.append(our_first_token(args, model))
    return statistics.median(theirs), statistics.median(ours)


def peer_first_token(args, model):
    result = run(peer_command(args, model, "--first-token", PROMPT))
    return json.loads(result)["first_token"]


def our_first_token(args, model):
    begin = time.perf_counter()
    run([args.plimsoll, "generate", "--model", model, "--prompt", PROMPT,
         "--raw", "--max-tokens", "1", "--temperature", "0",
         *load_flags(args)])
    return time.perf_counter() - begin


def pick(rates, name):
    """One figure of what a process measured."""
    if name == "peak-rss":
        return rates["peak_rss"]
    if name == "all-logits":  # the other engine always computes all logits
        return rates.get("all_logits", rates["decode"])["1"]
    word, number = re.fullmatch(r"(\D+)(\d+)", name).groups()
    return rates[word][number]


def measure_model(args, model, result):
    """Every chosen figure of a model, run by run, the other engine first."""
    figures = {name: {"plimsoll": [], "peer": []} for name in args.only}
    rates = [name for name in args.only if name != "first-token"]
    for i in range(args.runs):
        print(f"{os.path.basename(model)}: run {i + 1} of {args.runs}",
              file=sys.stderr)
        if rates:
            theirs, ours = peer_rates(args, model), our_rates(args, model)
        for name in rates:
            figures[name]["peer"].append(pick(theirs, name))
            figures[name]["plimsoll"].append(pick(ours, name))
        if "first-token" in figures:
            theirs, ours = first_tokens(args, model)
            figures["first-token"]["peer"].append(theirs)
            figures["first-token"]["plimsoll"].append(ours)
    result["models"][os.path.basename(model).removesuffix(".gguf")] = figures


def measure(args):
    version = json.loads(run([args.plimsoll, "version", "-o", "json"]))
    peer = run([sys.executable, "-c",
                "import llama_cpp; print(llama_cpp.__version__)"]).strip()
    result = {"date": datetime.date.today().isoformat(),
              "cpu": f"{version['cpu']} ({version['cpu_target']})",
              "threads": args.threads,
              "versions": {"plimsoll": version["version"], "peer": peer},
              "models": {}}
    for model in args.models:
        measure_model(args, model, result)
    return result


def chosen(text):
    """Figures by name, or all of a kind: "prefill,decode1"."""
    names = []
    for part in text.split(","):
        found = [name for name in report.FIGURES
                 if part in (name, name.rstrip("0123456789"))]
        if not found:
            raise argparse.ArgumentTypeError(
                f"'{part}' is not one of {', '.join(report.FIGURES)}")
        names += found
    return names


def parse_args():
    parser = parser_of(__doc__, threads=os.cpu_count(), n_ctx=4096, n_ubatch=512,
                       runs=5)
    parser.add_argument("--plimsoll", default="build/release/bin/plimsoll")
    parser.add_argument("--only", type=chosen, default=list(report.FIGURES),
                        metavar="FIGURE,...",
                        help="prefill, decode, or of " +
                        ", ".join(report.FIGURES))
    parser.add_argument("--json", metavar="FILE", help="write the figures")
    parser.add_argument("--svg", metavar="FILE", help="draw the ratios")
    parser.add_argument("--readme", metavar="FILE",
                        help=f"put the table between {BEGIN} and {END}")
    parser.add_argument("--load", metavar="FILE",
                        help="measure nothing; take what --json wrote")
    parser.add_argument("models", nargs="*", metavar="MODEL")
    args = parser.parse_args()
    if bool(args.models) == bool(args.load):
        parser.error("give either models or --load")
    return args


def write(path, text):
    pathlib.Path(path).write_text(text, encoding="utf-8")


def main():
    args = parse_args()
    if args.load:
        result = json.loads(pathlib.Path(args.load).read_text(encoding="utf-8"))
    else:
        result = measure(args)
    if args.json:
        write(args.json, json.dumps(result, indent=1) + "\n")
    if args.svg:
        write(args.svg, report.svg(result))
    if args.readme:
        readme = pathlib.Path(args.readme).read_text(encoding="utf-8")
        write(args.readme, report.replace_between(
            readme, BEGIN, END, report.markdown(result)))
    print(report.table(result))


if __name__ == "__main__":
    main()
