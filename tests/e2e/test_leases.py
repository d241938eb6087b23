"""The planner grants nothing twice, and expiry frees nothing."""

from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from servers import refused, until
from stubs import common, planner as v1

DEVICE = "e2e/cpu"
DEVICE_BYTES = 1000


@pytest.fixture
def device(planner):
    """The planner, with a device of DEVICE_BYTES."""
    profile = v1.DeviceProfile(
        id=DEVICE,
        kind="cpu",
        name="a small device",
        total_bytes=DEVICE_BYTES,
        free_bytes=DEVICE_BYTES,
        allocation=v1.ALLOCATION_RULE_EXACT,
        alignment=64,
        workspace=v1.WorkspaceParameters(
            activation_block=32,
            activation_block_bytes=36,
            min_logits_rows=1,
            max_candidates=64,
        ),
        runtime_bytes=0,
        runtime_basis=common.BASIS_ESTIMATED,
    )
    planner.stub.RegisterDevice(v1.RegisterDeviceRequest(profile=profile))
    return planner


def reserve(server, request_id, size):
    """The lease of a Reserve call."""
    request = v1.ReserveRequest(
        request_id=request_id,
        device_id=DEVICE,
        holder="a test",
        purpose="a model",
        bytes=size,
    )
    return server.stub.Reserve(request).lease


def named(lease):
    """What names a lease in later calls."""
    return {"lease_id": lease.id, "epoch": lease.epoch}


def test_repeated_request_id_gets_the_first_reply(device):
    first = reserve(device, "once", 600)
    assert (first.bytes, first.state) == (600, v1.LEASE_STATE_RESERVED)
    again = reserve(device, "once", 600)
    assert (again.id, again.epoch) == (first.id, first.epoch)
    assert [lease.id for lease in device.leases()] == [first.id]


def test_racing_reservations_never_exceed_the_device(device):
    def attempt(i):
        try:
            return reserve(device, f"racer {i}", 300).id
        except grpc.RpcError as error:
            return error.code()

    with ThreadPoolExecutor(16) as pool:
        replies = list(pool.map(attempt, range(16)))
    exhausted = grpc.StatusCode.RESOURCE_EXHAUSTED
    granted = [reply for reply in replies if reply != exhausted]
    assert len(set(granted)) == 3
    assert sorted(lease.id for lease in device.leases()) == sorted(granted)
    assert device.devices()[0].held_bytes == 900
    assert device.devices()[0].available_bytes == 100
