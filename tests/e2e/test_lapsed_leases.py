"""A worker and its planner that stop, or end, in the middle of a load."""

from concurrent.futures import ThreadPoolExecutor
import pathlib
import random
import signal
import threading
import time

import grpc
import pytest

from conftest import model_flag
from servers import CALL_SECONDS, Failure, Planner, Worker, nightly, stop, until
from stubs import model as v1, planner as planner_v1

MIB = 1 << 20
CHUNK_BYTES = 64 * MIB  # what a worker touches before it asks again
# Keys and values of 3 GB, so that one thread takes a while to zero them.
LARGE = {"n_ctx": 2048, "n_slots": 64}
LARGE_BYTES = 3 << 30


def status_bytes(process, key):
    """A field of /proc/PID/status."""
    text = pathlib.Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    line = next(line for line in text.splitlines() if line.startswith(key + ":"))
    return int(line.split()[1]) * 1024


def stop_in_load(worker):
    """Stops the worker while it zeroes; returns its resident bytes then."""
    start = status_bytes(worker.process, "VmRSS")
    end = time.monotonic() + 60
    while status_bytes(worker.process, "VmRSS") < start + 2 * CHUNK_BYTES:
        assert time.monotonic() < end, worker.log()
    worker.process.send_signal(signal.SIGSTOP)
    stat = pathlib.Path(f"/proc/{worker.process.pid}/stat")
    until(lambda: stat.read_text(encoding="ascii").split()[2] == "T")
    stopped = status_bytes(worker.process, "VmRSS")
    assert stopped < LARGE_BYTES - 8 * CHUNK_BYTES, "it was stopped too late"
    return stopped


def lapsed(planner):
    """Whether the only lease is expired."""
    states = [lease.state for lease in planner.leases()]
    return states == [planner_v1.LEASE_STATE_SUSPECT]


@pytest.mark.parametrize(
    "planner_answers", [True, pytest.param(False, marks=nightly)]
)
def test_a_load_whose_lease_lapsed_touches_nothing_more(smollm2, planner_answers):
    def failed_load():
        with pytest.raises(grpc.RpcError) as caught:
            worker.load(**LARGE)
        return Failure(caught.value)

    with Planner() as planner:
        flags = ("--lazy", "--threads=1", f"--planner={planner.address}")
        with Worker(model_flag("smollm2"), *flags) as worker:
            with ThreadPoolExecutor(1) as pool:
                load = pool.submit(failed_load)
                stopped_bytes = stop_in_load(worker)
                until(lambda: lapsed(planner), 30, "the end of the lease")
                if not planner_answers:
                    planner.process.send_signal(signal.SIGSTOP)
                worker.process.send_signal(signal.SIGCONT)
                peak = 0
                while not load.done():  # its own peak is reset after a load
                    peak = max(peak, status_bytes(worker.process, "VmRSS"))
                failure = load.result(timeout=CALL_SECONDS)
            planner.process.send_signal(signal.SIGCONT)
            assert failure.code == grpc.StatusCode.UNAVAILABLE
            assert failure.info.reason == "LEASE_LOST"
            assert peak < stopped_bytes + CHUNK_BYTES + 16 * MIB
            until(lambda: not planner.leases(), 30, "the release")
            # All was given back, and the next load is a load like any other.
            assert status_bytes(worker.process, "VmRSS") < stopped_bytes
            worker.load(n_ctx=256, n_slots=1)


def test_a_load_stops_whose_planner_is_silent_for_a_time_to_live(smollm2):
    ttl_seconds = 0.5

    def failed_load():
        with pytest.raises(grpc.RpcError) as caught:
            worker.load(**{**LARGE, "n_slots": 2 * LARGE["n_slots"]})
        return Failure(caught.value)

    flags = (f"--lease-ttl={ttl_seconds}", "--lease-grace=0.1", "--recovery-time=1")
    with Planner(*flags) as planner, ThreadPoolExecutor(1) as pool:
        flags = ("--lazy", "--threads=1", f"--planner={planner.address}")
        with Worker(model_flag("smollm2"), *flags) as worker:
            start = status_bytes(worker.process, "VmRSS")
            load = pool.submit(failed_load)
            until(
                lambda: status_bytes(worker.process, "VmRSS")
                > start + 2 * CHUNK_BYTES,
                60,
                "the start of the load",
            )
            stop(planner.process)
            time.sleep(ttl_seconds)
            lapsed_bytes = status_bytes(worker.process, "VmRSS")
            assert lapsed_bytes < 2 * LARGE_BYTES - 8 * CHUNK_BYTES, "it was too late"
            peak = 0
            while not load.done():  # its own peak is reset after a load
                peak = max(peak, status_bytes(worker.process, "VmRSS"))
            planner.process.send_signal(signal.SIGCONT)
            failure = load.result(timeout=CALL_SECONDS)
            assert failure.code == grpc.StatusCode.UNAVAILABLE
            assert failure.info.reason == "LEASE_LOST"
            assert peak < lapsed_bytes + CHUNK_BYTES + 16 * MIB
            until(lambda: not planner.leases(), 30, "the release")


def test_leases_are_what_a_worker_holds_after_crashes_of_its_planner(
    smollm2, tmp_path
):
    is_over = threading.Event()

    def traffic():
        while not is_over.is_set():
            try:
                worker.load(n_ctx=256, n_slots=1)
                request = v1.UnloadModelRequest()
                worker.models.UnloadModel(request, timeout=CALL_SECONDS)
            except grpc.RpcError:
                pass  # there is no planner

    def settled():
        if worker.model().state not in (v1.MODEL_STATE_READY, v1.MODEL_STATE_ABSENT):
            return False
        held = worker.model().state == v1.MODEL_STATE_READY
        return len(planner.leases()) == held

    def loaded():
        try:
            return worker.load(n_ctx=256, n_slots=1)
        except grpc.RpcError as error:
            # The worker tries its connection again within 2 s.
            assert Failure(error).info.reason == "PLANNER_UNAVAILABLE"
            return None

    delays = random.Random(14)
    journal = f"--journal={tmp_path / 'leases.db'}"
    planner = Planner(journal)
    try:
        listen = f"--listen={planner.address}"
        flags = ("--lazy", f"--planner={planner.address}")
        with Worker(model_flag("smollm2"), *flags) as worker:
            with ThreadPoolExecutor(1) as pool:
                done = pool.submit(traffic)
                for _ in range(8):
                    time.sleep(delays.uniform(0.2, 1.0))  # anywhere in a load
                    planner.kill()
                    planner.close()
                    planner = Planner(journal, listen, first=False)
                is_over.set()
                done.result(timeout=CALL_SECONDS)
            until(settled, 20, "a lease for each load")
            until(loaded, 20, "a load")
            assert len(planner.leases()) == 1
    finally:
        planner.close()
