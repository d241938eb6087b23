"""A worker that was killed where the planner cannot see it, as in another container.

Its next process has its file (--holder-file), which proves that it has ended. Leases live
for an hour here, so that neither their end nor a reading proves anything.
"""

import os
import shutil
import signal
import subprocess

import pytest

from conftest import model_flag
from servers import DidNotListen, FarWorker, Planner, until

LONG = "--lease-ttl=3600"
SAID = "an earlier process of this worker has ended"


@pytest.fixture(scope="module", autouse=True)
def namespaces():
    """Skips where no process may have numbers of its own."""
    make = ["unshare", "--pid", "--fork", "--mount-proc", "true"]
    if subprocess.run(make, capture_output=True).returncode:
        pytest.skip("no process may have a pid namespace of its own here")


def worker(planner, *more):
    """A worker that asks the planner for memory for one model."""
    flags = ("--n-ctx=256", "--slots=1", "--threads=1", "--device-id=e2e/cpu")
    return FarWorker(
        model_flag("smollm2"), *flags, f"--planner={planner.address}", *more
    )


def kill_loaded(planner, *more):
    """The lease of a worker that loaded its model and was killed."""
    with worker(planner, *more) as first:
        first.await_ready()
        (lease,) = planner.leases()
        assert not lease.HasField("watched_pid"), "the planner sees the process"
        first.kill()
    assert [kept.id for kept in planner.leases()] == [lease.id]
    return lease


def test_the_next_process_gives_its_leases_back(smollm2, tmp_path):
    file = f"--holder-file={tmp_path / 'holder'}"
    with Planner(LONG) as planner:
        lost = [kill_loaded(planner, file)]
        # Again, as for a container that is restarted again and again.
        for _ in range(2):
            with worker(planner, file) as again:
                again.await_ready()
                (lease,) = planner.leases()
                assert lease.id not in [old.id for old in lost]
                assert planner.devices()[0].held_bytes == lease.bytes
                (line,) = [x for x in again.log().splitlines() if SAID in x]
                assert lost[-1].id in line
                lost.append(lease)
                again.kill()


def test_without_the_file_nothing_is_proven(smollm2):
    with Planner(LONG) as planner:
        lost = kill_loaded(planner)
        with worker(planner) as again:
            again.await_ready()
            assert lost.id in [lease.id for lease in planner.leases()]


def test_a_process_that_lives_keeps_its_file_and_its_lease(smollm2, tmp_path):
    file = f"--holder-file={tmp_path / 'holder'}"
    with Planner(LONG) as planner, worker(planner, file) as first:
        first.await_ready()
        (lease,) = planner.leases()
        for wanted in (signal.SIGSTOP, signal.SIGCONT):
            os.kill(first.pid(), wanted)
            with pytest.raises(DidNotListen) as failed:
                worker(planner, file)
            assert failed.value.code == 1, failed.value.log
            assert "another worker uses this file" in failed.value.log
        assert [kept.id for kept in planner.leases()] == [lease.id]
        # Nor does a copy prove anything while it lives.
        shutil.copy(tmp_path / "holder", tmp_path / "copy")
        with worker(planner, f"--holder-file={tmp_path / 'copy'}") as second:
            second.await_ready()
            assert lease.id in [kept.id for kept in planner.leases()]
            assert SAID not in second.log()


def test_a_planner_that_comes_later_is_told(smollm2, tmp_path):
    journal = f"--journal={tmp_path / 'leases.db'}"
    file = f"--holder-file={tmp_path / 'holder'}"
    with Planner(LONG, journal) as planner:
        lost = kill_loaded(planner, file)
        planner.kill()
        with worker(planner, file) as again:
            assert not again.serving()
            here = f"--listen={planner.address}"
            with Planner(LONG, journal, here, first=False) as later:
                assert lost.id in [lease.id for lease in later.leases()]
                again.await_ready()
                until(
                    lambda: lost.id not in [lease.id for lease in later.leases()],
                    what="the release",
                )
                assert len(later.leases()) == 1


def test_a_file_that_cannot_be_used_ends_the_start(planner, tmp_path):
    with pytest.raises(DidNotListen) as failed:
        worker(planner, f"--holder-file={tmp_path / 'none' / 'holder'}")
    assert failed.value.code == 2, failed.value.log
