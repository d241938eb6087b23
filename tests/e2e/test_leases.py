"""The planner grants nothing twice, and expiry frees nothing."""

from concurrent.futures import ThreadPoolExecutor
import contextlib
import json
import os
import pathlib
import resource
import signal
import subprocess
import time

import grpc
import pytest

from conftest import model_flag
from servers import Planner, Worker, binary, device_profile, refused, until
from stubs import planner as v1

DEVICE = "e2e/cpu"
DEVICE_BYTES = 1000
# A planner whose leases, graces and recoveries end soon.
SHORT = ("--lease-ttl=1", "--lease-grace=0.2", "--recovery-time=1")


def register(server, device_id=DEVICE, holder_name="", n_bytes=DEVICE_BYTES):
    """Registers a device of `n_bytes`, all of them free."""
    profile = device_profile(device_id, n_bytes)
    request = v1.RegisterDeviceRequest(profile=profile, holder=holder_name)
    server.stub.RegisterDevice(request)


@pytest.fixture
def device(planner):
    """The planner, with a device of DEVICE_BYTES."""
    register(planner)
    return planner


@pytest.fixture
def short_device():
    """A planner with such a device, whose leases end soon."""
    with Planner(*SHORT) as server:
        register(server)
        yield server


def reserve(server, request_id, size, process=None):
    """The lease of a Reserve call."""
    request = v1.ReserveRequest(
        request_id=request_id,
        device_id=DEVICE,
        holder="a test",
        purpose="a model",
        bytes=size,
        process=process,
    )
    return server.stub.Reserve(request).lease


def named(lease):
    """What names a lease in later calls."""
    return {"lease_id": lease.id, "epoch": lease.epoch}


def test_f01_repeated_request_id_gets_the_first_reply(device):
    first = reserve(device, "once", 600)
    assert (first.bytes, first.state) == (600, v1.LEASE_STATE_RESERVED)
    again = reserve(device, "once", 600)
    assert (again.id, again.epoch) == (first.id, first.epoch)
    assert [lease.id for lease in device.leases()] == [first.id]


def test_f01_racing_reservations_never_exceed_the_device(device):
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


def test_refusal_says_wanted_and_available_bytes(device):
    reserve(device, "most", 700)
    with refused(
        grpc.StatusCode.RESOURCE_EXHAUSTED, "MEMORY_BUDGET_EXCEEDED"
    ) as failures:
        reserve(device, "too much", 301)
    assert failures[0].info.metadata["wanted_bytes"] == "301"
    assert failures[0].info.metadata["available_bytes"] == "300"
    assert reserve(device, "the rest", 300).bytes == 300


def test_lease_is_confirmed_renewed_and_released(device):
    lease = reserve(device, "a life", 600)
    confirmed = device.stub.Confirm(
        v1.ConfirmRequest(**named(lease), measured_bytes=550)
    ).lease
    assert confirmed.state == v1.LEASE_STATE_CONFIRMED
    assert (confirmed.bytes, confirmed.measured_bytes) == (600, 550)
    renewed = device.stub.Renew(v1.RenewRequest(**named(lease))).lease
    assert (renewed.id, renewed.epoch) == (lease.id, lease.epoch)
    assert renewed.expires_in.ToMilliseconds() > 0
    for _ in range(2):  # idempotent
        released = device.stub.Release(v1.ReleaseRequest(**named(lease))).lease
        assert released.state == v1.LEASE_STATE_RELEASED
    assert not device.leases()
    assert device.devices()[0].held_bytes == 0


def test_a_repeated_release_with_a_shortfall_shrinks_once(device):
    lease = reserve(device, "too large", 900)
    request = v1.ReleaseRequest(**named(lease), shortfall_bytes=100)
    for _ in range(5):  # a client whose replies are lost
        device.stub.Release(request)
    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED):
        reserve(device, "the same model", DEVICE_BYTES - 99)
    assert reserve(device, "a smaller one", DEVICE_BYTES - 100).bytes == 900


def test_wrong_epoch_and_unknown_lease_are_refused(device):
    lease = reserve(device, "mine", 100)
    wrong = {"lease_id": lease.id, "epoch": lease.epoch + 1}
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "LEASE_LOST"):
        device.stub.Renew(v1.RenewRequest(**wrong))
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "LEASE_LOST"):
        device.stub.Release(v1.ReleaseRequest(**wrong))
    unknown = {"lease_id": "0" * 32, "epoch": 1}
    with refused(grpc.StatusCode.NOT_FOUND, "LEASE_NOT_FOUND"):
        device.stub.Confirm(v1.ConfirmRequest(**unknown, measured_bytes=1))
    assert device.devices()[0].held_bytes == 100


def test_confirming_more_than_was_granted_is_refused(device):
    lease = reserve(device, "greedy", 100)
    with refused(grpc.StatusCode.INVALID_ARGUMENT):
        device.stub.Confirm(v1.ConfirmRequest(**named(lease), measured_bytes=101))


def test_unknown_device_is_refused(planner):
    with refused(grpc.StatusCode.NOT_FOUND, "DEVICE_NOT_FOUND"):
        reserve(planner, "nowhere", 1)


@pytest.mark.parametrize(
    "field, value",
    [
        ("request_id", ""),
        ("request_id", "x" * 257),
        ("holder", ""),
        ("holder", "x" * 257),
        ("purpose", "x" * 257),
        ("bytes", 0),
        ("bytes", 1 << 63),
    ],
)
def test_bad_field_of_a_reservation_is_named(device, field, value):
    fields = {"request_id": "r", "holder": "h", "bytes": 1, field: value}
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD") as failures:
        device.stub.Reserve(v1.ReserveRequest(device_id=DEVICE, **fields))
    assert field in failures[0].message


def test_expiry_frees_nothing_and_a_confirmed_lease_comes_back(short_device):
    device = short_device
    reserved = reserve(device, "never confirmed", 300)
    loaded = reserve(device, "loaded", 400)
    device.stub.Confirm(v1.ConfirmRequest(**named(loaded), measured_bytes=400))

    def all_suspect():
        states = {lease.state for lease in device.leases()}
        return states == {v1.LEASE_STATE_SUSPECT}

    until(all_suspect, what="the end of both leases")
    assert device.devices()[0].held_bytes == 700
    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED):
        reserve(device, "another", 301)
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "LEASE_LOST"):
        device.stub.Renew(v1.RenewRequest(**named(reserved)))
    adopted = device.stub.Renew(v1.RenewRequest(**named(loaded))).lease
    assert (adopted.id, adopted.epoch) == (loaded.id, loaded.epoch)
    assert adopted.state == v1.LEASE_STATE_CONFIRMED
    device.stub.Release(v1.ReleaseRequest(**named(reserved)))
    assert device.devices()[0].held_bytes == 400


def test_a_killed_planner_forgets_nothing_that_it_granted(tmp_path):
    journal = f"--journal={tmp_path / 'leases.db'}"
    with Planner(journal) as planner:
        register(planner)
        kept = reserve(planner, "kept", 600)
        given_back = reserve(planner, "given back", 300)
        planner.stub.Release(v1.ReleaseRequest(**named(given_back)))
        latest = reserve(planner, "latest", 100)
        planner.kill()
    with Planner(journal, first=False) as planner:
        assert planner.listed().journal == v1.JOURNAL_STATE_GOOD
        assert not planner.listed().HasField("recovery_left")
        assert {lease.id for lease in planner.leases()} == {kept.id, latest.id}
        register(planner)
        assert reserve(planner, "kept", 600).id == kept.id
        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED):
            reserve(planner, "too much", 301)
        assert reserve(planner, "the rest", 300).epoch > latest.epoch
        renewed = planner.stub.Renew(v1.RenewRequest(**named(kept))).lease
        assert renewed.epoch == kept.epoch


def refuses_to_start(path):
    """What a planner says that ends because of its journal."""
    command = [binary("plimsoll-planner"), f"--journal={path}", "--first"]
    command += ["--listen=127.0.0.1:0"]
    done = subprocess.run(command, capture_output=True, timeout=30)
    assert done.returncode == 2, done.stderr
    return done.stderr.decode()


def test_two_planners_do_not_share_a_journal(tmp_path):
    path = tmp_path / "leases.db"
    folder = tmp_path / "folder"
    folder.mkdir()
    with Planner(f"--journal={path}"):
        (folder / "link.db").symlink_to(path)
        (tmp_path / "there").symlink_to(tmp_path)
        names = (path, folder / "link.db", tmp_path / "there" / "leases.db")
        for name in names:
            assert "another process uses this journal" in refuses_to_start(name)
        (folder / "hard.db").hardlink_to(path)
        hard = refuses_to_start(folder / "hard.db")
        assert "another process uses this journal" in hard
        path.rename(tmp_path / "moved.db")
        moved = refuses_to_start(tmp_path / "moved.db")
        assert "another process uses this journal" in moved


def test_a_journal_with_two_names_is_refused(tmp_path):
    path = tmp_path / "leases.db"
    with Planner(f"--journal={path}") as planner:
        register(planner)
        reserve(planner, "kept", 600)
        planner.kill()  # its log is beside one name
    (tmp_path / "hard.db").hardlink_to(path)
    assert "hard links" in refuses_to_start(tmp_path / "hard.db")
    assert "hard links" in refuses_to_start(path)
    (tmp_path / "hard.db").unlink()
    with Planner(f"--journal={path}", first=False) as planner:
        assert planner.leases()[0].bytes == 600


@contextlib.contextmanager
def holder():
    """A process that does nothing."""
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            yield process
        finally:
            process.kill()


def identity(process):
    """The ProcessIdentity of a child."""
    stat = pathlib.Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8")
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id")
    return v1.ProcessIdentity(
        pid=process.pid,
        start_ticks=int(stat.rsplit(")", 1)[1].split()[19]),
        boot_id=boot.read_text(encoding="ascii").strip(),
        pid_namespace=os.stat("/proc/self/ns/pid").st_ino,
    )


def refuses(server, size):
    """Whether the device has not as much left."""
    try:
        reserve(server, f"{size} at {time.monotonic()}", size)
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        return True
    return False


def test_a_stopped_holder_is_not_robbed(tmp_path):
    journal = f"--journal={tmp_path / 'leases.db'}"
    with holder() as reserving, holder() as loaded:
        with Planner(journal, *SHORT) as planner:
            register(planner)
            reserve(planner, "reserved", 500, identity(reserving))
            lease = reserve(planner, "loaded", 400, identity(loaded))
            planner.stub.Confirm(
                v1.ConfirmRequest(**named(lease), measured_bytes=400)
            )
            reserving.send_signal(signal.SIGSTOP)
            loaded.send_signal(signal.SIGSTOP)
            reserve(planner, "of a stranger", 100)

            def stranger_is_gone():
                register(planner, holder_name="robber")  # an honest reading
                return len(planner.leases()) <= 2

            # Its time and its grace are over, and those of the others too.
            until(stranger_is_gone, what="the end of a lease that nobody watches")
            assert {lease.bytes for lease in planner.leases()} == {400, 500}
            assert refuses(planner, 101)
            planner.kill()
        with Planner(journal, *SHORT) as planner:  # the next one knows it too
            register(planner)
            reserve(planner, "of a stranger again", 100)
            until(stranger_is_gone, what="the end of a lease that nobody watches")
            assert refuses(planner, 101)
            reserving.kill()
            until(lambda: not refuses(planner, 600), what="the first one's bytes")
            assert refuses(planner, 1)
            loaded.kill()
            until(lambda: not refuses(planner, 400), what="the other one's bytes")


def test_garbage_that_is_presented_burns_nothing(tmp_path):
    journal = f"--journal={tmp_path / 'leases.db'}"
    with Planner(journal, *SHORT) as planner:
        register(planner)
        honest = reserve(planner, "honest", 600)
        planner.stub.Confirm(v1.ConfirmRequest(**named(honest), measured_bytes=600))
        planner.kill()
    (tmp_path / "leases.db").unlink()

    def present(server, lease_id, epoch, size):
        lease = v1.PresentedLease(
            device_id=DEVICE, holder="a test", bytes=size, measured_bytes=size
        )
        request = v1.RenewRequest(lease_id=lease_id, epoch=epoch, presented=lease)
        return server.stub.Renew(request).lease

    with Planner(journal, *SHORT, first=False) as planner:
        register(planner)
        for epoch in (0, 1 << 61, (1 << 62) - 1, 1 << 62, (1 << 63) - 1):
            with refused(grpc.StatusCode.INVALID_ARGUMENT):
                present(planner, f"garbage {epoch}", epoch, 1)
        assert present(planner, honest.id, honest.epoch, 600).bytes == 600
        until(
            lambda: not planner.listed().HasField("recovery_left"),
            what="the end of the recovery",
        )
        assert reserve(planner, "next", 100).epoch > honest.epoch
        planner.kill()
    with Planner(journal, *SHORT, first=False) as planner:
        assert planner.listed().journal == v1.JOURNAL_STATE_GOOD
        assert not planner.listed().HasField("recovery_left")
        assert present(planner, honest.id, honest.epoch, 600).bytes == 600
        register(planner)
        assert refuses(planner, 301)
    assert not list(tmp_path.glob("*.bad-*"))


def test_times_are_options(tmp_path):
    with Planner("--lease-ttl=0.5", "--lease-grace=0.1") as planner:
        register(planner)
        assert reserve(planner, "short", 1).ttl.ToMilliseconds() == 500
    for flags in (
        ["--lease-ttl=0.4"],
        ["--lease-ttl=3601"],
        ["--lease-grace=0.05"],
        ["--recovery-time=0.4"],
        ["--lease-ttl=2", "--recovery-time=1.9"],
    ):
        command = [binary("plimsoll-planner"), "--listen=127.0.0.1:0", *flags]
        done = subprocess.run(command, capture_output=True, timeout=30)
        assert done.returncode == 2, flags
        assert done.stderr, flags


def damage_nothing(path):
    """The folder as the planner left it, without the journal."""
    for file in path.parent.glob("leases.db*"):
        if not file.name.endswith(".mark"):
            file.unlink()


def damage_text(path):
    """The folder with a file that is no journal."""
    damage_nothing(path)
    path.write_bytes(b"no database" * 1000)


def damage_emptied(path):
    """The folder with an empty file and without the mark."""
    damage_nothing(path)
    path.with_name("leases.db.mark").unlink(missing_ok=True)
    path.write_bytes(b"")


def damage_unreadable(path):
    """The folder with what cannot be opened as a file, and without the mark."""
    damage_emptied(path)
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    "damage", [damage_nothing, damage_text, damage_emptied, damage_unreadable]
)
def test_first_does_not_open_the_doors_where_a_planner_has_been(tmp_path, damage):
    path = tmp_path / "leases.db"
    with Planner(f"--journal={path}") as planner:
        register(planner)
        held = reserve(planner, "held", 600)
        planner.stub.Confirm(v1.ConfirmRequest(**named(held), measured_bytes=600))
        planner.kill()
    damage(path)
    with Planner(f"--journal={path}") as planner:
        register(planner)
        with refused(grpc.StatusCode.UNAVAILABLE, "PLANNER_RECOVERING"):
            reserve(planner, "robber", 1000)
        until(lambda: "--first DOES NOT COUNT" in planner.log())
        presented = v1.PresentedLease(
            device_id=DEVICE, holder="a test", bytes=600, measured_bytes=600
        )
        request = v1.RenewRequest(**named(held), presented=presented)
        assert planner.stub.Renew(request).lease.bytes == 600
        assert planner.devices()[0].held_bytes == 600


def test_first_without_a_journal_counts_once(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for is_first in (True, False):
        with subprocess.Popen(
            [binary("plimsoll-planner"), "--first", "--listen=127.0.0.1:0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            process.stdout.readline()
            process.terminate()
            said = process.communicate(timeout=30)[1]
        assert (b"--first DOES NOT COUNT" in said) != is_first


def test_first_counts_until_something_was_granted(tmp_path):
    journal = f"--journal={tmp_path / 'leases.db'}"
    with Planner(journal) as planner:
        planner.kill()
    with Planner(journal) as planner:
        register(planner)
        assert reserve(planner, "at once", 1).bytes == 1
        planner.kill()
    with Planner(journal) as planner:  # all is in the journal: nothing to wait for
        assert not planner.listed().HasField("recovery_left")
        register(planner)
        assert reserve(planner, "again", 1).bytes == 1


def test_a_release_that_was_answered_outlives_a_crash(tmp_path):
    journal = f"--journal={tmp_path / 'leases.db'}"
    with Planner(journal) as planner:
        register(planner)
        for i in range(8):  # within one tick
            lease = reserve(planner, f"lease {i}", 600)
            planner.stub.Release(v1.ReleaseRequest(**named(lease)))
        planner.kill()
    with Planner(journal) as planner:
        assert not planner.leases()
        register(planner)
        assert reserve(planner, "next", 1000).bytes == 1000


def test_a_journal_without_room_at_the_start_is_used_once_there_is(tmp_path):
    no_limit = resource.RLIM_INFINITY
    without_room = "trap '' XFSZ; ulimit -S -f 0"
    journal = f"--journal={tmp_path / 'leases.db'}"
    with Planner(journal, *SHORT, setup=without_room) as planner:
        register(planner)
        assert planner.listed().journal == v1.JOURNAL_STATE_FAILED
        resource.prlimit(
            planner.process.pid, resource.RLIMIT_FSIZE, (no_limit, no_limit)
        )

        def is_good():
            return planner.listed().journal == v1.JOURNAL_STATE_GOOD

        until(is_good, seconds=10, what="the journal")
        until(
            lambda: not planner.listed().HasField("recovery_left"),
            what="the end of the recovery",
        )
        assert reserve(planner, "late", 600).bytes == 600
        planner.kill()
    with Planner(journal, first=False) as planner:
        assert planner.leases()[0].bytes == 600


@pytest.mark.parametrize("content", [None, b"", b"no database" * 1000])
def test_a_planner_without_its_state_grants_nothing_at_first(tmp_path, content):
    flags = ()
    if content is not None:
        path = tmp_path / "leases.db"
        path.write_bytes(content)
        flags = (f"--journal={path}",)
    with Planner(*flags, first=False) as planner:
        register(planner)
        with refused(
            grpc.StatusCode.UNAVAILABLE, "PLANNER_RECOVERING"
        ) as failures:
            reserve(planner, "early", 1)
        assert 0 < failures[0].retry.retry_delay.ToMilliseconds() <= 10_000
        assert planner.listed().HasField("recovery_left")


def test_f17_a_planner_without_a_writable_journal_grants_nothing(tmp_path):
    with Planner(f"--journal={tmp_path / 'missing' / 'leases.db'}") as planner:
        register(planner)
        with refused(grpc.StatusCode.UNAVAILABLE, "PLANNER_RECOVERING"):
            reserve(planner, "a", 1)
        assert planner.listed().journal == v1.JOURNAL_STATE_FAILED
        until(lambda: "JOURNAL CANNOT BE USED" in planner.log())


def test_watched_devices_come_at_once_and_after_every_change(device):
    watch = device.stub.WatchDevices(v1.WatchDevicesRequest(), timeout=60)
    assert next(watch).devices[0].held_bytes == 0
    lease = reserve(device, "seen", 400)
    assert next(watch).devices[0].held_bytes == 400
    device.stub.Release(v1.ReleaseRequest(**named(lease)))
    assert next(watch).devices[0].held_bytes == 0
    device.terminate()
    with refused(grpc.StatusCode.UNAVAILABLE, "DRAINING"):
        next(watch)


def test_a_load_at_the_start_waits_for_bytes_that_others_hold(planner, smollm2):
    register(planner, n_bytes=1 << 44)
    lease = reserve(planner, "all", 1 << 44)
    flags = ("--n-ctx=256", "--slots=1", f"--device-id={DEVICE}")
    with Worker(model_flag("smollm2"), *flags, f"--planner={planner.address}") as worker:
        until(lambda: "a load waits" in worker.log(), what="the refusal")
        assert not worker.serving()
        planner.stub.Release(v1.ReleaseRequest(**named(lease)))
        worker.await_ready()


def test_a_watch_of_changes_tells_what_changed(device):
    register(device, "another device")
    watch = device.stub.WatchDevices(
        v1.WatchDevicesRequest(only_changes=True), timeout=60
    )
    first = next(watch)
    assert (len(first.devices), first.is_change) == (2, False)
    lease = reserve(device, "seen", 400)
    second = next(watch)
    assert second.is_change and not second.removed_ids
    assert [d.profile.id for d in second.devices] == [DEVICE]
    assert second.devices[0].held_bytes == 400
    device.stub.Release(v1.ReleaseRequest(**named(lease)))
    assert next(watch).devices[0].held_bytes == 0


def test_the_command_line_lists_leases_and_watches_devices(device):
    def plimsoll(*arguments):
        command = [binary("plimsoll"), "--planner", device.address, *arguments]
        return subprocess.run(
            command, capture_output=True, check=True, timeout=30
        ).stdout.decode()

    assert "nothing is held" in plimsoll("leases")
    lease = reserve(device, "shown", 400)
    table = plimsoll("leases")
    assert DEVICE in table and "reserved" in table and "a test" in table
    assert all(len(line) <= 80 for line in table.splitlines())
    shown, = json.loads(plimsoll("leases", "-o", "json"))["leases"]
    assert (shown["id"], shown["bytes"]) == (lease.id, "400")
    command = [binary("plimsoll"), "--planner", device.address]
    command += ["devices", "--watch", "-o", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as watch:
        first = json.loads(watch.stdout.readline())["devices"][0]
        device.stub.Release(v1.ReleaseRequest(**named(lease)))
        second = json.loads(watch.stdout.readline())["devices"][0]
        watch.terminate()
    assert (first["held_bytes"], second["held_bytes"]) == ("400", "0")
