"""On a Unix socket the kernel says which process holds a lease."""

import os
import pathlib
import subprocess

import grpc
import pytest

from servers import Planner, refused
from stubs import planner as v1
from test_leases import DEVICE, identity, named, register, reserve

DENIED = grpc.StatusCode.PERMISSION_DENIED


@pytest.fixture
def planner(tmp_path):
    with Planner(f"--listen=unix:{tmp_path}/planner") as server:
        register(server)
        yield server


@pytest.fixture
def stranger():
    """A process that calls nobody."""
    with subprocess.Popen(["sleep", "infinity"]) as process:
        yield process
        process.kill()


class Self:
    pid = os.getpid()


def present(planner, lease, process):
    presented = v1.PresentedLease(
        device_id=DEVICE,
        holder="a test",
        purpose="a model",
        bytes=600,
        measured_bytes=600,
        process=identity(process),
    )
    request = v1.RenewRequest(**named(lease), presented=presented)
    return planner.stub.Renew(request)


def test_a_caller_reserves_for_itself_only(planner, stranger):
    with refused(DENIED) as failures:
        reserve(planner, "for another", 600, identity(stranger))
    assert "process" in failures[0].message
    assert not planner.leases()
    lease = reserve(planner, "for itself", 600, identity(Self))
    assert lease.watched_pid == Self.pid


def test_nor_does_it_present_a_lease_for_another(planner, stranger):
    lease = reserve(planner, "for itself", 600, identity(Self))
    planner.stub.Confirm(v1.ConfirmRequest(**named(lease), measured_bytes=600))
    present(planner, lease, Self)
    with refused(DENIED):
        present(planner, lease, stranger)


def test_a_pid_of_another_namespace_is_not_compared(planner, stranger):
    process = identity(stranger)
    process.pid_namespace += 1
    assert not reserve(planner, "elsewhere", 600, process).watched_pid


def test_tcp_knows_no_process(stranger):
    with Planner() as server:
        register(server)
        lease = reserve(server, "for another", 600, identity(stranger))
        assert lease.watched_pid == stranger.pid
        assert pathlib.Path(f"/proc/{stranger.pid}").exists()
