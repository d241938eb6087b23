"""Placement and the catalogue: over gRPC, and from the command line."""

import json
import subprocess

import grpc
import pytest

from conftest import model_flag
from servers import CALL_SECONDS, Planner, binary, refused
from stubs import common, planner as v1

HEADER = (
    "name,title,kind,memory_bytes,memory_basis,bandwidth_bytes_per_s,year,source\n"
)


@pytest.fixture(scope="module")
def own_catalogue(tmp_path_factory):
    """A file of one device that nobody else knows."""
    path = tmp_path_factory.mktemp("catalogue") / "own.csv"
    path.write_text(HEADER + "mine,Mine,board,1073741824,nominal,1000000000,2020,\n")
    return path


@pytest.fixture(scope="module")
def planner(smollm2, own_catalogue):
    """A planner that knows a model and that device."""
    with Planner(model_flag("smollm2"), "--catalogue", str(own_catalogue)) as server:
        yield server


def place(*models, devices):
    """A request for replicas on devices of the catalogue."""
    source = v1.ModelSource(model="smollm2")
    return v1.PlaceModelsRequest(
        models=[
            v1.ModelToPlace(name=name, source=source, n_replicas=n)
            for name, n in models
        ],
        devices=[
            v1.DeviceToFill(id=f"d{i}", catalogue_name=name)
            for i, name in enumerate(devices)
        ],
    )


def test_places_replicas_and_says_why_others_find_no_place(planner):
    reply = planner.stub.PlaceModels(place(("a", 9), devices=["mine", "mine"]))
    assert reply.n_wanted == 9
    assert reply.n_placed == sum(
        model.n_replicas for device in reply.devices for model in device.models
    )
    assert 0 < reply.n_placed < 9
    assert reply.is_optimal and reply.max_placed_bound >= reply.n_placed
    (unplaced,) = reply.unplaced
    assert unplaced.n_replicas == 9 - reply.n_placed
    assert unplaced.n_full == 2 and unplaced.missing_bytes > 0
    for device in reply.devices:
        assert device.used_bytes == sum(m.bytes * m.n_replicas for m in device.models)
        assert device.used_bytes <= device.available_bytes == 1 << 30


def test_an_unknown_device_is_not_found(planner):
    with refused(grpc.StatusCode.NOT_FOUND, "DEVICE_NOT_FOUND"):
        planner.stub.PlaceModels(place(("a", 1), devices=["none"]))


def test_the_catalogue_has_the_installed_and_the_own_devices(planner):
    devices = planner.stub.ListCatalogue(v1.ListCatalogueRequest()).devices
    assert {"mine", "rtx-4090"} <= {device.name for device in devices}
    memory = [device.memory_bytes for device in devices]
    assert memory == sorted(memory)


def test_the_smallest_device_is_found_with_its_bounds(planner):
    source = v1.ModelSource(model="smollm2")
    options = common.LoadOptions(n_ctx=2048)
    found = planner.stub.FindDevices(
        v1.FindDevicesRequest(source=source, options=options)
    ).devices
    assert found[0].device.name == "mine"
    bounds = planner.stub.GetBounds(
        v1.GetBoundsRequest(source=source, options=options, catalogue_name="mine")
    ).bounds
    assert bounds == found[0].bounds
    assert bounds.decode.basis == common.BASIS_ESTIMATED
    assert bounds.decode.tokens_per_s == pytest.approx(
        1e9 / (bounds.decode.weight_bytes + bounds.decode.kv_bytes)
    )


def test_the_command_asks_the_planner(planner):
    done = subprocess.run(
        [
            binary("plimsoll"), "--planner", planner.address, "place",
            "--model", "smollm2:2", "--device", "mine:3", "-o", "json",
        ],
        capture_output=True,
        timeout=CALL_SECONDS,
    )
    assert done.returncode == 0, done.stderr.decode()
    reply = json.loads(done.stdout)
    assert [device["id"] for device in reply["devices"]] == ["mine/1", "mine/2", "mine/3"]
    assert reply["n_placed"] == 2
