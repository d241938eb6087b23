"""F2: a real worker that is killed in a load or in a drain gives its bytes back.

The other points are in test_leases.py, test_lapsed_leases.py, test_models.py and
test_cancel.py: after a reservation, after a confirmation, in a stream.
"""

import uuid

import grpc
import pytest

from asks import GREEDY, endless, generate, text
from conftest import model_flag
from servers import CALL_SECONDS, Planner, Worker, refused, until
from stubs import model as v1, planner as lease_v1

SIZES = {"n_ctx": 4096, "n_slots": 1}  # a stream of it outlasts a test
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED


def start(planner, *flags):
    """A worker that shares its device with others and has loaded nothing."""
    return Worker(
        model_flag("smollm2"), "--lazy", "--device-id=shared",
        f"--planner={planner.address}", *flags,
    )


def check_held(planner):
    """Expects what is held to count, so that it is not granted again."""
    (device,) = planner.devices()
    leases = planner.leases()
    assert device.held_bytes == sum(lease.bytes for lease in leases)
    too_much = device.profile.total_bytes - device.held_bytes + 1
    with refused(EXHAUSTED, "MEMORY_BUDGET_EXCEEDED"):
        request = lease_v1.ReserveRequest(
            request_id=uuid.uuid4().hex, device_id="shared", holder="a test",
            purpose="a model", bytes=too_much,
        )
        planner.stub.Reserve(request, timeout=CALL_SECONDS)
    return leases


def check_next_loads(planner, worker):
    """Expects all bytes to come back, and another worker to load and to answer."""
    until(lambda: not check_held(planner), what="the dead one's bytes")
    worker.load(**SIZES)
    (lease,) = check_held(planner)
    assert lease.state == lease_v1.LEASE_STATE_CONFIRMED
    assert lease.watched_pid == worker.process.pid
    request = generate(text=text("Once"), sampling=GREEDY, max_tokens=1)
    reply = worker.generation.Generate(request, timeout=CALL_SECONDS)
    assert reply.usage.generated_tokens == 1


def test_f02_a_worker_that_is_killed_in_a_load(smollm2, failing_calls):
    with Planner() as planner, start(planner) as second:
        failing_calls.hang_reads(True)  # holds the load where it reads weights
        with failing_calls.preloaded(), start(planner) as first:
            request = v1.LoadModelRequest(options=SIZES)
            load = first.models.LoadModel(request, timeout=CALL_SECONDS)
            while not next(load).HasField("plan"):
                pass  # it has its lease then
            (lease,) = check_held(planner)
            assert lease.state == lease_v1.LEASE_STATE_RESERVED
            first.kill()
            with pytest.raises(grpc.RpcError) as caught:
                list(load)
            assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
            check_next_loads(planner, second)


def test_f02_a_worker_that_is_killed_in_a_drain(smollm2):
    with Planner() as planner, start(planner) as second:
        with start(planner, "--drain-timeout=60") as first:
            first.load(**SIZES)
            stream = first.generation.StreamGenerate(endless(), timeout=CALL_SECONDS)
            next(stream)
            first.terminate()
            until(lambda: not first.serving(), what="the drain")
            (lease,) = check_held(planner)
            assert lease.state == lease_v1.LEASE_STATE_CONFIRMED
            first.kill()
            with pytest.raises(grpc.RpcError) as caught:
                for part in stream:
                    assert not part.HasField("finish")
            assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
            check_next_loads(planner, second)
