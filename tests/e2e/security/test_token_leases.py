"""A token tells workers apart: each touches its own leases only."""

import grpc
import pytest

from conftest import model_flag
from security.test_security import Tokens
from servers import CALL_SECONDS, Planner, Worker, device_profile, refused, until
from stubs import model, planner as v1
from test_leases import DEVICE, named

DENIED = grpc.StatusCode.PERMISSION_DENIED
SECRET = "0123456789abcdef"


@pytest.fixture
def tokens(tmp_path):
    """Two workers, and an administrator."""
    tokens = Tokens(tmp_path)
    for name, role in (("gpu1", "worker"), ("gpu2", "worker"), ("a", "admin")):
        tokens.add(name, role)
    return tokens


def leases(planner, tokens):
    request = v1.ListLeasesRequest()
    return planner.stub.ListLeases(request, metadata=tokens.metadata("a")).leases


def register_as(planner, tokens, name, size):
    """Returns the size of the device that counts then."""
    profile = device_profile(DEVICE, size)
    request = v1.RegisterDeviceRequest(profile=profile, holder="host/1")
    reply = planner.stub.RegisterDevice(request, metadata=tokens.metadata(name))
    return reply.device.profile.total_bytes


def reserve_as(planner, tokens, name, secret=""):
    request = v1.ReserveRequest(
        request_id="r", device_id=DEVICE, holder="host/1", bytes=600, secret=secret
    )
    return planner.stub.Reserve(request, metadata=tokens.metadata(name)).lease


def test_a_workers_token_is_for_its_own_leases(tokens):
    with Planner(*tokens.flag()) as planner:
        assert register_as(planner, tokens, "gpu1", 1000) == 1000
        lease = reserve_as(planner, tokens, "gpu1")
        assert lease.holder == "token:gpu1 host/1"
        stub = planner.stub
        for call, request in (
            (stub.Confirm, v1.ConfirmRequest(**named(lease), measured_bytes=600)),
            (stub.Renew, v1.RenewRequest(**named(lease))),
            (stub.Release, v1.ReleaseRequest(**named(lease))),
        ):
            with refused(DENIED) as failures:
                call(request, metadata=tokens.metadata("gpu2"))
            assert "another worker" in failures[0].message
            call(request, metadata=tokens.metadata("gpu1"))
        assert not leases(planner, tokens)


def test_no_token_names_a_size_in_the_place_of_another(tokens):
    with Planner(*tokens.flag()) as planner:
        assert register_as(planner, tokens, "gpu1", 1000) == 1000
        assert register_as(planner, tokens, "gpu2", 5000) == 1000


def test_the_same_request_of_two_workers_is_two_leases(tokens):
    with Planner(*tokens.flag()) as planner:
        register_as(planner, tokens, "gpu1", 2000)
        first = reserve_as(planner, tokens, "gpu1")
        assert reserve_as(planner, tokens, "gpu2").id != first.id
        assert reserve_as(planner, tokens, "gpu1").id == first.id


def test_a_worker_keeps_its_leases_when_its_token_is_replaced(
    tokens, tmp_path, smollm2
):
    file = tmp_path / "token"
    file.write_text(tokens.of["gpu1"])
    with Planner(*tokens.flag(), "--lease-ttl=1") as planner:
        flags = (f"--planner={planner.address}", f"--token-file={file}")
        with Worker(
            model_flag("smollm2"), "--n-ctx=256", "--slots=1", *flags
        ) as worker:
            worker.await_ready()
            (before,) = leases(planner, tokens)
            assert before.holder.startswith("token:gpu1 ")
            file.write_text(tokens.of["gpu2"])
            tokens.revoke("gpu1")
            # Some renewals later it is as before.
            until(
                lambda: leases(planner, tokens)[0].held_for.seconds
                >= before.held_for.seconds + 4,
                what="renewals",
            )
            (after,) = leases(planner, tokens)
            assert (after.id, after.state) == (before.id, v1.LEASE_STATE_CONFIRMED)
            request = model.UnloadModelRequest()
            worker.models.UnloadModel(request, timeout=CALL_SECONDS)
            until(lambda: not leases(planner, tokens), what="the release")
