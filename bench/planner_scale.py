#!/usr/bin/env python3
"""How does one planner bear a large fleet?

Starts plimsoll-planner with a journal, registers devices, and reserves and
confirms leases on them by gRPC. Prints grants a second at the beginning and at
the end, the planner's CPU time a call, its memory, the journal's size, how long
watchers wait for a change, and how long a restart takes. Client and planner
share two cores, and the client is Python: the CPU time is the planner's own,
the rates are those of both. Another load on these cores makes them worse.

usage: planner_scale.py [--planner FILE] [--devices N] [--leases N]
Needs the packages of tests/e2e/requirements.txt.
"""

import collections
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

import grpc

sys.path.append(str(pathlib.Path(__file__).parents[1] / "tests" / "e2e"))
from arguments import parser_of  # noqa: E402
from servers import processor_seconds  # noqa: E402
from stubs import PlannerStub, common, planner as v1  # noqa: E402

IN_FLIGHT = 16
DEVICE_BYTES = 80 << 30
SECONDS = 120  # bounds every call
# More leases are asked for device by device: a call may take 48 MiB.
MOST_IN_A_LIST = 80_000
LARGE = [("grpc.max_receive_message_length", -1)]


class Planner:
    """A planner's process on a journal."""

    def __init__(self, binary, journal):
        begin = time.monotonic()
        self.process = subprocess.Popen(
            [binary, "--listen=127.0.0.1:0", f"--journal={journal}", "--first",
             "--lease-ttl=3600", "--log-level=error"],
            stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline().split()
        if not line:
            raise SystemExit("the planner did not start")
        self.start_s = time.monotonic() - begin
        self.address = line[-1]
        self.channel = grpc.insecure_channel(self.address, options=LARGE)
        self.stub = PlannerStub(self.channel)

    def cpu_s(self):
        """Its CPU time so far, in seconds."""
        return processor_seconds(self.process.pid)

    def rss_mib(self):
        """Its resident memory in MiB."""
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        (line,) = [x for x in text.splitlines() if x.startswith("VmRSS:")]
        return int(line.split()[1]) / 1024

    def end(self, kill=False):
        """Ends it; returns the seconds that this took."""
        begin = time.monotonic()
        self.channel.close()
        (self.process.kill if kill else self.process.terminate)()
        self.process.wait()
        self.process.stdout.close()
        return time.monotonic() - begin


def send_all(call, requests):
    """Calls with IN_FLIGHT at once; returns the replies in order."""
    replies, running = [], collections.deque()
    for request in requests:
        if len(running) == IN_FLIGHT:
            replies.append(running.popleft().result())
        running.append(call.future(request, timeout=SECONDS))
    replies += [one.result() for one in running]
    return replies


def timed(planner, call, requests):
    """Returns the replies, and the rate and the planner's CPU time a call."""
    requests = list(requests)
    begin, cpu = time.monotonic(), planner.cpu_s()
    replies = send_all(call, requests)
    n = len(requests)
    return replies, {
        "calls_per_s": round(n / (time.monotonic() - begin)),
        "planner_cpu_us_per_call": round((planner.cpu_s() - cpu) / n * 1e6),
    }


def device(i, free_bytes=DEVICE_BYTES):
    profile = v1.DeviceProfile(
        id=f"node-{i:05}/gpu-0", kind="cuda", name="a GPU of 80 GiB",
        total_bytes=DEVICE_BYTES, free_bytes=free_bytes,
        allocation=common.ALLOCATION_RULE_EXACT, alignment=256,
        workspace=v1.WorkspaceParameters(
            activation_block=32, activation_block_bytes=36, min_logits_rows=1,
            max_candidates=64),
        runtime_bytes=0, runtime_basis=common.BASIS_ESTIMATED)
    return v1.RegisterDeviceRequest(profile=profile, holder=f"worker-{i}")


def grants(first, last, n_devices):
    for i in range(first, last):
        yield v1.ReserveRequest(
            request_id=f"request-{i}", device_id=f"node-{i % n_devices:05}/gpu-0",
            holder=f"worker-{i % n_devices}", purpose=f"model-{i % 50}",
            bytes=1 << 30)


def fill(planner, n_devices, n_leases, found):
    """Registers, reserves and confirms; returns the leases."""
    _, found["register"] = timed(planner, planner.stub.RegisterDevice,
                                 map(device, range(n_devices)))
    leases = []
    tenth = n_leases // 10
    for part in range(10):
        first = part * tenth
        replies, rate = timed(planner, planner.stub.Reserve,
                              grants(first, first + tenth, n_devices))
        leases += [reply.lease for reply in replies]
        if part in (0, 9):
            found["reserve_first_tenth" if part == 0 else
                  "reserve_last_tenth"] = rate
    _, found["confirm"] = timed(planner, planner.stub.Confirm, (
        v1.ConfirmRequest(lease_id=lease.id, epoch=lease.epoch,
                          measured_bytes=lease.bytes)
        for lease in leases[:tenth]))
    _, found["renew"] = timed(planner, planner.stub.Renew, (
        v1.RenewRequest(lease_id=lease.id, epoch=lease.epoch)
        for lease in leases[:tenth]))
    # Each worker makes this call with its renewals.
    _, found["list_own"] = timed(planner, planner.stub.ListLeases, (
        v1.ListLeasesRequest(process=v1.ProcessIdentity(
            pid=i + 1, start_ticks=1, boot_id="boot", pid_namespace=1))
        for i in range(min(n_devices, 1000))))
    return leases


class Watcher(threading.Thread):
    """Notes when the first message came, and when a device had `free_bytes`."""

    def __init__(self, address, free_bytes):
        super().__init__(daemon=True)
        self.channel = grpc.insecure_channel(
            address, options=LARGE + [("grpc.use_local_subchannel_pool", 1)])
        self.free_bytes = free_bytes
        self.first, self.changed = threading.Event(), threading.Event()
        self.at = None
        self.first_bytes = 0
        self.start()

    def run(self):
        request = v1.WatchDevicesRequest(only_changes=True)
        with contextlib.suppress(grpc.RpcError):
            for message in PlannerStub(self.channel).WatchDevices(request):
                if not self.first.is_set():
                    self.first_bytes = message.ByteSize()
                    self.first.set()
                elif any(one.profile.free_bytes == self.free_bytes
                         for one in message.devices):
                    self.at = time.monotonic()
                    self.changed.set()


def watch(planner, n_watchers, found):
    mark = DEVICE_BYTES - 4096
    begin = time.monotonic()
    watchers = [Watcher(planner.address, mark) for _ in range(n_watchers)]
    for one in watchers:
        if not one.first.wait(SECONDS):
            raise SystemExit("a watcher got nothing")
    first_s = time.monotonic() - begin
    begin = time.monotonic()
    planner.stub.RegisterDevice(device(0, mark), timeout=SECONDS)
    for one in watchers:
        if not one.changed.wait(SECONDS):
            raise SystemExit("a watcher missed the change")
    found["watch"] = {
        "watchers": n_watchers,
        "first_message_bytes": watchers[0].first_bytes,
        "all_have_the_first_s": round(first_s, 2),
        "change_to_last_watcher_s": round(max(w.at for w in watchers) - begin, 3),
    }
    for one in watchers:
        one.channel.close()


def list_leases(planner, n_devices, n_leases):
    """All leases, the seconds that this took, and the bytes of the replies."""
    requests = [v1.ListLeasesRequest()]
    if n_leases > MOST_IN_A_LIST:
        requests = (v1.ListLeasesRequest(device_id=f"node-{i:05}/gpu-0")
                    for i in range(n_devices))
    begin = time.monotonic()
    replies = send_all(planner.stub.ListLeases, requests)
    seconds = round(time.monotonic() - begin, 2)
    leases = [lease for reply in replies for lease in reply.leases]
    return leases, seconds, sum(reply.ByteSize() for reply in replies)


def restart(planner, args, journal, leases, kill, found):
    """Restarts the planner; every lease must be there again."""
    end_s = planner.end(kill)
    planner = Planner(args.planner, journal)
    listed, list_s, n_bytes = list_leases(planner, args.devices, len(leases))
    if {x.id for x in listed} != {x.id for x in leases}:
        raise SystemExit("leases were lost or granted anew")
    found["restart_after_kill" if kill else "restart"] = {
        "end_s": round(end_s, 2), "start_s": round(planner.start_s, 2),
        "list_s": list_s, "list_bytes": n_bytes,
        "rss_mib": round(planner.rss_mib())}
    return planner


def main():
    parser = parser_of(__doc__, devices=10_000, leases=100_000, watchers=64)
    parser.add_argument("--planner",
                        default="build/release/bin/plimsoll-planner")
    parser.add_argument("--folder", help="where the journal is (a temporary one)")
    args = parser.parse_args()
    if args.devices < 1 or args.leases < 10 or args.watchers < 1:
        parser.error("there must be a device, a watcher and 10 leases at least")
    found = {"devices": args.devices, "leases": args.leases,
             "load_average": round(os.getloadavg()[0], 1)}
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        os.environ["XDG_STATE_HOME"] = folder
        journal = os.path.join(folder, "leases.db")
        planner = Planner(args.planner, journal)
        try:
            found["empty_rss_mib"] = round(planner.rss_mib())
            leases = fill(planner, args.devices, args.leases, found)
            found["rss_mib"] = round(planner.rss_mib())
            watch(planner, args.watchers, found)
            for kill in (True, False):
                planner = restart(planner, args, journal, leases, kill, found)
            planner.end()
            found["journal_mib"] = round(os.path.getsize(journal) / 2**20, 1)
        finally:
            planner.process.kill()
            planner.process.wait()
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
