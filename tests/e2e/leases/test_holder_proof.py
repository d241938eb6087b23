"""Only its holder says something about a lease: ids and epochs are no secret."""

import sqlite3

import grpc
import pytest

from conftest import model_flag
from servers import Planner, Worker, refused, until
from stubs import model, planner as v1
from test_leases import DEVICE, DEVICE_BYTES, SHORT, named, register, reserve

SECRET = "0123456789abcdef"
DENIED = grpc.StatusCode.PERMISSION_DENIED


def reserve_with(planner, secret, size=600):
    """The lease of a holder that chose `secret`."""
    request = v1.ReserveRequest(
        request_id=f"with {len(secret)} bytes",
        device_id=DEVICE,
        holder="a test",
        bytes=size,
        secret=secret,
    )
    return planner.stub.Reserve(request).lease


def calls(planner, lease, secret):
    """The calls about a lease, the last of which ends it."""
    name = {**named(lease), "secret": secret}
    presented = v1.PresentedLease(
        device_id=DEVICE, holder="a test", bytes=600, measured_bytes=600
    )
    stub = planner.stub
    yield lambda: stub.Confirm(v1.ConfirmRequest(**name, measured_bytes=600))
    yield lambda: stub.Renew(v1.RenewRequest(**name))
    yield lambda: stub.Renew(v1.RenewRequest(**name, presented=presented))
    yield lambda: stub.Release(v1.ReleaseRequest(**name))


def is_refused(planner, lease, *secrets):
    """Nobody with these secrets may do anything, and the lease stays."""
    for secret in secrets:
        for call in calls(planner, lease, secret):
            with refused(DENIED) as failures:
                call()
            assert "secret" in failures[0].message
    assert [one.id for one in planner.leases()] == [lease.id]


def test_id_and_epoch_are_not_enough(planner):
    register(planner)
    lease = reserve_with(planner, SECRET)
    is_refused(planner, lease, "", SECRET[1:], SECRET + "0", "x" * 16, "x" * 4096)
    for call in calls(planner, lease, SECRET):
        call()
    assert not planner.leases()


@pytest.mark.parametrize("length, is_good", [(15, False), (16, True), (128, True),
                                             (129, False)])
def test_a_secret_has_a_limited_length(planner, length, is_good):
    register(planner)
    if is_good:
        assert reserve_with(planner, "x" * length).bytes == 600
        return
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD") as failures:
        reserve_with(planner, "x" * length)
    assert "secret has" in failures[0].message


def test_a_planner_may_refuse_workers_without_secrets(smollm2):
    flag = "--require-lease-secrets"
    with Planner(flag) as planner:
        register(planner)
        with refused(DENIED) as failures:
            reserve(planner, "of an earlier version", 600)
        assert flag in failures[0].message
        assert not planner.leases()
        assert reserve_with(planner, SECRET).bytes == 600
        flags = ("--n-ctx=256", "--slots=1", f"--planner={planner.address}")
        with Worker(model_flag("smollm2"), *flags) as worker:
            worker.await_ready()


def test_nobody_is_told_the_secret(planner, tmp_path):
    register(planner)
    lease = reserve_with(planner, SECRET)
    for message in (lease, planner.listed()):
        assert SECRET.encode() not in message.SerializeToString()
    assert SECRET not in planner.log()


def test_a_secret_outlives_its_planner(tmp_path):
    path = tmp_path / "leases.db"
    with Planner(f"--journal={path}", *SHORT) as planner:
        register(planner)
        lease = reserve_with(planner, SECRET)
        planner.kill()
    for file in tmp_path.glob("leases.db*"):
        assert SECRET.encode() not in file.read_bytes(), file
    with Planner(f"--journal={path}", *SHORT, first=False) as planner:
        register(planner)
        is_refused(planner, lease, "", "x" * 16)
        for call in calls(planner, lease, SECRET):
            call()
        assert reserve(planner, "next", DEVICE_BYTES).bytes == DEVICE_BYTES


def test_a_lease_of_an_earlier_versions_journal_is_released_as_before(tmp_path):
    path = tmp_path / "leases.db"
    with Planner(f"--journal={path}") as planner:
        register(planner)
        lease = reserve_with(planner, SECRET)
        planner.terminate()
        planner.process.wait()
    with sqlite3.connect(path) as journal:  # as that version left it
        journal.execute("DROP TABLE lease_secret")
    journal.close()
    with Planner(f"--journal={path}", first=False) as planner:
        planner.stub.Release(v1.ReleaseRequest(**named(lease)))
        until(lambda: not planner.leases(), what="the release")


def test_a_workers_lease_is_its_own(smollm2):
    with Planner() as planner:
        flags = ("--n-ctx=256", "--slots=1", f"--planner={planner.address}")
        with Worker(model_flag("smollm2"), *flags) as worker:
            worker.await_ready()
            (lease,) = planner.leases()
            with refused(DENIED):
                planner.stub.Release(v1.ReleaseRequest(**named(lease)))
            assert [one.id for one in planner.leases()] == [lease.id]
            worker.models.UnloadModel(model.UnloadModelRequest())
            until(lambda: not planner.leases(), what="the release")
