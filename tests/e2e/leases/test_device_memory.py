"""No worker gets more of a device by naming a larger size."""

import subprocess

import grpc
import httpx
import pytest

from command_line import plimsoll
from conftest import model_flag
from servers import CALL_SECONDS, Planner, Worker, binary, free_port, refused, until
from test_leases import DEVICE, DEVICE_BYTES, register, reserve

FULL = grpc.StatusCode.RESOURCE_EXHAUSTED


def size(planner):
    (device,) = planner.devices()
    return device.profile.total_bytes


def test_the_smallest_size_that_workers_name_counts(planner):
    register(planner, holder_name="honest")
    register(planner, holder_name="liar", n_bytes=5 * DEVICE_BYTES)
    assert size(planner) == DEVICE_BYTES
    said = f"said_bytes={5 * DEVICE_BYTES} bytes={DEVICE_BYTES}"
    until(lambda: said in planner.log(), what="the line of the log")
    with refused(FULL, "MEMORY_BUDGET_EXCEEDED"):
        reserve(planner, "too much", DEVICE_BYTES + 1)
    reserve(planner, "most", 700)
    register(planner, holder_name="liar", n_bytes=9 * DEVICE_BYTES)
    (device,) = planner.devices()
    assert device.held_bytes + device.available_bytes == DEVICE_BYTES


def test_the_settings_fix_the_size():
    port = free_port()
    flags = (f"--device-memory={DEVICE}=800", f"--metrics-listen=127.0.0.1:{port}")
    with Planner(*flags) as planner:
        register(planner)
        assert size(planner) == 800
        until(lambda: "--device-memory" in planner.log(), what="the line of the log")
        with refused(FULL, "MEMORY_BUDGET_EXCEEDED"):
            reserve(planner, "too much", 801)
        assert reserve(planner, "all", 800).bytes == 800
        table = plimsoll("devices", "--planner", planner.address).stdout.decode()
        assert "800 B" in table
        metrics = httpx.get(f"http://127.0.0.1:{port}/metrics").text
        assert f'plimsoll_device_capacity_bytes{{device="{DEVICE}"}} 800' in metrics


def test_a_changed_file_changes_it_while_the_planner_runs(tmp_path):
    file = tmp_path / "plimsoll.toml"

    def reread(text):
        file.write_text(f"[planner]\n{text}\n")
        planner.hang_up("changed=device-memory")

    file.write_text("[planner]\n")
    with Planner(f"--config={file}") as planner:
        register(planner)
        reserve(planner, "held", 600)
        reread(f'device-memory = "{DEVICE}=700"')
        assert size(planner) == 700
        reread("device-memory = 500")
        assert planner.devices()[0].available_bytes == 0
        assert len(planner.leases()) == 1
        reread("")
        assert planner.devices()[0].available_bytes == 400


def test_a_worker_loads_within_the_fixed_size(smollm2):
    with Planner("--device-memory=300MiB") as planner:
        with Worker(model_flag("smollm2"), f"--planner={planner.address}") as worker:
            worker.await_ready()
            (device,) = planner.devices()
            assert device.profile.total_bytes == 300 << 20
            assert 0 < device.held_bytes <= 300 << 20


@pytest.mark.parametrize(
    "flag, said",
    [
        ("--device-memory=half", "write a size"),
        ("--device-memory=gpu=0", "not be below 1"),
        ("--device-memory==1", "the device's id"),
    ],
)
def test_what_makes_no_sense_ends_the_start(flag, said):
    done = subprocess.run(
        [binary("plimsoll-planner"), flag],
        capture_output=True,
        timeout=CALL_SECONDS,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert said in done.stderr.decode()
