"""Two real models that have not room beside each other, by HTTP and by gRPC."""

import concurrent.futures
import json

import anthropic
import grpc
import httpx
import openai
import pytest

from asks import GREEDY, generate, text
from command_line import plimsoll
from servers import CALL_SECONDS, Front, Planner, Worker, until
from test_openai import client_of, request

SMOLLM2 = "SmolLM2-135M-Instruct.Q4_1"
GEMMA3 = "gemma-3-270m-q4_k_m"
FLAGS = ("--n-ctx=256", "--slots=2")
PROMPT = "The sea is"
QUESTION = [{"role": "user", "content": "Name three colours."}]


def said(server, model):
    """What a model says after PROMPT."""
    reply = client_of(server).completions.create(
        model=model, prompt=PROMPT, temperature=0, max_tokens=8
    )
    return reply.choices[0].text


def ask(worker, model):
    """A reply by gRPC."""
    request_of = generate(model, text=text(PROMPT), sampling=GREEDY, max_tokens=4)
    return worker.generation.Generate(request_of, timeout=CALL_SECONDS)


def states(server):
    """The state of each model."""
    models = json.loads(request(server, "GET", "/v1/models")[1])["data"]
    return {model["id"]: model["state"] for model in models}


def await_state(server, model, state):
    until(lambda: states(server)[model] == state, CALL_SECONDS, f"{model} {state}")


def await_line(server, words):
    until(lambda: words in server.log(), what=words)


@pytest.fixture(scope="module")
def alone(smollm2, gemma3):
    """What each model says in a server with room for both, and the plans' bytes."""
    with Front(str(smollm2), str(gemma3), *FLAGS) as server:
        models = json.loads(request(server, "GET", "/v1/models")[1])["data"]
        assert {model["state"] for model in models} == {"ready"}
        texts = {model["id"]: said(server, model["id"]) for model in models}
        return texts, [model["planned_bytes"] for model in models]


@pytest.fixture(scope="module")
def budget(alone):
    """Bytes for either model and not for both."""
    _, sizes = alone
    return max(sizes) + min(sizes) // 2


@pytest.fixture
def front(smollm2, gemma3, budget):
    flags = (*FLAGS, f"--device-memory={budget}")
    with Front(str(smollm2), str(gemma3), *flags) as server:
        yield server


def test_a_request_loads_its_model(front, alone):
    texts, _ = alone
    await_line(front, f"{GEMMA3} is loaded when a request asks for it")
    assert states(front) == {SMOLLM2: "ready", GEMMA3: "unloaded"}
    for model, other in ((GEMMA3, SMOLLM2), (SMOLLM2, GEMMA3)):
        assert said(front, model) == texts[model]
        assert states(front) == {model: "ready", other: "unloaded"}
    for words in (f"{SMOLLM2} is ready after", f"{GEMMA3} with ", "was unloaded for it"):
        await_line(front, words)


def test_no_request_is_lost_between_two_models(front, alone):
    texts, _ = alone
    asked = [SMOLLM2, GEMMA3] * 6
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        replies = list(pool.map(lambda model: said(front, model), asked))
    assert replies == [texts[model] for model in asked]


def openais_chat(server):
    chunks = client_of(server).chat.completions.create(
        model=GEMMA3, messages=QUESTION, temperature=0, max_tokens=8, stream=True)
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)


def openais_completion(server):
    chunks = client_of(server).completions.create(
        model=GEMMA3, prompt=PROMPT, temperature=0, max_tokens=8, stream=True)
    return "".join(chunk.choices[0].text for chunk in chunks)


def openais_response(server):
    events = list(client_of(server).responses.create(
        model=GEMMA3, input=PROMPT, temperature=0, max_output_tokens=8, stream=True))
    return events[-1].response.output_text


def anthropics_message(server):
    client = anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0,
                                 timeout=CALL_SECONDS)
    with client.messages.stream(model=GEMMA3, messages=QUESTION, max_tokens=8,
                                extra_body={"temperature": 0}) as stream:
        return stream.get_final_message().content[0].text


def first_line(server, path):
    """The first line of a stream, which is then left."""
    body = {"model": GEMMA3, "messages": QUESTION, "max_tokens": 8, "stream": True}
    with httpx.stream("POST", f"{server.url}{path}", json=body,
                      timeout=CALL_SECONDS) as reply:
        assert reply.status_code == 200
        return next(reply.iter_lines())


def test_streams_that_wait_for_a_model_say_so(front):
    asks = (openais_chat, openais_completion, openais_response, anthropics_message)
    with concurrent.futures.ThreadPoolExecutor(len(asks)) as pool:
        with client_of(front).completions.create(
            model=SMOLLM2, prompt=PROMPT, stream=True, max_tokens=1_000_000,
            extra_body={"ignore_eos": True, "context_policy": "roll"},
        ) as busy:
            next(iter(busy))
            calls = [pool.submit(ask, front) for ask in asks]
            assert first_line(front, "/v1/chat/completions") == ": loading 0 %"
            assert first_line(front, "/v1/messages") == "event: ping"
            assert not any(call.done() for call in calls)
        # Its client is gone, so it gives way.
        said_after_the_wait = [call.result() for call in calls]
    assert all(said_after_the_wait)
    assert said_after_the_wait == [ask(front) for ask in asks]


def test_a_model_that_nobody_uses_goes(smollm2):
    with Front(str(smollm2), *FLAGS, "--keep-alive=1") as server:
        await_state(server, SMOLLM2, "unloaded")
        assert request(server, "GET", "/health")[0] == 200
        assert said(server, SMOLLM2)


def test_a_pinned_model_stays(smollm2, gemma3, budget):
    flags = (*FLAGS, f"--device-memory={budget}", f"--pin={GEMMA3}")
    with Front(str(smollm2), str(gemma3), *flags) as server:
        assert states(server) == {SMOLLM2: "unloaded", GEMMA3: "ready"}
        with pytest.raises(openai.APIStatusError) as caught:
            said(server, SMOLLM2)
        assert caught.value.status_code == 413
        assert f"{GEMMA3} keeps " in str(caught.value)
        assert "because it is pinned" in str(caught.value)


def test_only_models_that_are_there_can_be_pinned(smollm2):
    done = plimsoll("serve", str(smollm2), "--pin=nobody")
    assert done.returncode == 2
    assert SMOLLM2.encode() in done.stderr


def test_leases_follow_the_models(smollm2, gemma3, budget):
    with Planner() as planner:
        flags = (f"--model=s={smollm2}", f"--model=g={gemma3}", *FLAGS, "--on-demand")
        flags += (f"--planner={planner.address}", f"--device-memory={budget}")
        with Worker(*flags) as worker:
            worker.await_ready()
            assert not planner.leases()
            for model in ("s", "g", "s"):
                reply = ask(worker, model)
                assert reply.model == model
                assert [lease.purpose for lease in planner.leases()] == [model]


def test_without_demand_a_model_must_be_loaded(smollm2):
    with Worker(f"--model=s={smollm2}", *FLAGS, "--lazy") as worker:
        worker.await_ready()
        with pytest.raises(grpc.RpcError) as caught:
            ask(worker, "s")
        assert caught.value.code() == grpc.StatusCode.FAILED_PRECONDITION
