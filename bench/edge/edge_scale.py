#!/usr/bin/env python3
"""What many models, connections and sessions cost a worker.

  metrics      the time to read /metrics of a worker with 64 models, each of which
               is loaded and has answered a request
  connections  the worker's memory before and after 1,000 connections at once, and
               10,000 sessions that were opened and closed

The 64 models are one small file of random weights under 64 names: what /metrics
costs depends on the number of models, not on their size. The sessions are of the
model that is given.

Needs the packages of tests/e2e/requirements.txt, and numpy for the small file.

usage: PLIMSOLL_BUILD=build/release edge_scale.py [--only NAME] MODEL
"""
import contextlib
import os
import pathlib
import resource
import statistics
import sys
import tempfile
import threading
import time
import urllib.request

SOURCE_DIR = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(SOURCE_DIR / "bench"))
sys.path.append(str(SOURCE_DIR / "tests" / "e2e"))
sys.path.append(str(SOURCE_DIR / "tests" / "testdata"))

import grpc  # noqa: E402
from arguments import parser_of  # noqa: E402
from asks import GREEDY, generate  # noqa: E402
from servers import CALL_SECONDS, Worker, processor_seconds  # noqa: E402
from stubs import ModelStub, common, model, session  # noqa: E402

from edge_cost import METRICS, metrics_url  # noqa: E402
from mixed_traffic import percentile  # noqa: E402
from soak import MIB, chat_once, settled  # noqa: E402

SMALL_MODEL = "llama_q4_1"
CLIENTS = 4


def read_times(url, n):
    """The seconds of n reads of a page, and what was read last."""
    seconds, page = [], b""
    for _ in range(n):
        begin = time.perf_counter()
        with urllib.request.urlopen(url, timeout=CALL_SECONDS) as reply:
            page = reply.read()
        seconds.append(time.perf_counter() - begin)
    return seconds, page.decode()


def ask_once(worker, name):
    """One request, so that each of the model's series has a value."""
    request = generate(name, tokens=common.TokenPrompt(ids=[5, 6, 7]),
                       sampling=GREEDY, max_tokens=2, ignore_eos=True)
    worker.generation.Generate(request, timeout=CALL_SECONDS)


def metrics(args):
    from make_random_models import write_file  # needs numpy
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "small.gguf"
        path.write_bytes(write_file(SMALL_MODEL)[0])
        names = [f"model-{i:02}" for i in range(args.models)]
        flags = [f"--model={name}={path}" for name in names]
        with Worker(*flags, "--n-ctx=64", "--slots=1", "--threads=1",
                    "--log-format=json", METRICS) as worker:
            worker.await_ready()
            for name in names:
                ask_once(worker, name)
            before = processor_seconds(worker.process.pid)
            seconds, page = read_times(metrics_url(worker), args.reads)
            taken = processor_seconds(worker.process.pid) - before
    series = [line for line in page.splitlines() if not line.startswith("#")]
    counted = [line for line in series
               if line.startswith("plimsoll_generation_tokens_total")
               and not line.endswith(" 0")]
    if len(counted) != args.models:
        raise SystemExit(f"{len(counted)} models counted tokens, not {args.models}")
    print(f"/metrics of {args.models} models: {len(series):,} series,"
          f" {len(page):,} bytes, p50 {statistics.median(seconds) * 1e3:.2f} ms,"
          f" p99 {percentile(seconds, 99) * 1e3:.2f} ms, the worker's processor"
          f" time {taken / args.reads * 1e3:.2f} ms,"
          f" load {os.getloadavg()[0]:.1f}")


def connect_at_once(worker, n):
    """Connections that all are open at the same time, each with a call."""
    # Equal channels would share a connection.
    options = [("grpc.use_local_subchannel_pool", 1)]
    with contextlib.ExitStack() as stack:
        for _ in range(n):
            channel = stack.enter_context(
                grpc.insecure_channel(worker.address, options))
            ModelStub(channel).ListModels(model.ListModelsRequest(),
                                          timeout=CALL_SECONDS)
        folder = pathlib.Path(f"/proc/{worker.process.pid}/fd")
        if len(list(folder.iterdir())) < n:
            raise SystemExit("the worker does not have all connections")


def open_and_close(worker, n, chat_every=100):
    """Sessions, a few at once; some of them say something."""
    numbers, lock = iter(range(n)), threading.Lock()

    def client():
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            if number % chat_every == 0:
                chat_once(worker)
                continue
            opened = worker.sessions.OpenSession(
                session.OpenSessionRequest(), timeout=CALL_SECONDS).session
            worker.sessions.CloseSession(session.CloseSessionRequest(
                session_id=opened.session_id), timeout=CALL_SECONDS)

    threads = [threading.Thread(target=client) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def connections(args):
    with Worker(f"--model=m={args.model}", "--n-ctx=512", f"--slots={2 * CLIENTS}",
                "--prefix-cache=0") as worker:
        worker.await_ready()
        connect_at_once(worker, 20)
        open_and_close(worker, 200)
        before = settled(worker)
        # gRPC keeps the objects of descriptors that it had once, so the first
        # connections leave more behind than all later ones.
        for what, use in (
                (f"the first {args.connections:,} connections at once",
                 lambda: connect_at_once(worker, args.connections)),
                (f"{args.connections:,} more and {args.sessions:,} sessions",
                 lambda: (connect_at_once(worker, args.connections),
                          open_and_close(worker, args.sessions)))):
            use()
            after = settled(worker)
            print(f"after {what}: resident {before / MIB:.2f} MiB before,"
                  f" {after / MIB:.2f} MiB after"
                  f" ({100 * (after / before - 1):+.2f} %)", flush=True)
            before = after


PARTS = {"metrics": metrics, "connections": connections}


def main():
    parser = parser_of(__doc__, models=64, reads=500, connections=1_000,
                       sessions=10_000)
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("model")
    args = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The worker inherits this limit.
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    for name in args.only or PARTS:
        PARTS[name](args)


if __name__ == "__main__":
    main()
