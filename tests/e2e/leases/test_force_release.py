"""An administrator releases a lease whose holder is gone and cannot prove it."""

import re

import grpc
import pytest

from command_line import parsed, plimsoll
from servers import CALL_SECONDS, Planner, refused, until
from stubs import planner as v1
from test_leases import DEVICE, DEVICE_BYTES, SHORT, holder, identity, register, reserve

HELD_BYTES = 600
REASON = "node 7 is off"


def force(planner, lease, *more):
    """A run of the command that releases the lease."""
    return plimsoll(
        *("leases", "release", lease.id[:8], "--force", f"--reason={REASON}"),
        *("--planner", planner.address, *more),
    )


def await_suspect(planner):
    """Waits until the only lease has not been renewed in time."""

    def is_suspect():
        (lease,) = planner.leases()
        return lease.state == v1.LEASE_STATE_SUSPECT

    until(is_suspect, what="the end of the lease's time")


def test_a_silent_holders_lease_is_released_for_good(tmp_path):
    journal = f"--journal={tmp_path / 'leases.db'}"
    with Planner(journal, *SHORT) as planner:
        register(planner)
        lease = reserve(planner, "held", HELD_BYTES)
        early = force(planner, lease)
        assert early.returncode == 1
        assert b"holder lives" in early.stderr, early.stderr
        await_suspect(planner)
        listed = plimsoll("leases", "--planner", planner.address).stdout.decode()
        assert lease.id[:8] in listed and "suspect" in listed
        done = force(planner, lease)
        assert done.returncode == 0, done.stderr
        assert b"released" in done.stdout and DEVICE.encode() in done.stdout
        assert not planner.leases()
        until(lambda: "by force" in planner.log(), what="the line")
        (line,) = [x for x in planner.log().splitlines() if "by force" in x]
        for said in ("WARNING", lease.id, REASON, DEVICE, f"bytes={HELD_BYTES}"):
            assert said in line
        assert "nobody was asked at ipv4:127.0.0.1" in line
        assert reserve(planner, "next", DEVICE_BYTES).bytes == DEVICE_BYTES
        planner.kill()
    with Planner(journal, *SHORT) as planner:
        assert [kept.bytes for kept in planner.leases()] == [DEVICE_BYTES]


def test_a_process_that_is_seen_to_live_keeps_its_lease():
    with Planner(*SHORT) as planner, holder() as process:
        register(planner)
        lease = reserve(planner, "held", HELD_BYTES, identity(process))
        assert lease.watched_pid == process.pid
        await_suspect(planner)
        request = v1.ForceReleaseRequest(lease_id=lease.id, reason=REASON)
        with refused(grpc.StatusCode.FAILED_PRECONDITION, "LEASE_HELD"):
            planner.stub.ForceRelease(request, timeout=CALL_SECONDS)
        process.kill()
        until(lambda: not planner.leases(), what="the end of a dead one's lease")


def test_it_takes_the_role_of_an_administrator(tmp_path):
    tokens = {}
    file = f"--tokens={tmp_path / 'tokens.json'}"
    for role in ("worker", "admin"):
        made = plimsoll("token", "new", "--name", f"the-{role}", "--role", role, file)
        tokens[role] = (("authorization", f"Bearer {made.stdout.decode().strip()}"),)
    with Planner(file, *SHORT) as planner:
        request = v1.ForceReleaseRequest(lease_id="none", reason=REASON)
        for metadata in ((), tokens["worker"]):
            with pytest.raises(grpc.RpcError) as caught:
                planner.stub.ForceRelease(request, metadata=metadata)
            assert caught.value.code() in (
                grpc.StatusCode.UNAUTHENTICATED,
                grpc.StatusCode.PERMISSION_DENIED,
            )
        with refused(grpc.StatusCode.NOT_FOUND, "LEASE_NOT_FOUND"):
            planner.stub.ForceRelease(request, metadata=tokens["admin"])


def test_an_administrators_name_is_logged(tmp_path):
    with Planner(f"--listen=unix:{tmp_path / 'planner'}", *SHORT) as planner:
        register(planner)
        lease = reserve(planner, "held", HELD_BYTES)
        await_suspect(planner)
        reply = parsed(force(planner, lease, "-o", "json"))
        assert reply["lease"]["id"] == lease.id
        until(lambda: "by force" in planner.log(), what="the line")
        assert "nobody was asked" not in planner.log()
        assert " at unix:" in planner.log()
        assert re.search(r"by force .* request_id=\w{32}", planner.log())


@pytest.mark.parametrize(
    "arguments, code, said",
    [
        (["5f0c2a91", "--reason=x"], 2, "--force"),
        (["5f0c2a91", "--force"], 2, "--reason"),
        (["5f0c", "--force", "--reason=x"], 2, "8 digits"),
        (["5f0c2a91", "--force", "--reason=x"], 1, "no lease is held"),
        (["5f0c2a91" * 4, "--force", "--reason=" + "x" * 257], 1, "257 bytes"),
        (["5f0c2a91" * 4, "--force", "--reason=" + "x" * 256], 1, "no lease"),
        (["5f0c2a91" * 4, "--force", "--reason= "], 1, "no words"),
    ],
)
def test_what_makes_no_sense_is_refused(planner, arguments, code, said):
    done = plimsoll("leases", "release", *arguments, "--planner", planner.address)
    assert said in done.stderr.decode()
    assert done.returncode == code, done.stderr


def test_its_help_says_when_it_is_right():
    said = " ".join(plimsoll("leases", "release", "--help").stdout.decode().split())
    for words in ("for certain", "granted twice", "logs the caller and the reason"):
        assert words in said
