#!/usr/bin/env python3
"""Is the simulation right? Sends its sessions to two real workers and compares.

Starts a planner and two workers with one thread each, and sends the sessions
that the simulation has, with the same tokens shared, to the same worker each
(ring-hash). Prints goodput, TTFT and the cache's share of both.

A worker's clock here is the processor time of its process, and while it has
nothing to do its clock jumps to the next request. So other work on the machine
stretches no time, as in record.py. Sessions stay at one worker, so the two
clocks need not agree. Times by the wall clock are printed, too.

Needs the packages of tests/e2e/requirements.txt.

usage: PLIMSOLL_BUILD=build/release real.py --model NAME FILE
"""
import argparse
import heapq
import json
import os
import random
import statistics
import sys
import tempfile
import threading
import time
import types

import grpc

from fleet_parts import Options, Session
from record import GREEDY, N_CTX, SLOTS, Planner, Worker, common, cpu_s, stream
from routing import Front

APP_IDS, MESSAGE_IDS = 500, 20_000  # ids of tokens begin there


def arrivals_of(args):
    """When sessions come, in seconds."""
    source = random.Random(args.seed)
    times, now = [], source.expovariate(args.rate)
    while now < args.seconds:
        times.append(now)
        now += source.expovariate(args.rate)
    return tuple(times)


def options_of(args):
    return Options(nodes=1, node_bytes=args.node_bytes, cores=2,
                   policy="ring-hash", seconds=args.seconds, warm_s=0.0,
                   arrivals=arrivals_of(args), moves_per_hour=0.0, faults=(),
                   seed=args.seed, n_apps=args.apps)


class Served:
    """One worker's part of the sessions, on the worker's own clock."""

    def __init__(self, worker, options):
        self.worker = worker
        self.options = options
        self.due = []  # heap of (seconds, number, session)
        self.lock = threading.Lock()
        self.in_flight = 0
        self.skipped = 0.0
        self.has_ended = False
        self.done = []  # (TTFT, wall TTFT, tokens, cached, prompt)
        self.threads = []

    def now(self):
        return cpu_s(self.worker.process.pid) - self.began + self.skipped

    def run(self):
        self.began = cpu_s(self.worker.process.pid)
        wall = time.monotonic()
        while True:
            with self.lock:
                now = self.now()
                if now > self.options.seconds:
                    break
                if not self.in_flight:
                    if not self.due:
                        break
                    self.skipped += max(0.0, self.due[0][0] - now)
                    now = self.now()
                while self.due and self.due[0][0] <= now:
                    at, _, chat = heapq.heappop(self.due)
                    self.in_flight += 1
                    thread = threading.Thread(target=self.ask, args=(at, chat),
                                              daemon=True)
                    thread.start()
                    self.threads.append(thread)
            time.sleep(0.002)
        self.has_ended = True
        self.wall_s = time.monotonic() - wall

    def ask(self, at, chat):
        request = chat.next_request(self.options, at)
        if request.n_total > N_CTX:
            with self.lock:
                self.in_flight -= 1
            return
        chat.turns_left -= 1
        chat.ids += [MESSAGE_IDS + (chat.number * 7919 + k * 31) % 10_007
                     for k in range(len(chat.ids), request.n_prompt)]
        try:
            self.read(at, chat, request)
        except grpc.RpcError:
            # At the end of the run the servers go while streams are read.
            if not self.has_ended:
                raise

    def read(self, at, chat, request):
        wall, first, reply, usage = time.monotonic(), None, [], None
        for part in self.worker.generation.StreamGenerate(stream(
                tokens=common.TokenPrompt(ids=chat.ids), sampling=GREEDY,
                max_tokens=request.n_reply, ignore_eos=True)):
            if part.tokens and first is None:
                first = self.now() - at, time.monotonic() - wall
            reply += [token.id for token in part.tokens]
            if part.HasField("finish"):
                usage = part.finish.usage
        with self.lock:
            now = self.now()
            self.in_flight -= 1
            if now <= self.options.seconds:
                self.done.append((*first, len(reply), usage.cached_tokens,
                                  request.n_prompt))
            chat.ids += reply
            chat.n_tokens = len(chat.ids)
            if chat.turns_left > 0:
                heapq.heappush(self.due, (now + chat.think_s(self.options),
                                          chat.number, chat))


def share_out(options, workers):
    """Each session to the worker that the simulation's front chooses."""
    front = Front("ring-hash", 0)
    front.set_workers([types.SimpleNamespace(number=i, in_flight_bytes=0)
                       for i in range(len(workers))])
    served = [Served(worker, options) for worker in workers]
    for i, at in enumerate(options.arrivals):
        chat = Session.drawn(i + 1, front, options)
        chat.ids = [APP_IDS + (chat.app * 7919 + k * 31) % 15_000
                    for k in range(options.app_tokens)]
        chosen = front.choose(types.SimpleNamespace(session=chat.number), ())
        served[chosen.number].due.append((at, chat.number, chat))
    for one in served:
        heapq.heapify(one.due)
    return served


def percentile(values, part):
    order = sorted(values)
    return order[min(len(order) - 1, int(len(order) * part))]


def measure(args, options):
    flags = [f"--model=m={args.file}", f"--slots={SLOTS}", f"--n-ctx={N_CTX}",
             f"--idle-sessions={SLOTS}", "--parked-slots=0", "--threads=1",
             "--device-id=node/cpu"]
    with tempfile.TemporaryDirectory() as folder, \
            Planner(f"--journal={folder}/leases.db") as planner:
        flags.append(f"--planner={planner.address}")
        with Worker(*flags) as one, Worker(*flags) as other:
            served = share_out(options, [one.await_ready(), other.await_ready()])
            threads = [threading.Thread(target=s.run) for s in served]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            done = [d for s in served for d in s.done]
            wall_s = max(s.wall_s for s in served)
    return {
        "completed": len(done),
        "tokens_per_s": sum(d[2] for d in done) / options.seconds,
        "goodput_tokens_per_s": sum(d[2] for d in done if d[0] <= options.slo_s)
        / options.seconds,
        "ttft_mean_s": statistics.mean(d[0] for d in done),
        "ttft_p50_s": percentile([d[0] for d in done], 0.5),
        "ttft_p99_s": percentile([d[0] for d in done], 0.99),
        "cache_hit_share": sum(d[3] for d in done) / sum(d[4] for d in done),
        "wall": {"seconds": round(wall_s, 1),
                 "ttft_p50_s": percentile([d[1] for d in done], 0.5),
                 "load_average": round(os.getloadavg()[0], 1)}}


def simulated(args, options):
    import times
    from simulation import Simulation

    record = times.read(args.record)
    record["times"] = {args.model: record["times"][args.model]}
    simulation = Simulation(options, record)
    figures = simulation.run()
    figures["ttft_mean_s"] = statistics.mean(simulation.ttft)
    return figures


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="the model's")
    parser.add_argument("--model", required=True, help="its name in the record")
    parser.add_argument("--record", default=os.path.join(
        os.path.dirname(__file__), "recorded.json"))
    parser.add_argument("--rate", type=float, default=0.3, help="sessions a second")
    parser.add_argument("--apps", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--measured", metavar="FILE",
                        help="what was measured; if it is there, only simulate")
    args = parser.parse_args()
    args.node_bytes = 1 << 36
    options = options_of(args)
    if args.measured and os.path.exists(args.measured):
        with open(args.measured, encoding="utf-8") as file:
            real = json.load(file)
    else:
        real = measure(args, options)
        if args.measured:
            with open(args.measured, "w", encoding="utf-8") as file:
                json.dump(real, file, indent=1)
    if not os.path.exists(args.record):
        sys.exit("measured; there is no record to simulate with")
    found = simulated(args, options)
    print(f"{len(options.arrivals)} sessions in {args.seconds:g} s")
    for name in ("completed", "tokens_per_s", "goodput_tokens_per_s",
                 "ttft_mean_s", "ttft_p50_s", "ttft_p99_s", "cache_hit_share"):
        print(f"{name:<22}{real[name]:>10.2f}{found[name]:>10.2f}")
    print("wall:", real["wall"])


if __name__ == "__main__":
    main()
