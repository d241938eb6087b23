"""How a worker ends: in peace, in a hurry, and at once."""

import signal

import grpc
import pytest

from asks import endless
from conftest import model_flag
from servers import CALL_SECONDS, START_SECONDS, Planner, Worker, refused, until

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


@pytest.fixture
def drained(smollm2):
    """Starts workers that are ready, with more flags."""
    started = []

    def start(*flags):
        flags = (model_flag("smollm2"), "--n-ctx=1024", "--slots=2", *flags)
        worker = Worker(*flags)
        started.append(worker)
        return worker.await_ready()

    yield start
    for worker in started:
        worker.close()


def stream_of(worker, **fields):
    """A stream whose first message has come."""
    request = endless("smollm2", **fields)
    stream = worker.generation.StreamGenerate(request, timeout=CALL_SECONDS)
    return stream, next(stream)


def await_not_ready(worker):
    """Waits until the worker drains, told by its health or its refusals."""

    def is_draining():
        try:
            return not worker.serving()
        except grpc.RpcError as error:
            assert error.code() == UNAVAILABLE
            return True

    until(is_draining, what="the drain")


def test_f22_a_running_stream_ends_whole_and_the_lease_is_released(drained):
    with Planner() as planner:
        worker = drained(f"--planner={planner.address}")
        stream, part = stream_of(worker, max_tokens=200)
        worker.terminate()
        await_not_ready(worker)
        n_tokens = len(part.tokens)
        for part in stream:
            n_tokens += len(part.tokens)
        assert part.HasField("finish")
        assert n_tokens == 200
        assert worker.process.wait(START_SECONDS) == 0
        assert not planner.leases()


def test_new_calls_are_refused_while_it_drains(drained):
    worker = drained()
    stream, _ = stream_of(worker)
    worker.terminate()
    await_not_ready(worker)
    with refused(UNAVAILABLE, "DRAINING") as failures:
        worker.model()
    assert failures[0].retry is not None
    stream.cancel()
    assert worker.process.wait(START_SECONDS) == 0


def test_a_drain_stays_alive_and_is_not_ready(drained):
    worker = drained()
    stream, _ = stream_of(worker)
    worker.terminate()
    await_not_ready(worker)
    assert worker.serving("liveness")
    assert not worker.serving()
    stream.cancel()
    assert worker.process.wait(START_SECONDS) == 0


def test_f22_a_stream_past_the_drain_timeout_is_unavailable(drained):
    worker = drained("--drain-timeout=0")
    stream, part = stream_of(worker)
    worker.terminate()
    with refused(UNAVAILABLE, "DRAINING"):
        for part in stream:
            pass
    assert not part.HasField("finish")
    assert worker.process.wait(START_SECONDS) == 0


def test_f22_a_second_signal_ends_it_at_once(drained):
    worker = drained()
    stream, _ = stream_of(worker)
    worker.terminate()
    await_not_ready(worker)
    worker.terminate()
    assert worker.process.wait(START_SECONDS) == -signal.SIGTERM
    stream.cancel()  # it was held so long, or the drain would have ended


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_without_calls_ends_at_once(number):
    with Planner() as planner:
        planner.process.send_signal(number)
        assert planner.process.wait(START_SECONDS) == 0


def test_a_load_that_waits_for_its_planner_ends_with_the_worker(smollm2):
    flags = (model_flag("smollm2"), "--planner=127.0.0.1:1")
    with Worker(*flags) as worker:
        worker.terminate()
        assert worker.process.wait(START_SECONDS) == 0
