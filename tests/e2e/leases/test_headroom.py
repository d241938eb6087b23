"""What the planner's settings keep free of a device."""

import subprocess

import grpc
import httpx
import pytest

from command_line import plimsoll
from servers import CALL_SECONDS, Planner, binary, free_port, refused
from test_leases import DEVICE, DEVICE_BYTES, register, reserve


def available(planner):
    (device,) = planner.devices()
    return device.available_bytes


def test_it_counts_before_what_a_worker_says():
    port = free_port()
    flags = (f"--headroom={DEVICE}=300", f"--metrics-listen=127.0.0.1:{port}")
    with Planner("--headroom=2GiB", *flags) as planner:
        register(planner)
        register(planner, holder_name="another worker")  # neither asks for any
        assert planner.devices()[0].headroom_bytes == 300
        assert available(planner) == DEVICE_BYTES - 300
        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "MEMORY_BUDGET_EXCEEDED"):
            reserve(planner, "too much", DEVICE_BYTES - 299)
        assert reserve(planner, "all but that", DEVICE_BYTES - 300).bytes
        table = plimsoll("devices", "--planner", planner.address).stdout.decode()
        assert "headroom" in table and "300 B" in table
        metrics = httpx.get(f"http://127.0.0.1:{port}/metrics").text
        assert f'plimsoll_device_headroom_bytes{{device="{DEVICE}"}} 300' in metrics
        register(planner, device_id="e2e/other", n_bytes=3 << 30)
        other = next(d for d in planner.devices() if d.profile.id == "e2e/other")
        assert other.available_bytes == 1 << 30


def test_a_changed_file_changes_it_while_the_planner_runs(tmp_path):
    file = tmp_path / "plimsoll.toml"

    def reread(text, said):
        file.write_text(f"[planner]\n{text}\n")
        planner.hang_up(said)

    file.write_text("[planner]\n")
    with Planner(f"--config={file}") as planner:
        register(planner)
        lease = reserve(planner, "held", 600)
        reread(f'headroom = "{DEVICE}=300"', "changed=headroom")
        assert available(planner) == 100
        reread('headroom = "500"', "changed=headroom")
        assert available(planner) == 0
        assert [held.id for held in planner.leases()] == [lease.id]
        reread('headroom = "half"', "the settings are bad")
        assert planner.devices()[0].headroom_bytes == 500
        reread("", "changed=headroom")
        assert available(planner) == 400


@pytest.mark.parametrize(
    "flags, said",
    [
        (["--headroom=half"], "write a size"),
        (["--headroom=gpu=-1"], "write a size"),
        (["--headroom==1"], "the device's id"),
        (["--headroom=1", "--headroom=2"], "two for all other devices"),
        (["--headroom=gpu=1", "--headroom=gpu=2"], "two for this device"),
    ],
)
def test_what_makes_no_sense_ends_the_start(flags, said):
    done = subprocess.run(
        [binary("plimsoll-planner"), *flags],
        capture_output=True,
        timeout=CALL_SECONDS,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert said in done.stderr.decode()
