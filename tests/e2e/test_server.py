"""Health, reflection, and who may connect."""

import subprocess

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from conftest import model_flag
from servers import Planner, Worker, binary, until

SERVICES = {
    "plimsoll-planner": {"plimsoll.v1.PlannerService"},
    "plimsoll-worker": {
        "plimsoll.v1.AdminService",
        "plimsoll.v1.GenerationService",
        "plimsoll.v1.ModelService",
        "plimsoll.v1.TokenizerService",
    },
}
STARTERS = {"plimsoll-planner": Planner, "plimsoll-worker": Worker}


@pytest.fixture(params=sorted(STARTERS))
def name(request):
    return request.param


def reflected(server):
    """The services that reflection lists."""
    stub = reflection_pb2_grpc.ServerReflectionStub(server.channel)
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    reply = next(stub.ServerReflectionInfo(iter([request])))
    return {service.name for service in reply.list_services_response.service}


def test_reflection_lists_the_services(name):
    with STARTERS[name]() as server:
        listed = reflected(server)
    assert SERVICES[name] | {"grpc.health.v1.Health"} <= listed


def test_liveness_and_readiness_are_two_services(name):
    with STARTERS[name]() as server:
        assert server.serving("liveness")
        until(server.serving, what="readiness")
        with pytest.raises(grpc.RpcError) as caught:
            server.serving("no such service")
        assert caught.value.code() == grpc.StatusCode.NOT_FOUND


def test_a_worker_is_alive_before_it_is_ready(smollm2):
    # The planner is not there, so the load at the start cannot begin.
    flags = ("--planner=127.0.0.1:1", model_flag("smollm2"))
    with Worker(*flags) as server:
        assert server.serving("liveness")
        assert not server.serving()


def test_a_worker_becomes_ready_when_its_planner_comes(smollm2):
    with Planner() as planner:
        address = planner.address
    flags = (f"--planner={address}", "--n-ctx=128", model_flag("smollm2"))
    with Worker(*flags) as server:
        request = health_pb2.HealthCheckRequest()
        watched = server.health.Watch(request)
        status = health_pb2.HealthCheckResponse
        assert next(watched).status == status.NOT_SERVING
        with Planner(f"--listen={address}") as planner:
            server.await_ready()
            assert next(watched).status == status.SERVING
            assert len(planner.leases()) == 1
        watched.cancel()


def test_the_default_address_is_loopback(name):
    command = [binary(name)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            line = process.stdout.readline().decode()
        finally:
            process.terminate()
    assert line.startswith("listening on 127.0.0.1:")


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "192.0.2.1"])
def test_another_address_is_refused_without_the_flag(name, host):
    done = subprocess.run(
        [binary(name), f"--listen={host}:0"], capture_output=True, timeout=30
    )
    assert done.returncode == 2
    assert b"--insecure" in done.stderr
    assert done.stdout == b""


def test_a_second_server_on_a_port_is_refused(name):
    with STARTERS[name]() as server:
        done = subprocess.run(
            [binary(name), f"--listen={server.address}"],
            capture_output=True,
            timeout=30,
        )
    assert done.returncode == 1
    assert b"cannot listen" in done.stderr


@pytest.mark.parametrize(
    "flag", ["--listen=nonsense", "--listen=127.0.0.1:65536", "--nonsense"]
)
def test_bad_flags_are_usage_errors(name, flag):
    done = subprocess.run([binary(name), flag], capture_output=True, timeout=30)
    assert done.returncode == 2
    assert done.stderr
