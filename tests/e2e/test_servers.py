"""How the servers start, tell their state and end."""

import signal
import subprocess

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

from conftest import PATIENCE, Worker, binary, error_info, wait_for

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


def health(process, service=""):
    stub = health_pb2_grpc.HealthStub(process.channel)
    request = health_pb2.HealthCheckRequest(service=service)
    return stub.Check(request, timeout=PATIENCE).status


def worker_of(start, model, *arguments):
    flags = ("--model", f"smol={model}", "--n-ctx", 1024, "--slots", 2)
    return start("plimsoll-worker", *flags, *arguments)


def test_reflection_lists_every_service(pair, start):
    _, worker = pair
    worker_services = ProtoReflectionDescriptorDatabase(
        worker.process.channel
    ).get_services()
    assert {
        "plimsoll.v1.GenerationService",
        "plimsoll.v1.TokenizerService",
        "plimsoll.v1.ModelService",
    } <= set(worker_services)
    planner = start("plimsoll-planner")
    services = ProtoReflectionDescriptorDatabase(planner.channel).get_services()
    assert "plimsoll.v1.PlannerService" in services


def test_a_ready_worker_is_alive_and_ready(start, smollm2):
    process = worker_of(start, smollm2)
    wait_for("readiness", lambda: health(process) == SERVING)
    assert health(process, "liveness") == SERVING
    with pytest.raises(grpc.RpcError) as unknown:
        health(process, "nobody")
    assert unknown.value.code() == grpc.StatusCode.NOT_FOUND


def test_a_worker_that_waits_for_its_planner_is_alive_but_not_ready(
    api, start, smollm2
):
    planner = start("plimsoll-planner")
    process = worker_of(start, smollm2, "--planner", planner.address)
    wait_for("readiness", lambda: health(process) == SERVING)
    planner.process.kill()
    waiting = worker_of(start, smollm2, "--planner", planner.address)
    worker = Worker(api, waiting)
    wait_for("the first attempt", lambda: worker.model().last_error)
    assert health(waiting, "liveness") == SERVING
    assert health(waiting) == NOT_SERVING
    assert worker.model().state == api.model.MODEL_STATE_RESERVING
    # The other one serves on.
    assert len(list(Worker(api, process).stream(max_tokens=3))) >= 2


def test_sigterm_lets_streams_end_and_gives_the_lease_back(api, start, smollm2):
    planner = start("plimsoll-planner")
    stub = api.planner_grpc.PlannerServiceStub(planner.channel)
    process = worker_of(start, smollm2, "--planner", planner.address)
    worker = Worker(api, process)
    wait_for("readiness", lambda: health(process) == SERVING)
    stream = worker.stream(max_tokens=200)
    n_tokens = len(next(stream).tokens)
    process.signal(signal.SIGTERM)

    def is_refused():
        try:
            worker.model()
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.UNAVAILABLE
            return True
        return False

    wait_for("new calls to be refused", is_refused)
    for part in stream:
        n_tokens += len(part.tokens)
        is_finished = part.HasField("finish")
    assert is_finished
    assert n_tokens == 200
    assert process.wait() == 0
    request = api.planner.ListLeasesRequest()
    assert not stub.ListLeases(request, timeout=PATIENCE).leases


def test_a_stream_past_the_drain_timeout_ends_unavailable(api, start, smollm2):
    process = worker_of(start, smollm2, "--drain-timeout", 0)
    wait_for("readiness", lambda: health(process) == SERVING)
    stream = Worker(api, process).stream()
    next(stream)
    process.signal(signal.SIGTERM)
    with pytest.raises(grpc.RpcError) as end:
        for part in stream:
            assert not part.HasField("finish")
    assert end.value.code() == grpc.StatusCode.UNAVAILABLE
    assert error_info(api, end.value)[0] == "DRAINING"
    assert process.wait() == 0


def test_a_second_signal_ends_at_once(api, start, smollm2):
    process = worker_of(start, smollm2)
    worker = Worker(api, process)
    wait_for("readiness", lambda: health(process) == SERVING)
    stream = worker.stream()
    next(stream)
    process.signal(signal.SIGTERM)
    wait_for("the drain", lambda: health(process) == NOT_SERVING)
    process.signal(signal.SIGTERM)
    assert process.wait() == -signal.SIGTERM


def test_a_killed_worker_ends_its_streams_and_keeps_its_bytes(
    api, start, smollm2
):
    planner = start("plimsoll-planner")
    stub = api.planner_grpc.PlannerServiceStub(planner.channel)
    process = worker_of(start, smollm2, "--planner", planner.address)
    wait_for("readiness", lambda: health(process) == SERVING)
    stream = Worker(api, process).stream()
    next(stream)
    process.process.kill()
    with pytest.raises(grpc.RpcError) as end:
        for _ in stream:
            pass
    assert end.value.code() == grpc.StatusCode.UNAVAILABLE
    leases = stub.ListLeases(api.planner.ListLeasesRequest(), timeout=PATIENCE)
    assert len(leases.leases) == 1


def test_another_address_than_loopback_is_refused():
    for name in ("plimsoll-planner", "plimsoll-worker"):
        result = subprocess.run(
            [str(binary(name)), "--listen", "0.0.0.0:0"],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert result.returncode == 2
        assert "--i-understand-this-is-insecure" in result.stderr


def test_a_mistake_in_a_flag_is_a_usage_error(tmp_path):
    for arguments in (
        ["--model", "noequals"],
        ["--model", "a/b=file"],
        ["--model", "a=x", "--model", "a=y"],
        ["--listen", "nowhere"],
        ["--no-such-flag"],
    ):
        result = subprocess.run(
            [str(binary("plimsoll-worker")), *arguments],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            cwd=tmp_path,
        )
        assert result.returncode == 2, (arguments, result.stderr)


def test_a_request_id_comes_back(api, pair):
    _, worker = pair
    _, call = worker.models.ListModels.with_call(
        api.model.ListModelsRequest(),
        metadata=[("x-request-id", "request-7")],
        timeout=PATIENCE,
    )
    assert dict(call.initial_metadata())["x-request-id"] == "request-7"
