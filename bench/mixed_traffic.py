#!/usr/bin/env python3
"""What does a long prompt do to streams that are being read, and they to it?

Starts plimsoll-worker with one model, reads some greedy streams, and sends a
long prompt beside them, several times. Prints the time between tokens of the
streams without and with the prompt, and the prompt's time to its first token
alone and beside them. Figures are per reply message, as a client sees them.

Needs the packages of tests/e2e/requirements.txt.

usage: PLIMSOLL_BUILD=build/release mixed_traffic.py [--streams N] MODEL
"""
import os
import pathlib
import sys
import threading
import time

sys.path.append(str(pathlib.Path(__file__).parents[1] / "tests" / "e2e"))

from arguments import parser_of  # noqa: E402
from asks import GREEDY, endless, stream, text  # noqa: E402
from servers import Worker  # noqa: E402
from stubs import common  # noqa: E402


def percentile(values, percent):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


class Reader(threading.Thread):
    """Reads an endless stream and notes when its tokens came."""

    def __init__(self, worker, number, metadata=(), **fields):
        super().__init__(daemon=True)
        request = endless(text=text(f"Story number {number}: once upon a time"),
                          **fields)
        self.call = worker.generation.StreamGenerate(request, metadata=metadata)
        self.times = []

    def run(self):
        try:
            for part in self.call:
                self.times.extend([time.monotonic()] * len(part.tokens))
        except Exception:  # cancelled at the end
            return

    def gaps(self, begin, end):
        """Seconds between tokens that came in [begin, end)."""
        inside = [t for t in self.times if begin <= t < end]
        return [b - a for a, b in zip(inside, inside[1:])]


def first_token_seconds(worker, n_prompt, seed):
    """Seconds from the request to the first token, and when it came."""
    ids = [500 + (i * 7919 + seed * 104729) % 40000 for i in range(n_prompt)]
    request = stream(tokens=common.TokenPrompt(ids=ids), sampling=GREEDY,
                     max_tokens=1)
    begin = time.monotonic()
    for part in worker.generation.StreamGenerate(request):
        if part.tokens:
            return begin, time.monotonic()
    raise SystemExit("the prompt got no token")


def show(name, gaps):
    print(f"  {name:<28} {len(gaps):>6} gaps"
          f"  p50 {percentile(gaps, 50) * 1e3:7.1f} ms"
          f"  p99 {percentile(gaps, 99) * 1e3:7.1f} ms")


def measure(worker, args):
    alone = [first_token_seconds(worker, args.prompt, i)
             for i in range(args.repeats)]
    alone = percentile([end - begin for begin, end in alone], 50)
    readers = [Reader(worker, i) for i in range(args.streams)]
    for reader in readers:
        reader.start()
    time.sleep(2)
    quiet, mixed, beside = [], [], []
    for i in range(args.repeats):
        begin = time.monotonic()
        time.sleep(args.quiet)
        end = time.monotonic()
        quiet += [gap for r in readers for gap in r.gaps(begin, end)]
        begin, end = first_token_seconds(worker, args.prompt, 100 + i)
        beside.append(end - begin)
        mixed += [gap for r in readers for gap in r.gaps(begin, end)]
    for reader in readers:
        reader.call.cancel()
        reader.join()
    show("between tokens, no prompt", quiet)
    show("between tokens, prompt", mixed)
    ratio = percentile(mixed, 99) / percentile(quiet, 99)
    beside = percentile(beside, 50)
    print(f"  p99 with / without: {ratio:.2f}")
    print(f"  first token: alone {alone:.2f} s, beside {beside:.2f} s,"
          f" ratio {beside / alone:.2f}")


def main():
    parser = parser_of(__doc__, streams=4, repeats=5)
    parser.add_argument("--prompt", type=int, default=4000, help="tokens")
    parser.add_argument("--quiet", type=float, default=3, help="seconds")
    parser.add_argument("model")
    args = parser.parse_args()
    print(f"{os.path.basename(args.model)}: {args.streams} streams, a prompt of"
          f" {args.prompt} tokens, load {os.getloadavg()[0]:.1f}")
    flags = [f"--model=m={args.model}", f"--slots={args.streams + 1}",
             "--n-ctx=8192", "--prefix-cache=0"]
    with Worker(*flags) as worker:
        measure(worker.await_ready(), args)


if __name__ == "__main__":
    main()
