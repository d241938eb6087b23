#!/usr/bin/env python3
"""Prints the figures of reliability: what is wanted, what is measured, and whether
that is enough.

Real programs run, and other programs of bench/ measure what they are for:

  leases     simulated histories of leases, none of which breaks a rule
  estimate   the worst that a worker took, beside what was planned
  decision   the time of a plan, in one process and over a socket
  cancel     steps after a cancellation, and the time until the slot is free
  kill       from `kill -9` of a worker until its bytes are granted again
  dead       from a reservation whose holder is gone until its bytes are granted again
  restart    restarts of a planner while a stream is read
  sigterm    from SIGTERM until a worker is not ready, and until it has ended
  overload   work done, and the time to refuse, under ten times the load
  tenants    what a flood of one tenant costs another one
  reader     what a client that does not read costs, and costs others
  soak       memory, descriptors and threads after many requests
  edge       what TLS, tokens, metrics and logs cost 16 streams
  metrics    the time to read /metrics of 64 models
  connections  memory after 1,000 connections and 10,000 sessions
  power      power cuts of a journal that lost nothing
  lines      lines of tests beside lines of code
  nightly    what the last nightly runs said of coverage, sanitizers and fuzzing

Other load on the machine spoils figures of time; it is printed first. The exit code
is 1 if a figure is not as wanted. Needs the packages of
tests/e2e/requirements.txt, and h2load for `decision`.

usage: PLIMSOLL_BUILD=build/release reliability.py [--quick] [--only NAME] MODEL
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import uuid

BENCH_DIR = pathlib.Path(__file__).resolve().parent
SOURCE_DIR = BENCH_DIR.parent
sys.path.append(str(SOURCE_DIR / "tests" / "e2e"))

import grpc  # noqa: E402
from asks import GREEDY, endless, generate, text  # noqa: E402
from servers import (CALL_SECONDS, START_SECONDS, Planner, Worker,  # noqa: E402
                     binary, device_profile)
from stubs import model as v1, planner as planner_v1  # noqa: E402

MIB = 1 << 20
POLL_SECONDS = 0.002
LEASE_SECONDS, GRACE_SECONDS = 10, 5  # a planner's defaults
CODE_FOLDERS = ("base", "planner", "kernels", "worker", "services")


class Figure:
    """What was measured: in words, and whether it is as wanted."""

    def __init__(self, what, wanted, measured, is_ok):
        self.what, self.wanted = what, wanted
        self.measured, self.is_ok = measured, is_ok

    def row(self):
        word = {True: "ok", False: "NOT OK", None: "not measured"}[self.is_ok]
        return f"| {self.what} | {self.wanted} | {self.measured} | {word} |"


def run(command, **more):
    """The whole output of a program; it may fail."""
    env = {**os.environ, **more}
    done = subprocess.run(command, env=env, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


def bench(script, *flags):
    """What another program of bench/ prints."""
    return run([sys.executable, str(BENCH_DIR / script), *map(str, flags)])[1]


def number(pattern, output):
    """The number that the pattern finds, or None."""
    found = re.search(pattern, output)
    return float(found[1].replace(",", "")) if found else None


def await_true(condition, seconds=60):
    """Seconds until the condition holds."""
    begin = time.monotonic()
    while not condition():
        if time.monotonic() > begin + seconds:
            raise SystemExit("a figure was waited for in vain")
        time.sleep(POLL_SECONDS)
    return time.monotonic() - begin


def worker_of(args, *flags):
    """A worker with the model."""
    return Worker(f"--model=m={args.model}", *flags)


def leases(args):
    n = 2_000 if args.quick else 1_000_000
    code, _ = run([binary("lease_simulation_test")], PLIMSOLL_HISTORIES=str(n))
    # Fewer than are wanted are no proof, even if all of them were right.
    is_ok = code == 0 and (not args.quick or None)
    yield Figure("lease histories", "10^6 without a violation",
                 f"{n:,}, {'none' if code == 0 else 'VIOLATED'}", is_ok)


def estimate(args):
    # The first worker of a machine plans by a bound, the next one by what the
    # first measured.
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            memory = memory_of(args, f"--profile-dir={folder}")
    # Room for messages is a limit. These requests are small and come one by one.
    room = sum(r.bytes for r in memory.plan.regions if r.name == "messages")
    taken, planned = memory.measured.peak_rss_bytes, memory.plan.total_bytes - room
    yield Figure("estimate beside measured bytes (CPU)",
                 "never under; over by 5 % + 16 MiB at most",
                 f"{planned / MIB:.1f} MiB planned beside {room / MIB:.0f} MiB of room "
                 f"for messages, {taken / MIB:.1f} MiB taken",
                 taken <= planned <= 1.05 * taken + 16 * MIB)


def memory_of(args, *flags):
    """What a worker planned and took that answered long prompts."""
    with worker_of(args, "--n-ctx=4096", "--slots=4", *flags) as worker:
        worker.await_ready()
        prompt = "What did the ship carry across the sea? " * 100
        for _ in range(2 if args.quick else 20):
            request = generate(text=text(prompt), sampling=GREEDY, max_tokens=16)
            worker.generation.Generate(request, timeout=CALL_SECONDS)
        request = v1.GetMemoryRequest()
        return worker.models.GetMemory(request, timeout=CALL_SECONDS)


def decision(args):
    _, output = run([binary("planner_bench"), "--benchmark_format=json",
                     "--benchmark_filter=^PlanWithGivenContext$"])
    found = json.loads(output[output.index("{"):output.rindex("}") + 1])
    nanos = found["benchmarks"][0]["cpu_time"]
    yield Figure("planner's decision, in process", "<= 20 us of processor time",
                 f"{nanos / 1e3:.1f} us", nanos <= 20_000)
    output = bench("plan_rpc.py", "--planner", binary("plimsoll-planner"),
                   "--calls", 2_000 if args.quick else 20_000, args.model)
    micros = number(r"1 x  1 at once.*?p50 +(\d+) us", output)
    yield Figure("planner's decision, over loopback", "p50 <= 300 us",
                 "no figure" if micros is None else f"p50 {micros:.0f} us",
                 None if micros is None else micros <= 300)


def cancel(args):
    steps, seconds = [], []
    with worker_of(args, "--n-ctx=4096", "--slots=1") as worker:
        worker.await_ready()
        for _ in range(5 if args.quick else 50):
            stream = worker.generation.StreamGenerate(
                endless(), timeout=CALL_SECONDS)
            for _ in range(3):
                next(stream)
            before = worker.model().steps
            stream.cancel()
            seconds.append(await_true(lambda: worker.model().running == 0))
            steps.append(worker.model().steps - before)
    # The client reads the count, then cancels: the network's steps are in it.
    yield Figure("cancel until the slot is free", "<= 2 steps of the engine",
                 f"at most {max(steps)} steps and {max(seconds) * 1e3:.0f} ms, with"
                 " the network; the engine's two are proven by a test", None)


def reserve(planner, device, n_bytes):
    """Whether the planner grants so many bytes."""
    request = planner_v1.ReserveRequest(
        request_id=uuid.uuid4().hex, holder="a figure", device_id=device,
        purpose="m", bytes=n_bytes)
    try:
        planner.stub.Reserve(request, timeout=CALL_SECONDS)
    except grpc.RpcError:
        return False
    return True


def kill(args):
    seconds, told = [], []
    for _ in range(2 if args.quick else 10):
        with Planner() as planner:
            flags = ("--n-ctx=512", f"--planner={planner.address}")
            with worker_of(args, *flags) as worker:
                worker.await_ready()
                (held,) = planner.leases()

                (device,) = planner.devices()
                # More than is free now. Other programs take memory meanwhile.
                n_bytes = device.available_bytes + held.bytes // 2
                if reserve(planner, held.device_id, n_bytes):
                    raise SystemExit("the worker's bytes were granted twice")
                device.profile.free_bytes += held.bytes
                stream = worker.generation.StreamGenerate(
                    endless(), timeout=CALL_SECONDS)
                next(stream)
                ends = []
                stream.add_callback(lambda ends=ends: ends.append(time.monotonic()))
                begin = time.monotonic()
                worker.process.send_signal(signal.SIGKILL)

                def granted():
                    # As the next worker does, with what it reads of the device.
                    planner.stub.RegisterDevice(
                        planner_v1.RegisterDeviceRequest(
                            profile=device.profile, holder="the next"),
                        timeout=CALL_SECONDS)
                    return reserve(planner, held.device_id, n_bytes)

                seconds.append(await_true(granted))
                await_true(lambda ends=ends: ends)
                told.append(ends[0] - begin)
                if stream.code() != grpc.StatusCode.UNAVAILABLE:
                    raise SystemExit(f"a killed worker's stream: {stream.code()}")
    yield Figure("kill -9 until a stream's client has UNAVAILABLE", "<= 1 s",
                 f"{max(told) * 1e3:.0f} ms, the longest of {len(told)}",
                 max(told) <= 1)
    yield Figure("kill -9 until the bytes are granted again", "<= 1 s on one host",
                 f"{max(seconds) * 1e3:.0f} ms, the longest of {len(seconds)}",
                 max(seconds) <= 1)


def dead(args):
    device, n_bytes = "a figure/cpu", 1_000

    def granted():
        # The reading of another holder proves that the bytes are free.
        request = planner_v1.RegisterDeviceRequest(
            profile=device_profile(device, n_bytes), holder="another one")
        planner.stub.RegisterDevice(request, timeout=CALL_SECONDS)
        return reserve(planner, device, n_bytes)

    with Planner() as planner:
        if not granted():  # by a holder that names no process and says no more
            raise SystemExit("the bytes were not granted at first")
        seconds = await_true(granted)
    times = LEASE_SECONDS + GRACE_SECONDS
    yield Figure("reservation of a dead holder until its bytes are granted again",
                 f"<= {times} s (its time to live and the grace) and a reading",
                 f"{seconds:.2f} s", seconds <= times + 0.5)


def restart(args):
    n, seconds, failed = (3 if args.quick else 100), [], 0
    with tempfile.TemporaryDirectory() as folder:
        flags = (f"--journal={folder}/leases.db",)
        planner = Planner(*flags)
        listen = f"--listen={planner.address}"
        try:
            with worker_of(args, "--n-ctx=512", "--slots=1",
                           f"--planner={planner.address}") as worker:
                worker.await_ready()
                for _ in range(n):
                    stream = worker.generation.StreamGenerate(
                        endless(max_tokens=32), timeout=CALL_SECONDS)
                    next(stream)
                    planner.kill()
                    planner.close()
                    begin = time.monotonic()
                    planner = Planner(listen, *flags, first=False)
                    await_true(planner.serving)
                    seconds.append(time.monotonic() - begin)
                    try:
                        last = list(stream)[-1]
                        failed += not last.HasField("finish")
                    except grpc.RpcError:
                        failed += 1
        finally:
            planner.close()
    yield Figure("restart of a planner", "<= 1 s; no stream fails in 100",
                 f"at most {max(seconds):.2f} s; {failed} of {n} streams failed",
                 max(seconds) <= 1 and failed == 0 and (n >= 100 or None))


def sigterm(args):
    with worker_of(args, "--n-ctx=4096", "--slots=1") as worker:
        worker.await_ready()
        stream = worker.generation.StreamGenerate(endless(), timeout=CALL_SECONDS)
        next(stream)
        begin = time.monotonic()
        worker.terminate()
        await_true(lambda: not worker.serving())
        ready = time.monotonic() - begin
        worker.process.wait(timeout=START_SECONDS + 10)
        ended = time.monotonic() - begin
        stream.cancel()
    yield Figure("SIGTERM until NOT_SERVING", "<= 100 ms", f"{ready * 1e3:.0f} ms",
                 ready <= 0.1)
    yield Figure("SIGTERM until the end, beside a stream that nobody reads",
                 "<= 31 s", f"{ended:.1f} s", ended <= 31)


def overload(args):
    output = flood(args)
    share = number(r"tokens/s, (\d+) % of the peak", output)
    millis = number(r"refused after: .*p99 ([\d.]+) ms", output)
    is_known = None not in (share, millis)
    yield Figure("work done at ten times the load", ">= 90 % of the peak",
                 f"{share} %", share >= 90 if is_known else None)
    yield Figure("time to refuse", "p99 <= 10 ms", f"p99 {millis} ms",
                 millis <= 10 if is_known else None)


def tenants(args):
    flags = ("--probes", 50) if args.quick else ()
    output = bench("tenants/flood.py", *flags, args.model)
    ratio = number(r"with the flood: x ([\d.]+)", output)
    yield Figure("first token beside another tenant's flood, p99",
                 "<= 1.2 x beside its streams in all slots",
                 f"x {ratio}" if ratio else "it failed",
                 ratio is not None and ratio <= 1.2)


def reader(args):
    output = flood(args)
    held = number(r"if they are read: (-?\d+) KiB", output)
    ratio = number(r"p99 with / without: ([\d.]+)", output)
    is_known = None not in (held, ratio)
    yield Figure("held for a slow reader", "<= 64 KiB",
                 "no figure" if held is None else
                 f"{held:.0f} KiB of resident memory, the mean of 16",
                 held <= 64 if is_known else None)
    yield Figure("time between others' tokens, p99", "+ 10 % at most",
                 f"x {ratio}", ratio <= 1.1 if is_known else None)


def flood(args):
    """The output of overload.py, which has the figures of two names."""
    if args.flood is None:
        seconds, repeats = (10, 1) if args.quick else (20, 4)
        args.flood = bench("overload.py", "--seconds", seconds, "--repeats",
                           repeats, "--threads", 1, args.model)
    return args.flood


def soak(args):
    n = 2_000 if args.quick else 100_000
    output = bench("soak.py", "--requests", n, args.model)
    growth = number(r"resident after .*\(([+-][\d.]+) %\)", output)
    is_ok = None if growth is None else growth <= 1 and (not args.quick or None)
    yield Figure("growth of memory", "<= 1 % after 100,000 requests",
                 f"{growth} % after {n:,}", is_ok)
    yield from leaks(args)


def held_by(worker):
    """How many descriptors and threads a worker has."""
    folder = pathlib.Path(f"/proc/{worker.process.pid}")
    return (len(list((folder / "fd").iterdir())),
            len(list((folder / "task").iterdir())))


def leaks(args):
    """Descriptors and threads after connections that came and went."""
    with worker_of(args, "--n-ctx=512", "--slots=2") as worker:
        worker.await_ready()

        def connections(n):
            for _ in range(n):
                # Equal channels would share a connection.
                options = [("grpc.use_local_subchannel_pool", 1)]
                with grpc.insecure_channel(worker.address, options) as channel:
                    worker.connect(channel)
                    worker.model()
            worker.connect(worker.channel)
            time.sleep(2)
            return held_by(worker)

        before = connections(20)
        after = connections(50 if args.quick else 1_000)
    yield Figure("descriptors and threads after many connections",
                 "none leaked", f"{before} before, {after} after",
                 all(b <= a for a, b in zip(before, after)))


def edge(args):
    output = bench("edge/edge_cost.py", "--rounds", 2 if args.quick else 20, args.model)

    def ratio(name):
        return number(rf"{name}: .*, ratio ([\d.]+)", output)

    rate, gap = ratio("tokens/s"), ratio("ITL p99 ms")
    work = ratio("processor us a token")
    yield Figure("tokens/s of 16 streams with TLS, tokens, metrics and logs",
                 ">= 0.97 x without", f"x {rate}; processor time a token x {work}",
                 None if rate is None else rate >= 0.97)
    yield Figure("time between tokens with them, p99", "<= 1.05 x without",
                 f"x {gap}", None if gap is None else gap <= 1.05)


def metrics(args):
    output = bench("edge/edge_scale.py", "--only", "metrics", args.model)
    millis = number(r"p50 ([\d.]+) ms", output)
    work = number(r"processor time ([\d.]+) ms", output)
    yield Figure("time to read /metrics of 64 models", "<= 5 ms",
                 f"p50 {millis} ms; processor time {work} ms",
                 None if millis is None else millis <= 5)


def connections(args):
    flags = ("--connections", 100, "--sessions", 500) if args.quick else ()
    output = bench("edge/edge_scale.py", "--only", "connections", *flags, args.model)
    found = re.findall(r"(after [^:]*): resident .*\(([+-][\d.]+) %\)", output)
    if not found:
        raise SystemExit(f"edge_scale.py printed no figure:\n{output}")
    for what, growth in found:
        is_ok = abs(float(growth)) <= 1 and (not args.quick or None)
        yield Figure(f"memory {what}", "within 1 %", f"{growth} %", is_ok)


def power(args):
    cache = (pathlib.Path(binary("plimsoll")).parents[1] / "CMakeCache.txt")
    is_long = "PLIMSOLL_LONG_TESTS:BOOL=ON" in cache.read_text(encoding="utf-8")
    n = 1_000 if is_long else 250  # kPowerCuts of the test
    code, output = run([binary("services_ledger_test"),
                        "--gtest_filter=JournalPowerCutTest.*"])
    passed = code == 0 and "[  PASSED  ] 1 test" in output
    yield Figure("power cuts of a journal", "1,000 points, none lost or doubled",
                 f"{n:,}: " + ("none lost or doubled" if passed else "FAILED"),
                 passed and (is_long or None))


def lines(args):
    listed = run(["git", "-C", str(SOURCE_DIR), "ls-files"])[1].split("\n")

    def count(*folders):
        files = [f for f in listed if f.startswith(folders)
                 and f.endswith((".cc", ".h", ".py", ".cu", ".cuh"))]
        return sum(len((SOURCE_DIR / f).read_bytes().splitlines()) for f in files)

    planner = count("tests/planner/") / count("planner/")
    whole = count("tests/") / count(*(f"{name}/" for name in CODE_FOLDERS))
    yield Figure("lines of tests to lines of code, planner", ">= 5",
                 f"{planner:.2f}", planner >= 5)
    yield Figure("lines of tests to lines of code, all", ">= 1.5",
                 f"{whole:.2f}", whole >= 1.5)


def nightly(args):
    page = (SOURCE_DIR / "docs/measured/nightly.md").read_text(encoding="utf-8")
    wanted = {"coverage": "planner: all lines, 95 % of branches",
              "asan": "clean", "tsan": "clean",
              "fuzz": "no finding, 10^9 executions by 1.0"}
    for stage, goal in wanted.items():
        row = re.search(rf"(?m)^\| `{stage}` \| \d+ \| (\S+) \|.*\| (.*) \|$", page)
        said = f"{row[2]} ({row[1]})" if row else "no run is recorded"
        yield Figure(stage, goal, said, None)


FIGURES = {f.__name__: f for f in (
    leases, estimate, decision, cancel, kill, dead, restart, sigterm, overload,
    tenants, reader, soak, edge, metrics, connections, power, lines, nightly)}


def processor():
    """The name of this machine's processor."""
    info = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    found = re.search(r"(?m)^model name\s*: (.*)$", info)
    return found[1] if found else "unknown"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=FIGURES, action="append",
                        help="this figure; may be repeated")
    parser.add_argument("--quick", action="store_true",
                        help="a few minutes: fewer of everything. What needs the"
                             " whole count is not called ok")
    parser.add_argument("model", help="a GGUF file")
    args = parser.parse_args()
    args.flood = None
    print(f"{datetime.date.today()}, {processor()}, {os.cpu_count()} cores,"
          f" load {os.getloadavg()[0]:.1f}, {os.path.basename(args.model)}\n")
    print("| figure | wanted | measured | |\n|---|---|---|---|", flush=True)
    is_good = True
    for name in args.only or FIGURES:
        for figure in FIGURES[name](args):
            print(figure.row(), flush=True)
            is_good &= figure.is_ok is not False
    sys.exit(0 if is_good else 1)


if __name__ == "__main__":
    main()
