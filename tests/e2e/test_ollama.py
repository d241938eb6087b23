"""Ollama's own client against `plimsoll serve` with a real model."""

import datetime

import ollama
import pytest

from command_line import parsed, plimsoll
from conftest import N_CTX
from servers import CALL_SECONDS, Front, until
from test_anthropic import LIGHT
from test_openai import client_of as openai_client_of
from test_tools import tool_model  # noqa: F401  (a fixture)

MODEL = "SmolLM2-135M-Instruct.Q4_1"
QUESTION = [{"role": "user", "content": "Name three colours."}]
GREEDY = {"temperature": 0, "num_predict": 24}
TOOL = {"type": "function", "function": {
    "name": LIGHT["name"], "description": LIGHT["description"],
    "parameters": LIGHT["input_schema"],
}}


def client_of(server):
    return ollama.Client(host=server.url, timeout=CALL_SECONDS)


@pytest.fixture(scope="module")
def client(front):
    return client_of(front)


def test_a_chat_says_what_the_command_says(client):
    flags = ("--prompt", QUESTION[0]["content"], "--temperature", "0")
    flags += ("--max-tokens", "24", "--n-ctx", str(N_CTX), "-o", "json")
    expected = parsed(plimsoll("generate", "--model", MODEL, *flags))
    reply = client.chat(MODEL, QUESTION, options=GREEDY)
    assert reply.message.role == "assistant"
    assert reply.message.content == expected["text"]
    assert reply.model == MODEL
    assert reply.done and reply.done_reason == "length"
    assert reply.prompt_eval_count == expected["usage"]["prompt_tokens"]
    assert reply.eval_count == 24
    assert 0 < reply.eval_duration < reply.total_duration
    age = datetime.datetime.now(datetime.timezone.utc) - datetime.datetime.fromisoformat(
        reply.created_at
    )
    assert abs(age.total_seconds()) < CALL_SECONDS


def test_a_stream_has_the_same_text(client):
    whole = client.chat(MODEL, QUESTION, options=GREEDY)
    parts = list(client.chat(MODEL, QUESTION, options=GREEDY, stream=True))
    assert len(parts) > 2
    assert "".join(p.message.content for p in parts) == whole.message.content
    assert [p.done for p in parts] == [False] * (len(parts) - 1) + [True]
    assert parts[-1].eval_count == 24


def test_generate_answers_in_the_models_format_or_raw(client, front):
    chat = client.chat(MODEL, QUESTION, options=GREEDY).message.content
    prompt = QUESTION[0]["content"]
    assert client.generate(MODEL, prompt, options=GREEDY).response == chat
    parts = client.generate(MODEL, prompt, options=GREEDY, stream=True)
    assert "".join(part.response for part in parts) == chat
    raw = client.generate(MODEL, "One, two,", raw=True, options=GREEDY)
    same = openai_client_of(front).completions.create(
        model=MODEL, prompt="One, two,", temperature=0, max_tokens=24
    )
    assert raw.response == same.choices[0].text


def test_options_are_kept(client):
    whole = client.generate(MODEL, "One, two,", raw=True, options=GREEDY).response
    word = whole.split()[2]
    options = {**GREEDY, "stop": [word]}
    stopped = client.generate(MODEL, "One, two,", raw=True, options=options)
    assert stopped.done_reason == "stop"
    assert stopped.response == whole[: whole.index(word)]
    options = {"temperature": 1.0, "seed": 7, "num_predict": 24}
    replies = {client.chat(MODEL, QUESTION, options=options).message.content
               for _ in range(2)}
    assert len(replies) == 1


def test_a_schema_is_kept(client):
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}},
              "required": ["ok"], "additionalProperties": False}
    reply = client.chat(
        MODEL, [{"role": "user", "content": "Invent a flag, as JSON."}],
        format=schema, options=GREEDY,
    )
    assert reply.done_reason == "stop" and '"ok"' in reply.message.content


def test_log_probabilities(client):
    reply = client.generate(
        MODEL, "One, two,", raw=True, options=GREEDY, logprobs=True, top_logprobs=2
    )
    assert "".join(token.token for token in reply.logprobs) == reply.response
    for token in reply.logprobs:
        assert token.top_logprobs[0].logprob == token.logprob


def test_models_are_listed_and_shown(client):
    (listed,) = client.list().models
    assert listed.model == MODEL and listed.size > 50 << 20
    (loaded,) = client.ps().models
    assert loaded.name == MODEL and loaded.context_length == N_CTX
    assert loaded.size > listed.size and loaded.size_vram == 0
    assert loaded.expires_at.year == 9999
    shown = client.show(MODEL)
    assert shown.capabilities == ["completion"]
    family = shown.modelinfo["general.architecture"]
    assert shown.details.family == family == "llama"
    assert shown.modelinfo[f"{family}.context_length"] > N_CTX
    with pytest.raises(ollama.ResponseError) as caught:
        client.show("nothing")
    assert caught.value.status_code == 404


def test_a_model_can_be_asked_for_without_a_prompt(client):
    assert client.generate(MODEL).done_reason == "load"
    assert client.chat(MODEL).done_reason == "load"
    assert client.ps().models
    assert client.generate(MODEL, keep_alive=0).done_reason == "unload"
    until(lambda: not client.ps().models, CALL_SECONDS, "the model to go")
    assert client.generate(MODEL, keep_alive="5m").done_reason == "load"
    left = client.ps().models[0].expires_at - datetime.datetime.now(datetime.timezone.utc)
    assert 240 < left.total_seconds() <= 300
    assert client.generate(MODEL, keep_alive=-1).done_reason == "load"


def test_errors_say_what_is_wrong(client):
    for options in ({"tempo": 1}, {"num_ctx": N_CTX + 1}):
        with pytest.raises(ollama.ResponseError) as caught:
            client.chat(MODEL, QUESTION, options=options)
        assert caught.value.status_code == 400
    assert str(N_CTX + 1) in caught.value.error
    with pytest.raises(ollama.ResponseError) as caught:
        client.chat("nothing", QUESTION)
    assert caught.value.status_code == 404


def test_a_client_that_leaves_frees_its_slot(client):
    """More streams than slots are left."""
    for _ in range(8):
        parts = client.generate(MODEL, "One, two,", raw=True, stream=True)
        next(iter(parts))
        parts.close()
    client.chat(MODEL, QUESTION, options=GREEDY)


def test_tools_and_their_responses_are_in_the_prompt(tool_model):  # noqa: F811
    with Front(str(tool_model), f"--n-ctx={N_CTX}", "--slots=1") as server:
        client = client_of(server)
        (name,) = [model.model for model in client.list().models]
        assert client.show(name).capabilities == ["completion", "tools"]

        def count(messages, tools=()):
            reply = client.chat(
                name, messages, tools=tools, options={"num_predict": 1}
            )
            return reply.prompt_eval_count

        asked = [{"role": "user", "content": "Hall light"}]
        call = {"function": {"name": "light", "arguments": {"room": "the hall"}}}
        answered = [*asked, {"role": "assistant", "tool_calls": [call]},
                    {"role": "tool", "tool_name": "light", "content": "on"}]
        declared = count(asked, [TOOL])
        assert declared > count(asked) + 10
        assert count(answered, [TOOL]) > declared + 10


def test_a_template_with_calls_has_tools(own_template):
    model = own_template("{{ messages[0].content }}<tool_call>")
    with Front(str(model), f"--n-ctx={N_CTX}", "--slots=1") as server:
        client = client_of(server)
        (name,) = [model.model for model in client.list().models]
        assert client.show(name).capabilities == ["completion", "tools"]
