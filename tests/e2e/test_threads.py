"""How many threads a server has, and what it does when it gets no more."""

import os
import signal
import subprocess
import threading

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2 as alpha
from grpc_reflection.v1alpha import reflection_pb2_grpc as alpha_grpc

import stubs
from conftest import model_flag
from servers import CALL_SECONDS, Planner, Worker, binary, refused

N_STREAMS = 100  # streams of each kind; a connection may have 128
# Without this, channels to one address share a connection.
OWN_CONNECTION = [("grpc.use_local_subchannel_pool", 1)]
MOST_NEW_THREADS = 8  # threads that gRPC may add by itself
END_SECONDS = 60  # until a start that hangs is ended


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
def no_threads(failing_threads, tmp_path, monkeypatch):
    """A file; while it exists servers that start from here on get no thread."""
    file = tmp_path / "no-threads"
    monkeypatch.setenv("PLIMSOLL_TEST_NO_THREADS", str(file))
    return file


def start_and_end(command, most, tmp_path):
    """Starts a server that gets `most` threads, and ends it if it listens.

    Returns whether it listened, its exit status and what it said."""
    errors = tmp_path / "errors"
    env = {**os.environ, "PLIMSOLL_TEST_THREADS": str(most),
           "XDG_STATE_HOME": str(tmp_path)}
    with open(errors, "wb") as file, subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=file, env=env
    ) as process:
        late = threading.Timer(END_SECONDS, process.kill)
        late.start()
        listens = process.stdout.readline().startswith(b"listening on ")
        if listens:
            process.send_signal(signal.SIGTERM)
        status = process.wait()
        late.cancel()
    return listens, status, errors.read_text()


@pytest.mark.parametrize("name", ["plimsoll-planner", "plimsoll-worker"])
def test_a_start_with_too_few_threads_says_so_and_ends(
    failing_threads, smollm2, tmp_path, name
):
    command = [binary(name), "--listen=127.0.0.1:0"]
    if name == "plimsoll-worker":
        command += [f"--model=m={smollm2}", "--n-ctx=256", "--slots=1", "--lazy",
                    "--planner=127.0.0.1:1"]
    ends = {}
    for most in (0, 1, 3, 5, 8, 11, 14, 17, 20, 25, 30, 40, 500):
        listens, status, said = start_and_end(command, most, tmp_path)
        ends[most] = (listens, status)
        if not listens:
            assert status == 1, (most, status, said)
            assert "pids.max" in said, (most, said)
        else:
            assert status == 0, (most, status, said)
    assert ends[0] == (False, 1)
    assert ends[500] == (True, 0)


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


@pytest.mark.parametrize("start", [Planner, Worker])
def test_a_timer_of_grpc_without_a_thread_delays_no_end(no_threads, start):
    with start() as server:
        no_threads.touch()
        request = health_pb2.HealthCheckRequest(service="liveness")
        # The deadline is a timer of the server's too, its first that fires.
        with refused(grpc.StatusCode.DEADLINE_EXCEEDED):
            for _ in server.health.Watch(request, timeout=0.5):
                pass
        server.terminate()
        assert server.process.wait(timeout=END_SECONDS) == 0
