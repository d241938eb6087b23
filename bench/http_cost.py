#!/usr/bin/env python3
"""What HTTP costs beside gRPC: the same streams from plimsoll-worker by gRPC and
from `plimsoll serve` by server-sent events, in turn, read by one and the same
client, h2load (Debian's nghttp2-client).

Prints tokens a second of all streams, the time to the first byte of a reply of
one token, and the memory that idle connections take of `plimsoll serve`. Both
servers have one thread to compute with unless --threads says otherwise, so that
the rest has a core.

usage: PLIMSOLL_BUILD=build/release http_cost.py [--streams N] MODEL

Needs the packages of tests/e2e/requirements.txt.
"""
import json
import os
import pathlib
import re
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import urllib.request

sys.path.append(str(pathlib.Path(__file__).parents[1] / "tests" / "e2e"))

from arguments import parser_of  # noqa: E402
from asks import GREEDY, stream, text  # noqa: E402
from servers import Front, Worker, until  # noqa: E402

PROMPT = "Once upon a time there was a ship that"
GRPC_METHOD = "plimsoll.v1.GenerationService/StreamGenerate"
GRPC_HEADERS = ("-H", "content-type: application/grpc", "-H", "te: trailers")
SMALL = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


def grpc_body(n_tokens):
    """The frame of a StreamGenerateRequest."""
    request = stream(text=text(PROMPT), sampling=GREEDY, ignore_eos=True,
                     max_tokens=n_tokens).SerializeToString()
    return b"\0" + len(request).to_bytes(4, "big") + request


def http_body(n_tokens):
    """The JSON of the same request to /v1/completions."""
    return json.dumps({"prompt": PROMPT, "temperature": 0, "ignore_eos": True,
                       "max_tokens": n_tokens, "stream": True}).encode()


def load(target, body, n_streams, n_calls):
    """The seconds of so many calls, and of each call."""
    with tempfile.NamedTemporaryFile() as file, tempfile.NamedTemporaryFile(
            "r") as log:
        file.write(body)
        file.flush()
        printed = subprocess.run(
            ["h2load", "-n", str(n_calls), "-c", str(n_streams), "-m", "1",
             "-d", file.name, f"--log-file={log.name}", *target],
            check=True, capture_output=True, text=True).stdout
        calls = [int(line.split("\t")[2]) / 1e6 for line in log]
    if f"{n_calls} succeeded" not in printed:
        raise SystemExit(f"not all calls were answered:\n{printed}")
    finished = re.search(r"finished in ([\d.]+)(us|ms|s)", printed)
    unit = {"us": 1e-6, "ms": 1e-3, "s": 1}[finished[2]]
    return float(finished[1]) * unit, calls


def is_ready(front):
    """Whether the server's models are loaded."""
    with urllib.request.urlopen(f"{front.url}/v1/models") as reply:
        models = json.load(reply)["data"]
    return all(model["state"] == "ready" for model in models)


def resident_bytes(process):
    """The memory of a process."""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024


def idle_bytes(front, n_connections):
    """The memory that kept connections take, each of which asked once."""
    host, port = front.address.rsplit(":", 1)
    before = resident_bytes(front.process)
    kept = []
    for _ in range(n_connections):
        connection = socket.create_connection((host, int(port)), timeout=60)
        connection.sendall(SMALL)
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        kept.append(connection)
    taken = resident_bytes(front.process) - before
    for connection in kept:
        connection.close()
    return taken


def main():
    parser = parser_of(__doc__, streams=16, tokens=256, threads=1, runs=15,
                       connections=2000)
    parser.add_argument("model")
    args = parser.parse_args()
    if shutil.which("h2load") is None:
        sys.exit("h2load is missing: apt-get install nghttp2-client")
    descriptors = 2 * args.connections + 256
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(descriptors, most), most))
    common = (f"--slots={args.streams}", "--n-ctx=1024",
              f"--threads={args.threads}")
    name = os.path.basename(args.model)
    with Worker(f"--model=m={args.model}", *common) as worker, Front(
            args.model, *common) as front:
        worker.await_ready()
        until(lambda: is_ready(front), 120, "the model")
        targets = {
            "gRPC": ((*GRPC_HEADERS, f"http://{worker.address}/{GRPC_METHOD}"),
                     grpc_body),
            "HTTP": (("--h1", "-H", "content-type: application/json",
                      f"{front.url}/v1/completions"), http_body),
        }
        rates = {kind: [] for kind in targets}
        firsts = {kind: [] for kind in targets}
        for _ in range(args.runs):
            for kind, (target, body) in targets.items():
                seconds, _ = load(target, body(args.tokens), args.streams,
                                  args.streams)
                rates[kind].append(args.streams * args.tokens / seconds)
                _, calls = load(target, body(1), 1, 20)
                firsts[kind].append(statistics.median(calls))
        ratios = sorted(h / g for h, g in zip(rates["HTTP"], rates["gRPC"]))
        middle = {kind: statistics.median(all_) for kind, all_ in rates.items()}
        first = {kind: statistics.median(all_) * 1e3
                 for kind, all_ in firsts.items()}
        print(f"{name}, {args.streams} streams of {args.tokens} tokens, "
              f"{args.threads} threads: gRPC {middle['gRPC']:.0f}, HTTP "
              f"{middle['HTTP']:.0f} tokens/s, ratio "
              f"{statistics.median(ratios):.3f} ({ratios[0]:.3f}.."
              f"{ratios[-1]:.3f})")
        print(f"a reply of one token: gRPC {first['gRPC']:.2f}, HTTP "
              f"{first['HTTP']:.2f} ms, difference "
              f"{first['HTTP'] - first['gRPC']:+.2f} ms")
        taken = idle_bytes(front, args.connections)
        print(f"{args.connections} idle connections: {taken / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
