"""Ways in which a planner once granted the same bytes twice, over real gRPC."""

import contextlib
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import time

import grpc
import pytest

from conftest import model_flag
from servers import Planner, Worker, refused, until
from stubs import planner as v1
from test_leases import (
    DEVICE,
    DEVICE_BYTES,
    SHORT,
    holder,
    identity,
    named,
    register,
    reserve,
)

HELD_BYTES = 600
REST_BYTES = DEVICE_BYTES - HELD_BYTES
TICK_SECONDS = 1  # how often a planner looks at processes without a descriptor


def hold(server):
    """A confirmed lease of HELD_BYTES on a newly registered device."""
    register(server)
    lease = reserve(server, "held", HELD_BYTES)
    request = v1.ConfirmRequest(**named(lease), measured_bytes=HELD_BYTES)
    return server.stub.Confirm(request).lease


def present(server, lease):
    """What a worker does that meets a new planner."""
    presented = v1.PresentedLease(
        device_id=DEVICE,
        holder="a test",
        purpose="a model",
        bytes=lease.bytes,
        measured_bytes=lease.bytes,
    )
    request = v1.RenewRequest(**named(lease), presented=presented)
    return server.stub.Renew(request).lease


def grants_after_its_recovery(server, held):
    """Nothing is granted at once; later what `held` leaves, with new epochs."""
    register(server)
    with refused(grpc.StatusCode.UNAVAILABLE, "PLANNER_RECOVERING"):
        reserve(server, "robber", DEVICE_BYTES)
    assert present(server, held).epoch == held.epoch
    until(
        lambda: not server.listed().HasField("recovery_left"),
        what="the end of the recovery",
    )
    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED):
        reserve(server, "a late robber", REST_BYTES + 1)
    assert reserve(server, "the rest", REST_BYTES).epoch > held.epoch


@pytest.mark.parametrize(
    "before, after",
    [("one/leases.db", "other/leases.db"), ("", "leases.db"), ("leases.db", "")],
    ids=["moved", "begun", "left"],
)
def test_first_does_not_count_with_the_journal_elsewhere(tmp_path, before, after):
    def planner(path):
        flags = ()
        if path:
            file = tmp_path / path
            file.parent.mkdir(exist_ok=True)
            flags = (f"--journal={file}",)
        return Planner(*flags, *SHORT, state=tmp_path / "state")

    (tmp_path / "state").mkdir()
    with planner(before) as server:
        held = hold(server)
        server.kill()
    with planner(after) as server:
        until(lambda: "--first DOES NOT COUNT" in server.log())
        grants_after_its_recovery(server, held)


def begin_journal(path, state):
    """A sound journal in which nothing is held any more."""
    with Planner(f"--journal={path}", *SHORT, state=state) as planner:
        register(planner)
        lease = reserve(planner, "a past", 1)
        planner.stub.Release(v1.ReleaseRequest(**named(lease)))


def lose_log(path, backup):
    """Copies the database file and not what lies beside it."""
    del backup
    for suffix in ("-wal", "-shm"):
        pathlib.Path(f"{path}{suffix}").unlink()


def put_back_older(path, backup):
    """Does what a restore from a backup does."""
    for suffix in ("", "-wal", "-shm"):
        pathlib.Path(f"{path}{suffix}").unlink(missing_ok=True)
    shutil.copy(backup, path)


def put_back_in_place(path, backup):
    """Restores a backup into the file that is there."""
    lose_log(path, backup)
    shutil.copyfile(backup, path)


@pytest.mark.parametrize("starts_between", [0, 1])
@pytest.mark.parametrize("damage", [lose_log, put_back_older, put_back_in_place])
def test_a_journal_that_lost_leases_opens_no_doors(tmp_path, damage, starts_between):
    path = tmp_path / "leases.db"
    flags = (f"--journal={path}", *SHORT)
    begin_journal(path, tmp_path)
    backup = shutil.copy(path, tmp_path / "backup")
    with Planner(*flags, first=False, state=tmp_path) as planner:
        assert not planner.listed().HasField("recovery_left")  # it is whole
        held = hold(planner)
        planner.kill()
    damage(path, backup)
    for _ in range(starts_between):  # none of them makes it whole
        with Planner(*flags, first=False, state=tmp_path) as planner:
            planner.kill()
    with Planner(*flags, first=False, state=tmp_path) as planner:
        grants_after_its_recovery(planner, held)


@pytest.fixture
def device():
    """A planner with a device of DEVICE_BYTES, whose leases end soon."""
    with Planner(*SHORT) as server:
        register(server)
        yield server


def lasting_descriptors(process_id):
    """Files that the process keeps open: not one that it reads just now."""
    held = None
    for _ in range(20):
        listed = {int(name) for name in os.listdir(f"/proc/{process_id}/fd")}
        held = listed if held is None else held & listed
        time.sleep(0.02)
    return held


# A check of a virtual table asks a pipe whether memory can be read, and calls the
# table invalid where it gets none.
descriptors_can_run_out = pytest.mark.skipif(
    bool(os.environ.get("PLIMSOLL_SANITIZE")),
    reason="a sanitizer needs descriptors of its own",
)


@contextlib.contextmanager
def without_descriptors(server):
    """While it lasts the server can open nothing more."""
    process_id = server.process.pid
    held = lasting_descriptors(process_id)
    free = next(i for i in range(len(held) + 1) if i not in held)
    try:
        before = resource.prlimit(process_id, resource.RLIMIT_NOFILE)
        resource.prlimit(process_id, resource.RLIMIT_NOFILE, (free, before[1]))
    except OSError as error:
        pytest.skip(f"no limits of another process can be set here: {error}")
    try:
        yield
    finally:
        if server.process.poll() is None:
            resource.prlimit(process_id, resource.RLIMIT_NOFILE, before)


@descriptors_can_run_out
def test_a_planner_without_descriptors_declares_nobody_dead(device):
    with holder() as process:
        with without_descriptors(device):
            lease = reserve(device, "held", HELD_BYTES, identity(process))
            assert lease.watched_pid == process.pid
            time.sleep(2.5 * TICK_SECONDS)
            register(device, holder_name="robber")  # who says that all is free
            assert [lease.id for lease in device.leases()] == [lease.id]
            with refused(grpc.StatusCode.RESOURCE_EXHAUSTED):
                reserve(device, "robber", REST_BYTES + 1)
            process.kill()
            process.wait()
            time.sleep(1.5 * TICK_SECONDS)
            assert device.leases()  # it cannot tell that this one has ended
        until(lambda: not device.leases(), what="the end of a dead one's lease")
        assert reserve(device, "next", DEVICE_BYTES).bytes == DEVICE_BYTES


def is_confirmed(planner):
    """Whether the only lease was renewed by its holder."""
    states = [lease.state for lease in planner.leases()]
    return states == [v1.LEASE_STATE_CONFIRMED]


@descriptors_can_run_out
def test_a_worker_without_descriptors_calls_nothing_free(smollm2):
    with Planner(*SHORT) as planner:
        flags = ("--n-ctx=256", "--slots=1", f"--planner={planner.address}")
        with Worker(model_flag("smollm2"), *flags) as worker:
            worker.await_ready()
            until(lambda: planner.devices(), what="the worker's device")

            def free_bytes():
                return planner.devices()[0].profile.free_bytes

            assert free_bytes() > 0
            with without_descriptors(worker):
                until(lambda: free_bytes() == 0, what="a reading of nothing")
                assert planner.devices()[0].available_bytes == 0
                time.sleep(2 * TICK_SECONDS)  # past the lease's time to live
                assert free_bytes() == 0
                # A renewal may be late, but they go on.
                until(lambda: is_confirmed(planner), what="a renewal")
            until(lambda: free_bytes() > 0, what="a reading again")


def watched(server):
    """How many processes the server has descriptors of."""
    folder = pathlib.Path(f"/proc/{server.process.pid}/fd")
    n_watched = 0
    for file in folder.iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            n_watched += "pidfd" in os.readlink(file)
    return n_watched


def test_who_holds_nothing_is_not_watched(device):
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(holder()) for _ in range(8)]
        lease = reserve(device, "held", HELD_BYTES, identity(processes[0]))
        if watched(device) == 0:
            pytest.skip("no descriptor of a process can be had here")
        for i, process in enumerate(processes):
            with refused(grpc.StatusCode.RESOURCE_EXHAUSTED):
                reserve(device, f"refused {i}", DEVICE_BYTES, identity(process))
        until(lambda: watched(device) == 1, what="the end of the other watches")
        # The first one's lease did not suffer from its refusal.
        assert device.leases()[0].watched_pid == processes[0].pid
        device.stub.Release(v1.ReleaseRequest(**named(lease)))
        until(lambda: watched(device) == 0, what="the end of the last watch")
        again = reserve(device, "again", HELD_BYTES, identity(processes[0]))
        processes[0].kill()
        until(lambda: not device.leases(), what=f"the end of {again.id}")


THREADED = """
import sys, threading
is_over = threading.Event()
thread = threading.Thread(target=is_over.wait, daemon=True)
thread.start()
print(thread.native_id, flush=True)
sys.stdin.readline()
is_over.set()
thread.join()
print("ended", flush=True)
sys.stdin.readline()
"""


def test_the_end_of_a_thread_frees_nothing(device):
    with subprocess.Popen(
        [sys.executable, "-c", THREADED],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            thread = identity(process)
            thread.pid = int(process.stdout.readline())
            stat = pathlib.Path(f"/proc/{thread.pid}/stat").read_text("utf-8")
            thread.start_ticks = int(stat.rsplit(")", 1)[1].split()[19])
            lease = reserve(device, "held", HELD_BYTES, thread)
            assert not lease.HasField("watched_pid")
            print(file=process.stdin, flush=True)
            assert process.stdout.readline() == "ended\n"
            time.sleep(1.5 * TICK_SECONDS)
            assert [lease.id for lease in device.leases()] == [lease.id]
        finally:
            process.kill()
