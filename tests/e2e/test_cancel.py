"""Whoever leaves frees a slot at once; whoever is slow holds up only itself."""

import contextlib
import pathlib
import subprocess
import sys

import grpc
import pytest

from asks import GREEDY, endless, generate, text
from conftest import model_flag
from servers import CALL_SECONDS, Failure, Worker, refused, small_channel, until
from stubs import GenerationStub, common, generation as v1

N_CTX = 4096
# The steps that pass until a cancellation has crossed the network and been
# seen by this client's polling; the engine itself takes two.
MAX_LATE_STEPS = 40

# A client that takes one message and then waits to be killed.
DOOMED_CLIENT = """
import sys
sys.path.insert(0, sys.argv[1])
import grpc, asks, stubs
stub = stubs.GenerationStub(grpc.insecure_channel(sys.argv[2]))
stream = stub.StreamGenerate(asks.endless())
next(stream)
print("streaming", flush=True)
for part in stream:
    pass
"""


@pytest.fixture(scope="module")
def server(smollm2):
    """Two slots and a context that no test fills."""
    flags = (f"--n-ctx={N_CTX}", "--slots=2")
    with Worker(model_flag("smollm2"), *flags) as started:
        yield started.await_ready()


@pytest.fixture(autouse=True)
def idle(server):
    """Every test starts and ends with free slots."""
    yield
    await_idle(server)


def await_idle(server):
    """Waits until no sequence runs or waits; gives the model's state."""

    def is_idle():
        found = server.model()
        return found if found.running == found.waiting == 0 else None

    return until(is_idle, what="a free slot")


def await_running(server, count):
    until(lambda: server.model().running == count, what=f"{count} running")


@contextlib.contextmanager
def streaming(server, request, n_parts=3):
    """A stream that was read a little; cancelled in the end."""
    call = server.generation.StreamGenerate(request, timeout=CALL_SECONDS)
    try:
        for _ in range(n_parts):
            next(call)
        yield call
    finally:
        call.cancel()


def test_a_cancelled_stream_frees_its_slot_at_once(server):
    with streaming(server, endless()) as call:
        before = server.model()
        assert before.running == 1
        call.cancel()
        after = await_idle(server)
    assert after.steps - before.steps < MAX_LATE_STEPS
    later = [server.model() for _ in range(20)][-1]
    assert later.steps == after.steps
    assert later.generated_tokens == after.generated_tokens


def test_a_cancelled_whole_text_frees_its_slot_at_once(server):
    request = generate(text=text("Once upon"), sampling=GREEDY, ignore_eos=True)
    call = server.generation.Generate.future(request, timeout=CALL_SECONDS)
    await_running(server, 1)
    call.cancel()
    await_idle(server)


def test_one_cancelled_stream_leaves_the_other_alone(server):
    request = endless(max_tokens=48)
    expected = "".join(
        part.text for part in server.generation.StreamGenerate(request)
    )
    with streaming(server, endless()) as doomed:
        call = server.generation.StreamGenerate(request, timeout=CALL_SECONDS)
        parts = [next(call)]
        doomed.cancel()
        parts += call
    assert parts[-1].finish.finish_reason == v1.FINISH_REASON_MAX_TOKENS
    assert "".join(part.text for part in parts) == expected


def test_f09_a_client_that_dies_frees_its_slot(server):
    folder = str(pathlib.Path(__file__).parent)
    command = [sys.executable, "-c", DOOMED_CLIENT, folder, server.address]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as client:
        try:
            assert client.stdout.readline() == b"streaming\n"
            assert server.model().running == 1
        finally:
            client.kill()
    await_idle(server)


def test_a_closed_channel_frees_its_slot(server):
    channel = grpc.insecure_channel(server.address)
    call = GenerationStub(channel).StreamGenerate(endless(), timeout=CALL_SECONDS)
    next(call)
    assert server.model().running == 1
    channel.close()
    await_idle(server)


@pytest.mark.parametrize("kind", ["stream", "whole"])
def test_f09_deadline_ends_the_call_and_frees_its_slot(server, kind):
    with refused(grpc.StatusCode.DEADLINE_EXCEEDED):
        if kind == "stream":
            list(server.generation.StreamGenerate(endless(), timeout=0.5))
        else:
            request = generate(text=text("Once"), sampling=GREEDY, ignore_eos=True)
            server.generation.Generate(request, timeout=0.5)
    await_idle(server)


# More than a transport takes for a client that does not read: 64 candidates a
# token.
LARGE_TOKENS = 400
LARGE = endless(
    response=v1.ResponseOptions(top_logprobs=64), max_tokens=LARGE_TOKENS
)


def test_f10_a_client_that_does_not_read_holds_up_only_itself(server):
    with small_channel(server.address) as channel:
        call = GenerationStub(channel).StreamGenerate(LARGE, timeout=CALL_SECONDS)
        parts = [next(call)]
        seen = []

        def is_parked():
            seen.append(server.model().steps)
            return len(seen) > 50 and len(set(seen[-50:])) == 1

        until(is_parked, seconds=25, what="the end of the stream's progress")
        assert server.model().running == 1
        quick = generate(text=text("Water"), sampling=GREEDY, max_tokens=8)
        reply = server.generation.Generate(quick, timeout=CALL_SECONDS)
        assert reply.usage.generated_tokens == 8
        parts += call  # it reads again, and has lost nothing
    finish = parts[-1].finish
    assert finish.finish_reason == v1.FINISH_REASON_MAX_TOKENS
    assert finish.usage.generated_tokens == LARGE_TOKENS
    assert sum(len(part.tokens) for part in parts) == LARGE_TOKENS


def test_f10_a_client_that_never_reads_is_cancelled(smollm2):
    flags = (f"--n-ctx={N_CTX}", "--slots=1", "--reader-timeout=0.2")
    with Worker(model_flag("smollm2"), *flags) as server:
        server.await_ready()
        with small_channel(server.address) as channel:
            stub = GenerationStub(channel)
            call = stub.StreamGenerate(LARGE, timeout=CALL_SECONDS)
            next(call)
            until(lambda: server.model().running == 0, 60, "the stream's end")
            assert server.model().generated_tokens < LARGE_TOKENS
            with refused(grpc.StatusCode.CANCELLED):
                list(call)


@pytest.fixture(scope="module")
def single(smollm2):
    """One slot."""
    with Worker(model_flag("smollm2"), f"--n-ctx={N_CTX}", "--slots=1") as started:
        yield started.await_ready()


def test_f19_a_full_queue_refuses_with_a_retry_delay(single):
    with streaming(single, endless()):
        waiting = [
            single.generation.StreamGenerate(endless(), timeout=CALL_SECONDS)
            for _ in range(64)
        ]
        try:
            until(lambda: single.model().waiting == 64, what="a full queue")
            with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "QUEUE_FULL") as failures:
                next(single.generation.StreamGenerate(endless()))
            assert failures[0].retry.retry_delay.ToMilliseconds() > 0
        finally:
            for call in waiting:
                call.cancel()
    await_idle(single)


def test_f09_what_waits_beyond_its_deadline_is_never_computed(single):
    with streaming(single, endless()):
        ids = common.TokenPrompt(ids=[500] * 2000)
        request = generate(tokens=ids, max_tokens=1)
        with refused(grpc.StatusCode.DEADLINE_EXCEEDED):
            single.generation.Generate(request, timeout=0.3)
        until(lambda: single.model().waiting == 0, what="an empty queue")
        assert single.model().running == 1
    await_idle(single)


def test_a_killed_worker_is_never_a_silent_end(smollm2):
    with Worker(model_flag("smollm2"), f"--n-ctx={N_CTX}") as started:
        started.await_ready()
        with streaming(started, endless()) as call:
            started.kill()
            parts = []
            with pytest.raises(grpc.RpcError) as caught:
                for part in call:
                    parts.append(part)
    assert Failure(caught.value).code == grpc.StatusCode.UNAVAILABLE
    assert not any(part.HasField("finish") for part in parts)
