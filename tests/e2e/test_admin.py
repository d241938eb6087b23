"""What an operator sees of a worker, ends on it, and how it drains."""

import contextlib

import grpc
import pytest

from asks import GREEDY, endless, generate, text
from conftest import model_flag
from servers import (
    CALL_SECONDS,
    START_SECONDS,
    Planner,
    Worker,
    refused,
    small_channel,
    until,
)
from stubs import AdminStub, GenerationStub, admin as v1, generation, model

ABORTED = grpc.StatusCode.ABORTED
INVALID = grpc.StatusCode.INVALID_ARGUMENT
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


@pytest.fixture(scope="module")
def server(smollm2):
    """Two slots and a context that no test fills."""
    with Worker(model_flag("smollm2"), "--n-ctx=4096", "--slots=2") as started:
        yield started.await_ready()


@pytest.fixture(autouse=True)
def idle(request):
    """Every test ends with free slots."""
    yield
    if "server" in request.fixturenames:
        server = request.getfixturevalue("server")
        until(lambda: not load(server).requests, what="free slots")


def load(server):
    """What the only model does."""
    reply = server.admin.GetLoad(v1.GetLoadRequest(), timeout=CALL_SECONDS)
    return reply.models[0]


def named(request_id):
    return {"metadata": [("x-request-id", request_id)], "timeout": CALL_SECONDS}


@contextlib.contextmanager
def streaming(server, request_id, request=None):
    """A stream whose first message has come; cancelled in the end."""
    call = server.generation.StreamGenerate(
        request or endless(), **named(request_id)
    )
    try:
        assert next(call).prompt.request_id == request_id
        yield call
    finally:
        call.cancel()


def abort(server, *request_ids, **fields):
    request = v1.AbortRequest(request_ids=request_ids, **fields)
    return server.admin.Abort(request, timeout=CALL_SECONDS)


def test_the_load_says_who_runs_and_who_waits(server):
    with contextlib.ExitStack() as stack:
        for name in ("first", "second"):
            stack.enter_context(streaming(server, name))
        waiting = server.generation.StreamGenerate(endless(), **named("third"))
        stack.callback(waiting.cancel)
        until(lambda: load(server).waiting == 1, what="a full house")
        # A stream's first message may come before its first token.
        until(
            lambda: load(server).requests[0].generated_tokens > 0,
            what="a first token",
        )
        found = load(server)
        assert (found.model, found.state) == ("smollm2", model.MODEL_STATE_READY)
        assert (found.running, found.n_slots, found.max_waiting) == (2, 2, 64)
        assert 0 < found.kv_used_pages <= found.kv_pages
        assert found.kv_pages * found.page_tokens == 2 * 4096
        ids = [request.request_id for request in found.requests]
        assert ids == ["first", "second", "third"]
        assert found.requests[0].generated_tokens > 0
        assert found.requests[0].age.ToNanoseconds() > 0
        assert found.requests[2].state == v1.REQUEST_STATE_WAITING
        assert found.requests[2].generated_tokens == 0


def test_an_aborted_stream_frees_its_slot_within_two_steps(server):
    with streaming(server, "doomed") as call:
        reply = abort(server, "doomed", reason="out of hours")
        told = load(server).steps
        assert list(reply.found_request_ids) == ["doomed"]
        assert (list(reply.unknown_request_ids), reply.aborted) == ([], 1)
        until(lambda: load(server).running == 0, what="a free slot")
        assert load(server).steps - told <= 2
        with refused(ABORTED, "ABORTED") as failures:
            for part in call:
                assert not part.HasField("finish")
    assert "out of hours" in failures[0].message
    assert failures[0].info.metadata["request_id"] == "doomed"


def test_an_aborted_whole_text_is_no_text(server):
    request = generate(text=text("Once"), sampling=GREEDY, ignore_eos=True)
    call = server.generation.Generate.future(request, **named("whole"))
    until(lambda: load(server).running == 1, what="a running request")
    assert abort(server, "whole").aborted == 1
    with refused(ABORTED, "ABORTED"):
        call.result()


def test_what_waits_is_aborted_and_never_computed(server):
    with streaming(server, "first"), streaming(server, "second"):
        ids = {"tokens": {"ids": [500] * 2000}, "max_tokens": 1}
        call = server.generation.Generate.future(generate(**ids), **named("late"))
        until(lambda: load(server).waiting == 1, what="a queue")
        assert list(abort(server, "late").found_request_ids) == ["late"]
        with refused(ABORTED, "ABORTED"):
            call.result()
        assert load(server).running == 2
        assert load(server).prompt_tokens < 512  # a step's rows


def test_a_stream_that_nobody_reads_frees_its_slot(server):
    large = endless(response=generation.ResponseOptions(top_logprobs=64))
    with small_channel(server.address) as channel:
        stub = GenerationStub(channel)
        call = stub.StreamGenerate(large, **named("parked"))
        next(call)

        def is_parked():
            states = [request.state for request in load(server).requests]
            return states == [v1.REQUEST_STATE_PARKED]

        until(is_parked, seconds=60, what="a parked stream")
        assert abort(server, "parked").aborted == 1
        until(lambda: load(server).running == 0, what="a free slot")
        with refused(ABORTED, "ABORTED"):
            list(call)  # what was sent before comes first


def test_all_means_every_request(server):
    with streaming(server, "first") as one, streaming(server, "second") as other:
        reply = abort(server, all=True)
        assert list(reply.found_request_ids) == ["first", "second"]
        for call in (one, other):
            with refused(ABORTED, "ABORTED"):
                list(call)
    assert abort(server, all=True).aborted == 0


def test_an_unknown_id_is_reported_and_ends_nothing(server):
    with streaming(server, "alive", endless(max_tokens=60)) as call:
        reply = abort(server, "nobody", "alive?")
        assert list(reply.unknown_request_ids) == ["alive?", "nobody"]
        assert (list(reply.found_request_ids), reply.aborted) == ([], 0)
        assert list(call)[-1].finish.usage.generated_tokens == 60


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"request_ids": ["a"], "all": True},
        {"request_ids": ["x"] * 257},
        {"request_ids": ["x" * 129]},
        {"request_ids": [""]},
        {"all": True, "reason": "x" * 257},
        {"all": True, "reason": "\x1b[2J"},
    ],
    ids=str,
)
def test_an_abort_that_makes_no_sense_is_refused(server, fields):
    with refused(INVALID, "INVALID_FIELD"):
        server.admin.Abort(v1.AbortRequest(**fields), timeout=CALL_SECONDS)


@pytest.fixture
def worker(smollm2):
    """Starts workers that are ready, with more flags."""
    with contextlib.ExitStack() as stack:

        def start(*flags):
            flags = (model_flag("smollm2"), "--n-ctx=1024", "--slots=2", *flags)
            return stack.enter_context(Worker(*flags)).await_ready()

        yield start


def drain(server, wait=False, timeout=CALL_SECONDS):
    return server.admin.Drain(v1.DrainRequest(wait=wait), timeout=timeout)


def test_a_drain_refuses_what_is_new_and_ends_what_runs(worker):
    server = worker()
    with streaming(server, "last", endless(max_tokens=300)) as call:
        reply = drain(server)
        assert reply.running_calls >= 1
        assert [r.request_id for r in reply.models[0].requests] == ["last"]
        assert not server.serving()
        assert server.serving("liveness")
        with refused(UNAVAILABLE, "DRAINING") as failures:
            server.generation.Generate(generate(text=text("a")))
        assert failures[0].retry is not None
        with refused(UNAVAILABLE, "DRAINING"):
            server.load("smollm2")
        assert drain(server).running_calls >= 1  # again is no error
        parts = list(call)
    assert parts[-1].finish.usage.generated_tokens == 300
    reply = server.admin.GetLoad(v1.GetLoadRequest(), timeout=CALL_SECONDS)
    assert reply.draining
    assert not server.serving()
    assert server.process.poll() is None


def test_a_drain_that_waits_answers_when_it_is_idle(worker):
    server = worker()
    with streaming(server, "last") as call:
        waiting = server.admin.Drain.future(
            v1.DrainRequest(wait=True), timeout=CALL_SECONDS
        )
        with refused(grpc.StatusCode.DEADLINE_EXCEEDED):
            drain(server, wait=True, timeout=0.2)
        assert not waiting.done()
        assert not server.serving()
        call.cancel()
        reply = waiting.result()
    assert reply.HasField("running_calls") and reply.running_calls == 0
    assert drain(server, wait=True).running_calls == 0


def test_a_drained_worker_still_ends_in_peace(worker):
    with Planner() as planner:
        server = worker(f"--planner={planner.address}")
        drain(server, wait=True)
        assert len(planner.leases()) == 1  # it holds its memory until it ends
        server.terminate()
        assert server.process.wait(START_SECONDS) == 0
        assert not planner.leases()


def test_a_signal_during_a_drain_ends_it_after_the_timeout(worker):
    server = worker("--drain-timeout=0")
    with grpc.insecure_channel(server.address) as other:
        with streaming(server, "last") as call:
            waiting = AdminStub(other).Drain.future(
                v1.DrainRequest(wait=True), timeout=CALL_SECONDS
            )
            until(lambda: not server.serving(), what="the drain")
            server.terminate()
            with refused(UNAVAILABLE, "DRAINING"):
                list(call)
            assert server.process.wait(START_SECONDS) == 0
            assert waiting.exception() is None
