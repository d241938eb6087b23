#!/usr/bin/env python3
"""What a flood of one tenant costs another one: the time to its first token.

Tenant "flood" has as many streams as the worker has slots, and then ten times as
many, which also fill the queue. Each of its streams is followed by the next one
at once. Meanwhile tenant "other" sends one short request after the other. The two
states alternate, so that other load on the machine disturbs both.

Exits with 1 if the flood makes the 99th percentile more than 20 % longer, or if a
request of the other tenant is refused.

usage: PLIMSOLL_BUILD=build/release flood.py [--probes N] MODEL

Needs the packages of tests/e2e/requirements.txt.
"""
import argparse
import contextlib
import os
import pathlib
import statistics
import sys
import threading
import time

SOURCE_DIR = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(SOURCE_DIR / "bench"))
sys.path.append(str(SOURCE_DIR / "tests" / "e2e"))

import grpc  # noqa: E402
from asks import GREEDY, stream, text  # noqa: E402
from mixed_traffic import percentile  # noqa: E402
from servers import CALL_SECONDS, Worker  # noqa: E402

SLOTS = 4
ROUNDS = 5
FLOOD = stream(text=text("The sea is " * 20), sampling=GREEDY, max_tokens=64,
               ignore_eos=True)
PROBE = stream(text=text("Why is the sky blue?"), sampling=GREEDY, max_tokens=4,
               ignore_eos=True)
MOST = 1.2


def ask(worker, request, tenant):
    """The messages of a stream."""
    return worker.generation.StreamGenerate(
        request, timeout=CALL_SECONDS, metadata=[("x-tenant", tenant)])


@contextlib.contextmanager
def flooded(worker, n):
    """The tenant "flood" has `n` streams, or what the worker takes of them."""
    over = threading.Event()

    def run():
        while not over.is_set():
            try:
                for _ in ask(worker, FLOOD, "flood"):
                    pass
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.RESOURCE_EXHAUSTED:
                    raise
                time.sleep(0.05)  # the queue is full

    threads = [threading.Thread(target=run) for _ in range(n)]
    for thread in threads:
        thread.start()
    try:
        time.sleep(1)
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def first_token(worker):
    """Seconds until the other tenant's first token."""
    begin = time.monotonic()
    seconds = None
    for message in ask(worker, PROBE, "other"):
        if seconds is None and message.tokens:
            seconds = time.monotonic() - begin
    return seconds


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--probes", type=int, default=500,
                        help="requests of the other tenant in each state (500)")
    parser.add_argument("model", help="a GGUF file")
    args = parser.parse_args()
    counts = (SLOTS, 10 * SLOTS)
    seconds = {n: [] for n in counts}
    with Worker(f"--model=m={args.model}", "--n-ctx=512", f"--slots={SLOTS}") as worker:
        worker.await_ready()
        for _ in range(ROUNDS):
            for n in counts:
                with flooded(worker, n):
                    seconds[n] += [first_token(worker)
                                   for _ in range(args.probes // ROUNDS)]
    for n in counts:
        print(f"beside {n:2} streams of a tenant: first token p50"
              f" {statistics.median(seconds[n]) * 1e3:.1f} ms,"
              f" p99 {percentile(seconds[n], 99) * 1e3:.1f} ms,"
              f" {len(seconds[n])} requests")
    ratio = percentile(seconds[counts[1]], 99) / percentile(seconds[counts[0]], 99)
    print(f"p99 with the flood: x {ratio:.2f} (wanted: {MOST} at most),"
          f" load {os.getloadavg()[0]:.1f}")
    sys.exit(ratio > MOST)


if __name__ == "__main__":
    main()
