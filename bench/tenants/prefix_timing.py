#!/usr/bin/env python3
"""Whether a tenant can tell by the time to its first token what another tenant
has sent: the side channel of shared beginnings of prompts.

In each probe tenant "owner" sends a prompt, and then tenant "guesser" sends one.
In half of the probes, in random order, it begins with what the owner sent; in
the others the owner sent another prompt as long. The area under the ROC curve
(AUC) of the two kinds' times is 0.5 if they cannot be told apart, and 1 if they
always can. As a control, guesses of the owner's own tenant are told apart.

Exits with 1 if the AUC is above --limit, if any guess took a token from the
cache, or if the control finds nothing, so that the bench would not see a leak.

usage: PLIMSOLL_BUILD=build/release prefix_timing.py [--probes N] MODEL

Needs the packages of tests/e2e/requirements.txt.
"""
import argparse
import bisect
import math
import os
import pathlib
import random
import statistics
import sys
import time

sys.path.append(str(pathlib.Path(__file__).parents[2] / "tests" / "e2e"))

from servers import Worker  # noqa: E402
from stubs import common, generation  # noqa: E402

SECONDS = 120  # the limit of one call
OWN_TOKENS = 8  # tokens of each prompt behind what may be shared
LEAST_CONTROL = 0.9


def first_token(worker, tenant, ids):
    """Seconds until the first token, and the tokens that were cached."""
    request = generation.StreamGenerateRequest(
        tokens=common.TokenPrompt(ids=ids),
        sampling=generation.SamplingOptions(temperature=0),
        stopping=generation.StoppingOptions(max_tokens=1, ignore_eos=True))
    seconds = None
    start = time.monotonic()
    for message in worker.generation.StreamGenerate(
            request, timeout=SECONDS, metadata=[("x-tenant", tenant)]):
        if seconds is None and message.tokens:
            seconds = time.monotonic() - start
        if message.HasField("finish"):
            cached = message.finish.usage.cached_tokens
    return seconds, cached


def auc(hits, misses):
    """The chance that a hit is faster than a miss; equal times count half."""
    ordered = sorted(misses)
    wins = 0.0
    for hit in hits:
        below = bisect.bisect_left(ordered, hit)
        upto = bisect.bisect_right(ordered, hit)
        wins += len(ordered) - upto + (upto - below) / 2
    return wins / (len(hits) * len(misses))


def interval(area, n_hits, n_misses):
    """The interval that holds the AUC with 95 %, by Hanley and McNeil's
    standard error (Radiology 143, 1982)."""
    q1 = area / (2 - area)
    q2 = 2 * area * area / (1 + area)
    variance = (area * (1 - area) + (n_hits - 1) * (q1 - area * area)
                + (n_misses - 1) * (q2 - area * area)) / (n_hits * n_misses)
    error = 1.96 * math.sqrt(max(variance, 0))
    return max(area - error, 0), min(area + error, 1)


class Prober:
    """Sends the prompts of both tenants."""

    def __init__(self, worker, args):
        self.worker = worker
        self.args = args
        self.random = random.Random(args.seed)
        self.cached = 0

    def ids(self, n):
        return [self.random.randrange(100, self.args.vocabulary)
                for _ in range(n)]

    def probe(self, guesser, is_hit):
        """Seconds to the first token of one guess."""
        secret = self.ids(self.args.tokens)
        guess = secret if is_hit else self.ids(self.args.tokens)
        first_token(self.worker, "owner", secret + self.ids(OWN_TOKENS))
        seconds, cached = first_token(self.worker, guesser,
                                      guess + self.ids(OWN_TOKENS))
        self.cached += cached
        return seconds

    def times(self, guesser, n):
        """Seconds of hits and of misses, n in all."""
        kinds = [True] * (n // 2) + [False] * (n - n // 2)
        self.random.shuffle(kinds)
        found = {True: [], False: []}
        for is_hit in kinds:
            found[is_hit].append(self.probe(guesser, is_hit))
        return found[True], found[False]


def show(name, hits, misses):
    """Prints and returns the AUC."""
    area = auc(hits, misses)
    low, high = interval(area, len(hits), len(misses))
    print(f"{name}: AUC {area:.3f} (95 %: {low:.3f} to {high:.3f}), "
          f"{len(hits)} hits, median {statistics.median(hits) * 1e3:.1f} ms, "
          f"{len(misses)} misses, median "
          f"{statistics.median(misses) * 1e3:.1f} ms", flush=True)
    return area


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--probes", type=int, default=1000)
    parser.add_argument("--control", type=int, default=40, metavar="PROBES",
                        help="of the owner's own tenant (40)")
    parser.add_argument("--tokens", type=int, default=128,
                        help="that a guess has in common with a prompt (128)")
    parser.add_argument("--limit", type=float, default=0.55, help="(0.55)")
    parser.add_argument("--vocabulary", type=int, default=30_000,
                        help="ids are below this (30000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("model")
    args = parser.parse_args()
    print(f"load of the machine before: {os.getloadavg()[0]:.1f} on "
          f"{os.cpu_count()} CPUs", flush=True)
    with Worker(f"--model=m={args.model}", "--n-ctx=512", "--slots=4") as worker:
        prober = Prober(worker.await_ready(), args)
        for _ in range(4):
            prober.probe("guesser", False)  # warms up
        control = show("control, the owner's own tenant",
                       *prober.times("owner", args.control))
        assert prober.cached > 0, "the control took nothing from the cache"
        prober.cached = 0
        area = show("another tenant", *prober.times("guesser", args.probes))
    print(f"load of the machine after: {os.getloadavg()[0]:.1f}")
    print(f"tokens from the cache of another tenant: {prober.cached}")
    # Slower hits would tell as much.
    worst = max(area, 1 - area)
    is_ok = (worst <= args.limit and prober.cached == 0
             and control >= LEAST_CONTROL)
    print(f"{'ok' if is_ok else 'NOT OK'}: {worst:.3f}, at most {args.limit}")
    sys.exit(0 if is_ok else 1)


if __name__ == "__main__":
    main()
