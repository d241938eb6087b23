"""A planner and a worker whose network is cut: prints what became of the lease.

    unshare --net python cut_planner.py serving|loading MODEL_FLAG

The only network is a loopback device of our own, between the worker and the planner's
address for workers. While the worker serves, it is taken down for less than the lease's
time to live, and then for more; while it loads, until the load has ended. Both also listen on Unix sockets, which have no part in that, so that the test can
look at them meanwhile. The worker has process ids of its own, as on another host: nobody
sees whether it lives. Prints one line of JSON. Needs root.
"""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from asks import endless  # noqa: E402
from servers import FarWorker, Failure, Planner, free_port, until  # noqa: E402
from stubs import generation as gen, planner as planner_v1  # noqa: E402

TTL_SECONDS = 9  # so the worker renews every 3 s
SHORT_SECONDS = 2
LONG_SECONDS = TTL_SECONDS + 3
# A call that is under way ends after 5 s, and a broken connection after 10.
BACK_SECONDS = 20
BEGUN_BYTES = 128 << 20  # a part of the 6 GB that the load zeroes


class Stream:
    """An endless stream, and the longest time without a message of it."""

    def __init__(self, worker):
        rolls = {"context_policy": gen.CONTEXT_POLICY_ROLL}
        self._call = worker.generation.StreamGenerate(endless("smollm2", **rolls))
        next(self._call)
        self._last = time.monotonic()
        self.longest_gap = 0
        self.is_over = False
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        try:
            for _ in self._call:
                now = time.monotonic()
                self.longest_gap = max(self.longest_gap, now - self._last)
                self._last = now
        except grpc.RpcError:
            pass
        self.is_over = True


def loopback(state):
    """Takes the only network up or down."""
    subprocess.run(["ip", "link", "set", "lo", state], check=True)


def state_of(lease):
    return planner_v1.LeaseState.Name(lease.state).removeprefix("LEASE_STATE_")


def cut(planner, seconds, meanwhile=lambda: None):
    """Cuts the network; returns what the planner says of the only lease in that time."""
    (before,) = planner.leases()
    seen = {"states": [], "held": []}
    begin = time.monotonic()

    def look():
        (lease,) = planner.leases()
        (device,) = planner.devices()
        for key, value in (("states", state_of(lease)), ("held", device.held_bytes)):
            if value not in seen[key]:
                seen[key].append(value)
        return lease

    loopback("down")
    said = threading.Thread(target=lambda: seen.update(said=meanwhile()))
    said.start()
    while time.monotonic() < begin + seconds:
        look()
        time.sleep(0.05)
    loopback("up")
    healed = time.monotonic()

    def is_renewed():
        lease = look()
        # Not the time to live that was left before the cut.
        left = lease.expires_in.ToMilliseconds() / 1000
        renewed = time.monotonic() + left - TTL_SECONDS
        return state_of(lease) == "CONFIRMED" and renewed > healed

    until(is_renewed, BACK_SECONDS, "a renewal after the cut")
    seen["back_seconds"] = round(time.monotonic() - healed, 2)
    said.join()
    (after,) = planner.leases()
    seen["is_the_same"] = (after.id, after.epoch) == (before.id, before.epoch)
    return seen


def refused(worker, model, **size):
    """The reason why a load is refused, and whether it says when to try again."""
    try:
        worker.load(model, **size)
    except grpc.RpcError as error:
        failure = Failure(error)
        return failure.info.reason, failure.retry is not None
    return "it was loaded", False


@contextlib.contextmanager
def pair(*flags):
    """A planner with these flags, and a worker that has loaded nothing yet."""
    model = sys.argv[2]
    other = model.replace("=smollm2=", "=other=")
    with tempfile.TemporaryDirectory() as folder:
        admin = f"127.0.0.1:{free_port()}"
        ways = (f"--listen=unix:{folder}/planner", f"--admin-listen={admin}")
        with Planner(*ways, *flags) as planner:
            ways = (f"--listen=unix:{folder}/worker", f"--planner={admin}")
            with FarWorker(model, other, "--lazy", "--threads=1", *ways) as worker:
                yield planner, worker


def serving():
    size = {"n_ctx": 1024, "n_slots": 1}
    with pair(f"--lease-ttl={TTL_SECONDS}") as (planner, worker):
        worker.load("smollm2", **size)
        (lease,) = planner.leases()
        stream = Stream(worker)
        return {
            "is_watched": lease.HasField("watched_pid"),
            "short": cut(planner, SHORT_SECONDS),
            "long": cut(
                planner, LONG_SECONDS, lambda: refused(worker, "other", **size)
            ),
            "longest_gap": stream.longest_gap,
            "is_over": stream.is_over,
        }


def loading():
    """Cuts in the middle of a load of many bytes."""
    times = ("--lease-ttl=0.5", "--lease-grace=0.1", "--recovery-time=1")
    with pair(*times) as (planner, worker), ThreadPoolExecutor(1) as pool:
        statm = pathlib.Path(f"/proc/{worker.pid()}/statm")

        def resident():
            return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        start = resident()
        load = pool.submit(refused, worker, "smollm2", n_ctx=2048, n_slots=128)
        until(lambda: resident() > start + BEGUN_BYTES, 60, "the start of the load")
        loopback("down")
        said = load.result(60)
        states = [state_of(lease) for lease in planner.leases()]
        loopback("up")
        until(lambda: not planner.leases(), BACK_SECONDS, "the release")
        worker.load("smollm2", n_ctx=256, n_slots=1)
        return {"said": said, "states": states, "left": resident() - start}


loopback("up")
print(json.dumps({"serving": serving, "loading": loading}[sys.argv[1]]()))
