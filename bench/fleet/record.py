#!/usr/bin/env python3
"""Records the times that bench/fleet's simulation needs, on this machine.

Starts the real worker with each model, and the real planner with a standby.
Writes to a JSON file: how long a prompt takes by its length, how long a step
takes by streams and context, how long a load takes, what a grant, a renewal and
a takeover cost, and the bytes of each model's plan.

The worker computes with one thread, and times of models are processor times of
its process, with all that it does for its clients. So other work on the machine
stretches no time, but for what it takes of caches; and a node of the simulation
is one core of this machine. The median, the least and the greatest of several
runs are written. The planner's times are wall times, and say so.

Needs the packages of tests/e2e/requirements.txt.

usage: PLIMSOLL_BUILD=build/release record.py [--quick] NAME=MODEL...
"""
import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "e2e"))

import grpc  # noqa: E402
from asks import GREEDY, stream  # noqa: E402
from servers import Planner, Worker, binary, until  # noqa: E402
from stubs import common  # noqa: E402
from test_leases import register, reserve  # noqa: E402
from test_standby import Standby, granted  # noqa: E402

SLOTS = 16
N_CTX = 4096
PROMPTS = (16, 64, 256, 512, 1024, 2048, 4000)  # tokens
# Steps are measured with so many streams of a context, then with fewer.
STREAMS = {64: (16, 8, 4, 2, 1), 512: (4, 1), 2048: (4, 1)}
WINDOW_TOKENS = 12  # tokens of the last stream, in a measurement of steps


def cpu_s(pid):
    """The processor time that the threads of a process have taken so far."""
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            total += int((task / "schedstat").read_text().split()[0])
        except FileNotFoundError:  # it has ended; those of gRPC seldom do
            continue
    return total / 1e9


def median_of(measure, args):
    """The median of some runs of `measure`, and its extremes, in seconds."""
    runs = sorted(measure() for _ in range(args.runs))
    return {"s": round(statistics.median(runs), 6),
            "least": round(runs[0], 6), "greatest": round(runs[-1], 6)}


def prompt_of(n_tokens, seed):
    ids = [500 + (i * 7919 + seed * 104729) % 40000 for i in range(n_tokens)]
    return common.TokenPrompt(ids=ids)


class Numbers:
    """A new seed each time, so that no prompt is the one before."""

    def __init__(self):
        self.last = 0

    def __call__(self):
        self.last += 1
        return self.last


def prefill(worker, n_tokens, seed):
    """Processor seconds of a call that asks for one token."""
    request = stream(tokens=prompt_of(n_tokens, seed), sampling=GREEDY,
                     max_tokens=1, ignore_eos=True)
    begin = cpu_s(worker.process.pid)
    tokens = [token for part in worker.generation.StreamGenerate(request)
              for token in part.tokens]
    if len(tokens) != 1:
        raise SystemExit("a prompt got no token")
    return cpu_s(worker.process.pid) - begin


class Reader(threading.Thread):
    """Reads a stream and counts its tokens."""

    def __init__(self, worker, n_prompt, seed):
        super().__init__(daemon=True)
        self.pid = worker.process.pid
        self.n_prompt = n_prompt
        self.n_tokens = 0
        self.call = worker.generation.StreamGenerate(stream(
            tokens=prompt_of(n_prompt, seed), sampling=GREEDY,
            max_tokens=N_CTX - n_prompt - 64, ignore_eos=True))
        self.start()

    def run(self):
        try:
            for part in self.call:
                self.n_tokens += len(part.tokens)
        except grpc.RpcError:  # cancelled
            return

    def step(self):
        """The mean processor seconds of the next steps."""
        first, begin = self.n_tokens, cpu_s(self.pid)
        until(lambda: self.n_tokens >= first + WINDOW_TOKENS, 600, "tokens")
        return (cpu_s(self.pid) - begin) / (self.n_tokens - first)


def steps(worker, context, numbers, args):
    """Step times with streams of a context, then with fewer of them."""
    readers = [Reader(worker, context, numbers())
               for _ in range(STREAMS[context][0])]
    until(lambda: all(r.n_tokens for r in readers), 1200, "all first tokens")
    found = []
    for n in STREAMS[context]:
        for reader in readers[n:]:
            reader.call.cancel()
            reader.join()
        readers = readers[:n]
        figure = median_of(readers[-1].step, args)
        mean = statistics.mean(r.n_prompt + r.n_tokens for r in readers)
        found.append({"streams": n, "context": round(mean), **figure})
    readers[0].call.cancel()
    readers[0].join()
    return found


def plan_of(path):
    """The bytes that a worker with these options asks its planner for."""
    text = subprocess.run(
        [binary("plimsoll"), "plan", path, f"--slots={SLOTS}",
         f"--idle-sessions={SLOTS}", f"--n-ctx={N_CTX}",
         "--device-memory=64GiB", "-o", "json"],
        check=True, capture_output=True, text=True).stdout
    plan = json.loads(text)
    regions = {region["name"]: int(region["bytes"])
               for region in plan["regions"]}
    return {"total_bytes": int(plan["total_bytes"]),
            "weight_bytes": regions["weights"],
            "window_bytes": regions["kv_window"],
            "kv_bytes_per_token": int(plan["kv_bytes_per_token"]),
            "n_ctx": plan["n_ctx"], "slots": SLOTS,
            "idle_sessions": SLOTS}


def record_model(path, args):
    flags = [f"--model=m={path}", f"--slots={SLOTS}", f"--n-ctx={N_CTX}",
             f"--idle-sessions={SLOTS}", "--parked-slots=0", "--threads=1",
             "--prefix-cache=0"]
    found = {"file": os.path.basename(path), "plan": plan_of(path)}

    def load():
        with Worker(*flags) as worker:
            worker.await_ready()
            return cpu_s(worker.process.pid)

    found.update(date=datetime.date.today().isoformat(), runs=args.runs,
                 load_average=round(os.getloadavg()[0], 1),
                 load=median_of(load, args))
    numbers = Numbers()
    with Worker(*flags) as worker:
        worker.await_ready()
        prefill(worker, 512, numbers())
        found["prefill"] = []
        for n in (n for n in PROMPTS if n <= 2 * args.most):
            figure = median_of(lambda: prefill(worker, n, numbers()), args)
            found["prefill"].append({"tokens": n, **figure})
            print(f"  prompt of {n}: {figure}", flush=True)
        found["step"] = []
        for context in (c for c in STREAMS if c <= args.most):
            found["step"] += steps(worker, context, numbers, args)
            print(f"  steps: {found['step']}", flush=True)
    return found


def takeover(folder, number):
    """Seconds from the kill of a planner to a grant of its standby."""
    folder = os.path.join(folder, f"takeover-{number}")
    os.mkdir(folder)
    journal = os.path.join(folder, "leases.db")
    with Planner(f"--journal={journal}", state=folder) as first:
        register(first)
        reserve(first, "first", 1)
        with Standby(journal, folder) as second:
            begin = time.monotonic()
            first.kill()
            until(lambda: granted(second, "second", 1), 30, "a grant")
            return time.monotonic() - begin


def record_planner(args):
    """Costs of a planner, by bench/planner_scale.py with a journal on disk."""
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        text = subprocess.run(
            [sys.executable, str(ROOT / "bench" / "planner_scale.py"),
             f"--planner={binary('plimsoll-planner')}", "--devices=200",
             "--leases=1000", "--watchers=8", f"--folder={folder}"],
            check=True, capture_output=True, text=True).stdout
        scale = json.loads(text)
        numbers = Numbers()
        seconds = median_of(lambda: takeover(folder, numbers()), args)
    return {"grants_per_s": scale["reserve_last_tenth"]["calls_per_s"],
            "grant_cpu_us": scale["reserve_last_tenth"]["planner_cpu_us_per_call"],
            "confirm_cpu_us": scale["confirm"]["planner_cpu_us_per_call"],
            "renew_cpu_us": scale["renew"]["planner_cpu_us_per_call"],
            "watch": scale["watch"], "load_average": scale["load_average"],
            "takeover_wall": seconds}


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "an unknown CPU"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="NAME=MODEL")
    parser.add_argument("--runs", type=int, default=5, help="of each figure (5)")
    parser.add_argument("--folder",
                        help="where the planner's journal lies; its disk counts")
    parser.add_argument("--out", default=str(
        pathlib.Path(__file__).with_name("recorded.json")))
    parser.add_argument("--add", action="store_true",
                        help="models to those that are in the file already")
    parser.add_argument("--most", type=int, default=2048, metavar="TOKENS",
                        help="of contexts, and half of prompts (2048)")
    parser.add_argument("--quick", action="store_true",
                        help="one run of each figure: a trial, not a record")
    args = parser.parse_args()
    if args.quick:
        args.runs = 1
    version = subprocess.run([binary("plimsoll"), "version"], check=True,
                             capture_output=True, text=True).stdout
    found = {"date": datetime.date.today().isoformat(), "cpu": cpu_name(),
             "cores": os.cpu_count(), "version": version.strip().splitlines(),
             "threads": 1, "load_average": round(os.getloadavg()[0], 1),
             "models": {}}
    if args.add:
        found = json.loads(pathlib.Path(args.out).read_text())
    else:
        found["planner"] = record_planner(args)
        print(found["planner"], flush=True)
    for one in args.models:
        name, _, path = one.partition("=")
        print(name, flush=True)
        found["models"][name] = record_model(path, args)
        pathlib.Path(args.out).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
