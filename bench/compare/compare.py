#!/usr/bin/env python3
"""Runs llama-cpp-python's engine and Plimsoll alternately on the same file and
threads, and prints the ratios.

usage: compare.py --plimsoll build/release/bin/plimsoll --model FILE [--runs N]

Needs llama-cpp-python in this Python (it builds from source; where the machine
announces AMX and then traps it: CMAKE_ARGS="-DGGML_AMX_INT8=OFF
-DGGML_AMX_TILE=OFF -DGGML_AMX_BF16=OFF").
"""
import argparse
import json
import random
import statistics
import subprocess
import sys
import time

PEER = "llama-cpp-python"


def peer_rates(path, threads, n_prompt, n_decode):
    import llama_cpp

    llm = llama_cpp.Llama(path, n_ctx=n_prompt + n_decode + 8, n_batch=512,
                          n_ubatch=512, n_threads=threads,
                          n_threads_batch=threads, verbose=False)
    rng = random.Random(7)
    ids = [rng.randrange(1000, llm.n_vocab() - 1000) for _ in range(n_prompt)]
    llm.eval(ids[:16])  # warm up
    llm.reset()
    start = time.perf_counter()
    llm.eval(ids)
    prefill = n_prompt / (time.perf_counter() - start)
    llm.reset()
    llm.eval(ids[:16])
    start = time.perf_counter()
    for i in range(n_decode - 1):
        llm.eval([ids[16 + i % 64]])
    decode = (n_decode - 1) / (time.perf_counter() - start)
    print(json.dumps({"prefill": prefill, "decode": decode}))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plimsoll")
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt-tokens", type=int, default=512)
    parser.add_argument("--decode-tokens", type=int, default=64)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peer:
        peer_rates(args.model, args.threads, args.prompt_tokens,
                   args.decode_tokens)
        return
    if not args.plimsoll:
        parser.error("--plimsoll is required")
    ours, theirs = [], []
    for _ in range(args.runs):
        command = [sys.executable, __file__, "--peer", "--model", args.model,
                   "--threads", str(args.threads),
                   "--prompt-tokens", str(args.prompt_tokens),
                   "--decode-tokens", str(args.decode_tokens)]
        theirs.append(json.loads(subprocess.check_output(
            command, stderr=subprocess.DEVNULL)))
        command = [args.plimsoll, "bench", "--model", args.model,
                   "--batch", "1", "-o", "json",
                   "--threads", str(args.threads),
                   "--prompt-tokens", str(args.prompt_tokens),
                   "--decode-tokens", str(args.decode_tokens)]
        result = json.loads(subprocess.check_output(
            command, stderr=subprocess.DEVNULL))
        ours.append({
            "prefill": result["prefill_tokens_per_s"][str(args.prompt_tokens)],
            "decode": result["decode_tokens_per_s"]["1"],
        })
    print(f"{'':<10}{'plimsoll':>12}{PEER:>20}{'ratio':>8}  (min..max)")
    for what in ("prefill", "decode"):
        ratios = sorted(o[what] / t[what] for o, t in zip(ours, theirs))
        print(f"{what:<10}"
              f"{statistics.median(o[what] for o in ours):>8.1f} t/s"
              f"{statistics.median(t[what] for t in theirs):>16.1f} t/s"
              f"{statistics.median(ratios):>8.2f}"
              f"  ({ratios[0]:.2f}..{ratios[-1]:.2f})")


if __name__ == "__main__":
    main()
