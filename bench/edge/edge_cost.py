#!/usr/bin/env python3
"""What the edge costs streams: TLS, tokens, metrics and logs.

Two workers have the same model. One is plain. The other one speaks TLS, wants a
token of every call, serves metrics, which are read once a second, and logs each
request as JSON. Streams of both are read in turn, so that other load on the
machine disturbs both alike.

Printed are tokens a second and the time between two tokens, as the client sees
them while all streams run, and the worker's processor time for each token, which
other load disturbs least. A ratio is the second worker's figure by the first
one's of the same round; printed is the median of all rounds.

Needs the packages of tests/e2e/requirements.txt.

usage: PLIMSOLL_BUILD=build/release edge_cost.py [--streams N] MODEL
"""
import contextlib
import os
import pathlib
import re
import statistics
import sys
import tempfile
import threading
import urllib.request

BENCH_DIR = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(BENCH_DIR))
sys.path.append(str(BENCH_DIR.parent / "tests" / "e2e"))

from arguments import parser_of  # noqa: E402
from security.test_security import (Tokens, channel_to,  # noqa: E402
                                    make_certificates, server_flags)
from servers import Worker, processor_seconds, until  # noqa: E402

from mixed_traffic import Reader, percentile  # noqa: E402

METRICS = "--metrics-listen=127.0.0.1:0"
FIGURES = {"tokens/s": 1, "ITL p50 ms": 1e3, "ITL p99 ms": 1e3,
           "processor us a token": 1e6}


def metrics_url(worker):
    """Where a worker serves its metrics."""
    found = until(lambda: re.search(r'"address":"([^"]+)"', next(
        (line for line in worker.log().splitlines()
         if "metrics are served" in line), "")), what="the address of metrics")
    return f"http://{found[1]}/metrics"


class Scraper(threading.Thread):
    """Reads metrics every second, fifteen times as often as Prometheus does."""

    def __init__(self, url):
        super().__init__(daemon=True)
        self.url = url
        self.ended = threading.Event()

    def run(self):
        while not self.ended.wait(1):
            with urllib.request.urlopen(self.url, timeout=10) as reply:
                reply.read()


@contextlib.contextmanager
def scraped(url):
    """Metrics are read meanwhile, unless there is no address."""
    if not url:
        yield
        return
    scraper = Scraper(url)
    scraper.start()
    try:
        yield
    finally:
        scraper.ended.set()
        scraper.join()


class Side:
    """A worker, what its callers send, and what was measured of it."""

    def __init__(self, worker, metadata=(), url=None):
        self.worker, self.metadata, self.url = worker, metadata, url
        self.rounds = []

    def measure(self, args):
        """One round: all streams at once, from their first tokens to the end."""
        pid = self.worker.process.pid
        with scraped(self.url):
            before = processor_seconds(pid)
            readers = [Reader(self.worker, i, self.metadata,
                              max_tokens=args.tokens)
                       for i in range(args.streams)]
            for reader in readers:
                reader.start()
            for reader in readers:
                reader.join()
            taken = processor_seconds(pid) - before
        counts = [len(reader.times) for reader in readers]
        if counts != [args.tokens] * args.streams:
            raise SystemExit(f"streams ended early: {counts}\n"
                             f"{self.worker.log()[-2000:]}")
        begin = max(reader.times[0] for reader in readers)
        end = min(reader.times[-1] for reader in readers)
        gaps = [gap for reader in readers for gap in reader.gaps(begin, end)]
        self.rounds.append(dict(zip(FIGURES, (
            (len(gaps) + args.streams) / (end - begin), percentile(gaps, 50),
            percentile(gaps, 99), taken / sum(counts)))))

    def median(self, name):
        return statistics.median(r[name] for r in self.rounds) * FIGURES[name]


@contextlib.contextmanager
def both_sides(args, folder):
    """The plain worker, and the one with all of the edge."""
    common = (f"--model=m={args.model}", f"--slots={args.streams}",
              "--n-ctx=1024", f"--threads={args.threads}", "--prefix-cache=0")
    tls, tokens = folder / "tls", Tokens(folder)
    make_certificates(tls)
    tokens.add("caller", "user", "--tenant", "team-a")
    edge = (*server_flags(tls), *tokens.flag(), METRICS, "--log-format=json",
            "--log-requests")
    with Worker(*common) as plain, Worker(*common, *edge) as secure:
        plain.await_ready()
        with channel_to(secure, tls) as channel:
            secure.connect(channel)
            # Nobody asks by plain text, which this worker does not speak.
            until(lambda: "model is ready" in secure.log(), 120, "the model")
            yield (Side(plain), Side(secure, tokens.metadata("caller"),
                                     metrics_url(secure)))


def show(args, plain, secure):
    print(f"{os.path.basename(args.model)}, {args.streams} streams of"
          f" {args.tokens} tokens, {args.threads} threads, {args.rounds} rounds,"
          f" load {os.getloadavg()[0]:.1f}")
    for name in FIGURES:
        ratios = sorted(s[name] / p[name]
                        for p, s in zip(plain.rounds, secure.rounds))
        print(f"{name}: plain {plain.median(name):.2f}, with the edge"
              f" {secure.median(name):.2f}, ratio"
              f" {statistics.median(ratios):.3f} ({ratios[0]:.3f}.."
              f"{ratios[-1]:.3f})")


def main():
    parser = parser_of(__doc__, streams=16, tokens=256, threads=1, rounds=10)
    parser.add_argument("model")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        with both_sides(args, pathlib.Path(folder)) as (plain, secure):
            for i in range(args.rounds + 1):
                for side in (plain, secure)[::1 if i % 2 else -1]:
                    side.measure(args)
            for side in (plain, secure):
                del side.rounds[0]  # the first one warms up
            show(args, plain, secure)


if __name__ == "__main__":
    main()
