"""--admin-listen: who may generate may not drain, without any token."""

import pathlib
import subprocess
import tempfile

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

import stubs
from asks import GREEDY, generate, text
from command_line import parsed, plimsoll
from conftest import model_flag
from servers import CALL_SECONDS, Planner, Worker, binary, refused, until

Code = grpc.StatusCode
DENIED = Code.PERMISSION_DENIED
ANY = "--admin-listen=127.0.0.1:0"


@pytest.fixture
def folder():
    """A folder for a socket, with a short path."""
    with tempfile.TemporaryDirectory(prefix="plimsoll-") as name:
        yield pathlib.Path(name)


def admin_address(server):
    """Where the server says that it is administered."""
    line = server.process.stdout.readline().decode()
    assert line.startswith("administration on "), line
    return line.removeprefix("administration on ").strip()


def load_request(name):
    return stubs.model.LoadModelRequest(model=name)


def test_a_worker_is_drained_at_its_own_address_only(smollm2):
    flags = ("--n-ctx=256", "--slots=1", ANY)
    with Worker(model_flag("smollm2"), *flags) as worker:
        worker.await_ready()
        admin = admin_address(worker)
        request = generate(text=text("Once"), sampling=GREEDY, max_tokens=1)
        worker.generation.Generate(request, timeout=CALL_SECONDS)
        unload = stubs.model.UnloadModelRequest(model="smollm2")
        for change in (
            lambda: worker.admin.Drain(stubs.admin.DrainRequest()),
            lambda: worker.admin.Abort(stubs.admin.AbortRequest(all=True)),
            lambda: worker.models.UnloadModel(unload),
            lambda: list(worker.models.LoadModel(load_request("smollm2"))),
        ):
            with refused(DENIED) as failures:
                change()
            assert "--admin-listen" in failures[0].message
        # Looking changes nothing.
        worker.admin.GetLoad(stubs.admin.GetLoadRequest(), timeout=CALL_SECONDS)
        parsed(plimsoll("top", "--address", admin, "-o", "json"))
        with grpc.insecure_channel(admin) as channel:
            with refused(DENIED):
                stubs.GenerationStub(channel).Generate(request, timeout=CALL_SECONDS)
            health = health_pb2_grpc.HealthStub(channel)
            reply = health.Check(health_pb2.HealthCheckRequest(), timeout=CALL_SECONDS)
            assert reply.status == health_pb2.HealthCheckResponse.SERVING
        assert plimsoll("drain", "--address", worker.address).returncode == 1
        assert worker.serving()
        parsed(plimsoll("drain", "--wait", "--address", admin, "-o", "json"))
        until(lambda: not worker.serving(), what="the drain")


def test_a_worker_calls_its_planner_there(folder, smollm2):
    with Planner(f"--admin-listen=unix:{folder / 'admin'}") as planner:
        admin = admin_address(planner)
        assert admin == f"unix:{folder / 'admin'}"
        release = stubs.planner.ReleaseRequest(lease_id="none")
        with refused(DENIED):
            planner.stub.Release(release, timeout=CALL_SECONDS)
        flags = ("--n-ctx=256", "--slots=1", f"--planner={admin}")
        with Worker(model_flag("smollm2"), *flags) as worker:
            worker.await_ready()
            # Everybody may look at what it holds.
            assert [lease.purpose for lease in planner.leases()] == ["smollm2"]
        until(lambda: not planner.leases(), what="the end of the lease")


@pytest.mark.parametrize("name", ["plimsoll-planner", "plimsoll-worker"])
@pytest.mark.parametrize(
    "flags, said",
    [
        (["--admin-listen=0.0.0.0:0"], "not loopback"),
        (["--admin-listen=7072"], "HOST:PORT"),
        (["--admin-listen=unix:s"], "whole path"),
        (["--listen=unix:/a", "--admin-listen=unix:/a"], "another address"),
    ],
)
def test_the_rule_for_addresses_holds_for_it(name, flags, said):
    done = subprocess.run(
        [binary(name), *flags], capture_output=True, timeout=CALL_SECONDS, check=False
    )
    assert done.returncode == 2, done.stderr
    assert said in done.stderr.decode()


def test_a_file_of_settings_has_it(tmp_path):
    file = tmp_path / "plimsoll.toml"
    file.write_text("[worker]\nadmin-listen = '127.0.0.1:7072'\n")
    done = subprocess.run(
        [binary("plimsoll-worker"), f"--config={file}", "--print-config"],
        capture_output=True,
        timeout=CALL_SECONDS,
        check=True,
    )
    assert 'admin-listen = "127.0.0.1:7072"' in done.stdout.decode()
