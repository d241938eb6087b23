"""How many threads a server has, and what it does when it gets no more."""

import os
import threading

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2 as alpha
from grpc_reflection.v1alpha import reflection_pb2_grpc as alpha_grpc

import stubs
from conftest import model_flag
from servers import BUILD_DIR, CALL_SECONDS, Planner, Worker, refused

N_STREAMS = 100  # of each kind; a connection may have 128
# Without this, channels to one address share a connection.
OWN_CONNECTION = [("grpc.use_local_subchannel_pool", 1)]
MOST_NEW_THREADS = 8  # that gRPC may add by itself


def n_threads(server):
    return len(os.listdir(f"/proc/{server.process.pid}/task"))


@pytest.mark.parametrize("start", [Planner, Worker])
def test_an_open_stream_takes_no_thread(start):
    with start() as server:
        before = n_threads(server)
        kinds = [
            (alpha_grpc.ServerReflectionStub, alpha.ServerReflectionRequest),
            (stubs.ReflectionStub, stubs.reflection.ServerReflectionRequest),
        ]
        channels, calls, end = [], [], threading.Event()

        def requests(first):
            yield first
            end.wait(CALL_SECONDS)

        for stub, request in kinds:
            channels.append(grpc.insecure_channel(server.address, OWN_CONNECTION))
            method = stub(channels[-1]).ServerReflectionInfo
            for _ in range(N_STREAMS):
                calls.append(method(requests(request(list_services=""))))
        for _ in range(N_STREAMS // 2):
            calls.append(server.health.Watch(health_pb2.HealthCheckRequest()))
        for call in calls:
            next(call)
        assert n_threads(server) <= before + MOST_NEW_THREADS
        end.set()
        for call in calls:
            call.cancel()
        for channel in channels:
            channel.close()
        assert server.serving("liveness")


@pytest.fixture
def no_threads(tmp_path, monkeypatch):
    """A file; while it exists servers that start from here on get no thread."""
    library = BUILD_DIR / "lib" / "failing_threads.so"
    if os.environ.get("PLIMSOLL_SANITIZE") or not library.is_file():
        pytest.skip("needs failing_threads.so, and no sanitizer")
    file = tmp_path / "no-threads"
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("PLIMSOLL_TEST_NO_THREADS", str(file))
    return file


def test_without_a_thread_models_are_unloaded_and_the_worker_ends(no_threads):
    with Worker(model_flag("smollm2"), "--slots=1", "--n-ctx=256") as worker:
        worker.await_ready()
        no_threads.touch()
        request = stubs.model.UnloadModelRequest()
        worker.models.UnloadModel(request, timeout=CALL_SECONDS)
        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED) as failures:
            worker.load()
        assert "pids.max" in failures[0].message
        absent = stubs.model.MODEL_STATE_ABSENT
        assert worker.model().state == absent
        no_threads.unlink()
        worker.load()
        assert worker.model().state == stubs.model.MODEL_STATE_READY
        no_threads.touch()
        worker.terminate()
        assert worker.process.wait(timeout=CALL_SECONDS) == 0
