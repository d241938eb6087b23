"""A planner on standby waits for the journal of another, and goes on with it."""

import socket
import sqlite3
import time

import grpc
import pytest

from servers import START_SECONDS, Planner, refused, until
from stubs import planner
from test_leases import DEVICE_BYTES, named, register, reserve

TAKEOVER_SECONDS = 5  # from the end of one planner to a grant of the other


@pytest.fixture
def journal(tmp_path):
    """The path of a journal that nobody uses yet."""
    return tmp_path / "leases.db"


@pytest.fixture
def active(journal, tmp_path):
    """A planner with the journal, and a device."""
    with Planner(f"--journal={journal}", state=tmp_path) as server:
        register(server)
        yield server


class Standby(Planner):
    """A planner that waits for `journal`. It listens on a port of its own."""

    def __init__(self, journal, state):
        with Planner() as server:
            self.listen = server.address  # free from here on
        flags = (f"--journal={journal}", "--standby", f"--listen={self.listen}")
        super().__init__(*flags, first=False, state=state)

    def _await_address(self):
        until(lambda: "on standby" in self.log(), START_SECONDS, "standby")
        until(self._is_reachable, START_SECONDS, "a listener")
        return self.listen

    def _is_reachable(self):
        host, port = self.listen.rsplit(":", 1)
        with socket.socket() as client:
            return client.connect_ex((host, int(port))) == 0


def granted(server, request_id, n_bytes):
    """The lease, or nothing while there is none to be had."""
    try:
        register(server)
        return reserve(server, request_id, n_bytes)
    except grpc.RpcError:
        return None


def test_a_standby_goes_on_where_a_killed_planner_stopped(active, journal, tmp_path):
    kept = reserve(active, "kept", 600)
    with Standby(journal, tmp_path) as standby:
        until(lambda: standby.serving("liveness"), what="health on standby")
        assert not standby.serving()
        with refused(grpc.StatusCode.UNIMPLEMENTED):
            reserve(standby, "too early", 1)
        active.kill()
        began = time.monotonic()
        rest = DEVICE_BYTES - 600
        lease = until(lambda: granted(standby, "rest", rest), 30, "a grant")
        assert time.monotonic() - began < TAKEOVER_SECONDS
        assert lease.epoch > kept.epoch
        assert standby.serving()
        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED):
            reserve(standby, "too much", 1)
        # Whoever lost the first planner's reply gets it from the second.
        assert reserve(standby, "kept", 600).id == kept.id


def test_only_one_of_two_goes_on(active, journal, tmp_path):
    with Standby(journal, tmp_path) as one, Standby(journal, tmp_path) as other:
        active.kill()
        until(lambda: granted(one, "a", 600) or granted(other, "a", 600), 30, "a grant")
        time.sleep(1)
        pair = sorted((one, other), key=lambda server: server.serving())
        assert [server.serving() for server in pair] == [False, True]
        pair[1].kill()
        until(lambda: granted(pair[0], "b", 400), 30, "a grant")
        assert sorted(held.bytes for held in pair[0].leases()) == [400, 600]


def test_a_standby_ends_when_it_is_asked_to(active, journal, tmp_path):
    with Standby(journal, tmp_path) as standby:
        standby.terminate()
        assert standby.process.wait(timeout=START_SECONDS) == 0
    assert granted(active, "still there", 1)


def test_a_planner_whose_journal_was_taken_over_ends(active, journal):
    lease = reserve(active, "a", 600)
    with sqlite3.connect(journal) as other:
        other.execute("UPDATE meta SET boot_nonce = 'another'")
    other.close()
    assert granted(active, "b", 1) is None
    with refused(grpc.StatusCode.UNAVAILABLE):
        active.stub.Renew(planner.RenewRequest(**named(lease)))
    assert active.process.wait(timeout=START_SECONDS) == 1
    assert "another planner has taken the journal over" in active.log()


def test_standby_needs_a_journal():
    with pytest.raises(AssertionError, match="--standby needs --journal"):
        Planner("--standby")
