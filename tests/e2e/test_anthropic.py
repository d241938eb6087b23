"""Anthropic's own client against `plimsoll serve` with real models."""

import json

import anthropic
import pytest

from command_line import parsed, plimsoll
from conftest import N_CTX
from servers import CALL_SECONDS, Front
from test_openai import client_of as openai_client_of
from test_tools import tool_model  # noqa: F401  (a fixture)

MODEL = "SmolLM2-135M-Instruct.Q4_1"
QUESTION = [{"role": "user", "content": "Name three colours."}]
# The newest client has no argument for the temperature; the server takes it.
GREEDY = {"model": MODEL, "max_tokens": 24, "extra_body": {"temperature": 0}}
LIGHT = {
    "name": "light",
    "description": "Turns on the light in a room",
    "input_schema": {
        "type": "object",
        "properties": {"room": {"type": "string", "description": "Its name"}},
        "required": ["room"],
    },
}


def client_of(server):
    """A client that repeats nothing, so that tests see each error."""
    return anthropic.Anthropic(
        base_url=server.url, api_key="none", max_retries=0, timeout=CALL_SECONDS
    )


@pytest.fixture(scope="module")
def client(front):
    return client_of(front)


def test_a_message_says_what_the_command_says(client):
    flags = ("--prompt", QUESTION[0]["content"], "--temperature", "0")
    flags += ("--max-tokens", "24", "--n-ctx", str(N_CTX), "-o", "json")
    expected = parsed(plimsoll("generate", "--model", MODEL, *flags))
    reply = client.messages.create(messages=QUESTION, **GREEDY)
    (block,) = reply.content
    assert block.type == "text" and block.text == expected["text"]
    assert reply.role == "assistant" and reply.model == MODEL
    assert reply.stop_reason == "max_tokens"
    used = reply.usage
    assert used.output_tokens == 24
    prompt_tokens = used.input_tokens + used.cache_read_input_tokens
    assert prompt_tokens == expected["usage"]["prompt_tokens"]


def test_a_stream_adds_up_to_the_message(client):
    whole = client.messages.create(messages=QUESTION, **GREEDY)
    with client.messages.stream(messages=QUESTION, **GREEDY) as stream:
        texts = list(stream.text_stream)
        final = stream.get_final_message()
    assert len(texts) > 1 and "".join(texts) == whole.content[0].text
    assert [block.text for block in final.content] == [whole.content[0].text]
    assert final.stop_reason == "max_tokens"
    assert final.usage.output_tokens == 24


def test_the_events_of_a_stream_come_in_their_order(client):
    events = list(client.messages.create(messages=QUESTION, stream=True, **GREEDY))
    kinds = [event.type for event in events]
    deltas = kinds.count("content_block_delta")
    assert kinds == [
        "message_start", "content_block_start", *["content_block_delta"] * deltas,
        "content_block_stop", "message_delta", "message_stop",
    ]
    counted = client.messages.count_tokens(messages=QUESTION, model=MODEL)
    assert events[0].message.usage.input_tokens == counted.input_tokens


def test_stop_sequences(client):
    whole = client.messages.create(messages=QUESTION, **GREEDY).content[0].text
    word = whole.split()[2]
    reply = client.messages.create(
        messages=QUESTION, stop_sequences=["never to be seen", word], **GREEDY
    )
    assert reply.stop_reason == "stop_sequence" and reply.stop_sequence == word
    assert reply.content[0].text == whole[: whole.index(word)]


def test_a_conversation_is_that_of_openais_dialect(client, front):
    reply = client.messages.create(
        system=[{"type": "text", "text": "Answer in one word."}],
        messages=[
            {"role": "user", "content": "What is the"},
            {"role": "user", "content": [{"type": "text", "text": "first colour?"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "Red."}]},
            {"role": "user", "content": "And then?"},
        ],
        **GREEDY,
    )
    same = openai_client_of(front).chat.completions.create(
        messages=[
            {"role": "system", "content": "Answer in one word."},
            {"role": "user", "content": "What is the\n\nfirst colour?"},
            {"role": "assistant", "content": "Red."},
            {"role": "user", "content": "And then?"},
        ],
        model=MODEL, max_tokens=24, temperature=0,
    )
    assert reply.content[0].text == same.choices[0].message.content


def test_a_schema_is_kept(client):
    reply = client.messages.create(
        messages=[{"role": "user", "content": "Invent a flag, as JSON."}],
        output_config={"format": {"type": "json_schema", "schema": {
            "type": "object", "properties": {"ok": {"type": "boolean"}},
            "required": ["ok"], "additionalProperties": False,
        }}},
        **GREEDY,
    )
    assert reply.stop_reason == "end_turn"
    assert list(json.loads(reply.content[0].text)) == ["ok"]


def test_errors_are_the_clients_own(client):
    with pytest.raises(anthropic.BadRequestError) as caught:
        client.messages.create(
            messages=QUESTION, model=MODEL, max_tokens=1, extra_body={"tempo": 1}
        )
    assert caught.value.type == "invalid_request_error"
    assert caught.value.api_message.startswith("tempo: ")
    with pytest.raises(anthropic.NotFoundError) as caught:
        client.messages.create(messages=QUESTION, model="nothing", max_tokens=1)
    assert caught.value.type == "not_found_error"
    long = [{"role": "user", "content": "sea " * (2 * N_CTX)}]
    with pytest.raises(anthropic.BadRequestError) as caught:
        client.messages.create(messages=long, **GREEDY)
    assert str(N_CTX) in caught.value.api_message
    with pytest.raises(anthropic.BadRequestError):
        client.messages.create(messages=QUESTION, tools=[LIGHT], **GREEDY)


def test_a_client_that_leaves_frees_its_slot(client):
    """More streams than slots are left."""
    for _ in range(8):
        stream = client.messages.create(
            messages=QUESTION, model=MODEL, max_tokens=400, stream=True
        )
        next(iter(stream))
        stream.close()
    client.messages.create(messages=QUESTION, **GREEDY)


def test_tools_and_their_results_are_in_the_prompt(tool_model):  # noqa: F811
    with Front(str(tool_model), f"--n-ctx={N_CTX}", "--slots=1") as server:
        client = client_of(server)

        def count(**fields):
            return client.messages.count_tokens(model="", **fields).input_tokens

        asked = [{"role": "user", "content": "Hall light"}]
        call = {"type": "tool_use", "id": "toolu_1", "name": "light",
                "input": {"room": "the hall"}}
        result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "on"}
        answered = [*asked, {"role": "assistant", "content": [call]},
                    {"role": "user", "content": [result]}]
        bare = count(messages=asked)
        declared = count(messages=asked, tools=[LIGHT])
        assert declared > bare + 10
        assert count(messages=asked, tools=[LIGHT], tool_choice={"type": "none"}) == bare
        assert count(messages=answered, tools=[LIGHT]) > declared + 10
        reply = client.messages.create(
            model="", messages=answered, tools=[LIGHT], max_tokens=4
        )
        assert reply.usage.output_tokens <= 4
