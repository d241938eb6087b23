#!/usr/bin/env python3
"""How fast does the planner answer Plan over a socket?

Starts plimsoll-planner with one model, asks it for plans with the longest
context that fits, by h2load (Debian's nghttp2-client), client and server on the
same two cores: first one call at a time, then many at once. Prints percentiles,
plans a second and CPU time of the server a plan. The load of the machine is
printed too: another process on these cores makes the figures meaningless.

usage: plan_rpc.py [--planner build/release/bin/plimsoll-planner] MODEL
"""
import argparse
import os
import re
import shutil
import subprocess
import tempfile

METHOD = "plimsoll.v1.PlannerService/Plan"
MIN_RESPONSE_BYTES = 256  # errors are in the trailers: their messages are empty


def varint(n):
    out = b""
    while n >= 128:
        out += bytes([n % 128 + 128])
        n //= 128
    return out + bytes([n])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def framed_request(model, budget_bytes):
    """A PlanRequest of a configured model as the body of a gRPC call."""
    request = field(1, field(1, model.encode()))
    request += varint(5 << 3) + varint(budget_bytes)
    return b"\0" + len(request).to_bytes(4, "big") + request


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def percentile(values, percent):
    return values[min(len(values) - 1, len(values) * percent // 100)]


def measure(server, address, body, calls, clients, streams):
    before = cpu_seconds(server.pid)
    with tempfile.NamedTemporaryFile("r") as log:
        command = ["h2load", "-n", str(calls), "-c", str(clients), "-m",
                   str(streams), "-d", body, f"--log-file={log.name}",
                   "-H", "content-type: application/grpc", "-H",
                   "te: trailers", f"http://{address}/{METHOD}"]
        text = subprocess.run(command, check=True, capture_output=True,
                              text=True).stdout
        micros = sorted(int(line.split("\t")[2]) for line in log)
    cpu = cpu_seconds(server.pid) - before
    succeeded = int(re.search(r"(\d+) succeeded", text)[1])
    data = int(re.search(r"\((\d+)\) data", text)[1])
    if succeeded != calls or data < calls * MIN_RESPONSE_BYTES:
        raise SystemExit(f"not all calls were answered:\n{text}")
    rate = float(re.search(r"([\d.]+) req/s", text)[1])
    print(f"  {clients} x {streams:>2} at once"
          f"  {rate:8.0f} plans/s"
          f"  p50 {percentile(micros, 50):>6} us"
          f"  p99 {percentile(micros, 99):>6} us"
          f"  server CPU {cpu / calls * 1e6:6.1f} us a plan"
          f"  {data // calls} bytes")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--planner",
                        default="build/release/bin/plimsoll-planner")
    parser.add_argument("--calls", type=int, default=50000)
    parser.add_argument("--gib", type=int, default=16, help="budget in GiB")
    parser.add_argument("model")
    args = parser.parse_args()
    if shutil.which("h2load") is None:
        raise SystemExit("there is no h2load; Debian has it in nghttp2-client")
    cores = sorted(os.sched_getaffinity(0))[:2]
    os.sched_setaffinity(0, cores)
    print(f"{os.path.basename(args.model)}, budget {args.gib} GiB,"
          f" cores {cores}, load {os.getloadavg()[0]:.1f}")
    server = subprocess.Popen(
        [args.planner, "--listen", "127.0.0.1:0", "--model",
         f"m={args.model}"], stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True)
    try:
        line = server.stdout.readline().split()
        if not line:
            raise SystemExit("the planner did not start; is the model there?")
        address = line[-1]
        with tempfile.NamedTemporaryFile() as body:
            body.write(framed_request("m", args.gib << 30))
            body.flush()
            measure(server, address, body.name, 1000, 1, 1)  # warms up
            measure(server, address, body.name, args.calls // 5, 1, 1)
            for clients in (1, 2, 8):
                measure(server, address, body.name, args.calls, clients, 16)
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
