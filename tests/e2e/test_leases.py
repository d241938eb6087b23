"""The planner grants nothing twice, and expiry frees nothing."""

from concurrent.futures import ThreadPoolExecutor
import json
import subprocess

import grpc
import pytest

from servers import Planner, binary, refused, until
from stubs import common, planner as v1

DEVICE = "e2e/cpu"
DEVICE_BYTES = 1000


def register(server):
    """Registers a device of DEVICE_BYTES, all of them free."""
    profile = v1.DeviceProfile(
        id=DEVICE,
        kind="cpu",
        name="a small device",
        total_bytes=DEVICE_BYTES,
        free_bytes=DEVICE_BYTES,
        allocation=common.ALLOCATION_RULE_EXACT,
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
    server.stub.RegisterDevice(v1.RegisterDeviceRequest(profile=profile))


@pytest.fixture
def device(planner):
    """The planner, with a device of DEVICE_BYTES."""
    register(planner)
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


def test_expiry_frees_nothing_and_a_confirmed_lease_comes_back(device):
    reserved = reserve(device, "never confirmed", 300)
    loaded = reserve(device, "loaded", 400)
    device.stub.Confirm(v1.ConfirmRequest(**named(loaded), measured_bytes=400))

    def all_suspect():
        states = {lease.state for lease in device.leases()}
        return states == {v1.LEASE_STATE_SUSPECT}

    until(all_suspect, seconds=20, what="the end of both leases")
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


def test_two_planners_do_not_share_a_journal(tmp_path):
    journal = f"--journal={tmp_path / 'leases.db'}"
    with Planner(journal):
        second = [binary("plimsoll-planner"), journal, "--listen=127.0.0.1:0"]
        done = subprocess.run(second, capture_output=True, timeout=30)
    assert done.returncode == 2
    assert b"another process uses this journal" in done.stderr


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


def test_a_planner_without_a_writable_journal_grants_nothing(tmp_path):
    with Planner(f"--journal={tmp_path / 'missing' / 'leases.db'}") as planner:
        register(planner)
        with refused(grpc.StatusCode.UNAVAILABLE, "JOURNAL_FAILED"):
            reserve(planner, "a", 1)
        assert planner.listed().journal == v1.JOURNAL_STATE_FAILED
        assert "JOURNAL CANNOT BE USED" in planner.log()


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
