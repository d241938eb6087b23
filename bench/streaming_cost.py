#!/usr/bin/env python3
"""What gRPC costs: tokens a second of streams that decode at once, in one
process (plimsoll bench) and from plimsoll-worker over a socket, in turn.

Both are what the engine measured of its own decode steps. The worker has one
thread unless --threads says otherwise, so that the clients, which are Python,
have a core.

usage: PLIMSOLL_BUILD=build/release streaming_cost.py [--streams N] MODEL

Needs the packages of tests/e2e/requirements.txt.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import threading

sys.path.append(str(pathlib.Path(__file__).parents[1] / "tests" / "e2e"))

from arguments import parser_of  # noqa: E402
from asks import GREEDY, stream, text  # noqa: E402
from servers import Worker, binary  # noqa: E402


def in_process(args):
    result = json.loads(subprocess.check_output(
        [binary("plimsoll"), "bench", "--model", args.model, "-o", "json",
         "--prompt-tokens", "16", "--batch", str(args.streams), "--runs", "1",
         "--decode-tokens", str(args.tokens), "--threads", str(args.threads)],
        stderr=subprocess.DEVNULL))
    return result["decode_tokens_per_s"][str(args.streams)]


def over_a_socket(args):
    flags = [f"--model=m={args.model}", f"--slots={args.streams}",
             "--n-ctx=1024", f"--threads={args.threads}", "--prefix-cache=0"]
    timings = [None] * args.streams

    with Worker(*flags) as worker:
        worker.await_ready()

        def client(i):
            call = worker.generation.StreamGenerate(stream(
                text=text(f"Story number {i}: once upon a time there was"),
                sampling=GREEDY, ignore_eos=True, max_tokens=args.tokens))
            for reply in call:
                if reply.HasField("finish"):
                    timings[i] = reply.finish.timing.decode.ToTimedelta()

        threads = [threading.Thread(target=client, args=(i,))
                   for i in range(args.streams)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    slowest = max(timings).total_seconds()
    return args.streams * (args.tokens - 1) / slowest


def main():
    parser = parser_of(__doc__, streams=16, tokens=256, threads=1, runs=5)
    parser.add_argument("model")
    args = parser.parse_args()
    inside, outside = [], []
    for _ in range(args.runs):
        inside.append(in_process(args))
        outside.append(over_a_socket(args))
    ratios = sorted(o / i for o, i in zip(outside, inside))
    print(f"{os.path.basename(args.model)}, {args.streams} streams, "
          f"{args.threads} threads: in process {statistics.median(inside):.0f}, "
          f"over gRPC {statistics.median(outside):.0f} tokens/s, ratio "
          f"{statistics.median(ratios):.3f} ({ratios[0]:.3f}.."
          f"{ratios[-1]:.3f})")


if __name__ == "__main__":
    main()
