"""OpenAI's own client with `/v1/responses` of `plimsoll serve` and real models."""

import json
import urllib.error
import urllib.request

import openai
import pydantic
import pytest

from chats.test_replies import TEMPLATE
from command_line import parsed, plimsoll
from conftest import N_CTX
from security.test_security import Tokens
from servers import CALL_SECONDS, Front
from test_openai import client_of

MODEL = "SmolLM2-135M-Instruct.Q4_1"
QUESTION = "Name three colours."
GREEDY = {"model": MODEL, "temperature": 0, "max_output_tokens": 24}
# Without reasoning, so that a call that is required comes at once.
CALLS = """{%- for message in messages %}
    {{- '[' ~ message.role ~ '] ' ~ message.content }}
    {%- for call in message.tool_calls %}
        {{- '<tool_call>' ~ call.function.name ~ call.function.arguments | tojson ~ '</tool_call>' }}
    {%- endfor %}
{% endfor %}
{{- tools | tojson }} [model] """
LIGHT = {
    "type": "function",
    "name": "light",
    "description": "Turns on the light in a room",
    "strict": True,
    "parameters": {
        "type": "object",
        "properties": {"room": {"enum": ["hall", "attic"]}},
        "required": ["room"],
        "additionalProperties": False,
    },
}


@pytest.fixture(scope="module")
def client(front):
    return client_of(front)


def test_a_response_says_what_the_command_says(client):
    flags = ("--prompt", QUESTION, "--temperature", "0")
    flags += ("--max-tokens", "24", "--n-ctx", str(N_CTX), "-o", "json")
    expected = parsed(plimsoll("generate", "--model", MODEL, *flags))
    response = client.responses.create(input=QUESTION, **GREEDY)
    assert response.output_text == expected["text"]
    assert response.status == "incomplete"
    assert response.incomplete_details.reason == "max_output_tokens"
    assert response.error is None and response.model == MODEL
    assert response.max_output_tokens == 24 and response.temperature == 0
    used = response.usage
    assert used.input_tokens == expected["usage"]["prompt_tokens"]
    assert used.output_tokens == 24
    assert used.total_tokens == used.input_tokens + 24
    assert used.output_tokens_details.reasoning_tokens == 0
    (message,) = response.output
    assert message.role == "assistant" and message.status == "incomplete"


def test_the_events_of_a_stream_come_in_their_order(client):
    whole = client.responses.create(input=QUESTION, **GREEDY)
    events = list(client.responses.create(input=QUESTION, stream=True, **GREEDY))
    kinds = [event.type for event in events]
    deltas = kinds.count("response.output_text.delta")
    assert kinds == [
        "response.created", "response.in_progress",
        "response.output_item.added", "response.content_part.added",
        *["response.output_text.delta"] * deltas,
        "response.output_text.done", "response.content_part.done",
        "response.output_item.done", "response.incomplete",
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    text = "".join(
        event.delta for event in events if event.type == "response.output_text.delta"
    )
    assert deltas > 1 and text == whole.output_text
    last = events[-1].response
    assert last.output_text == text and last.id == events[0].response.id
    assert last.usage.output_tokens == 24


class Person(pydantic.BaseModel):
    name: str
    age: int


def test_a_schema_is_kept(client):
    options = {**GREEDY, "max_output_tokens": 200}
    asked = "Invent a person, as JSON."
    response = client.responses.parse(input=asked, text_format=Person, **options)
    assert isinstance(response.output_parsed, Person)
    assert response.status == "completed"
    with client.responses.stream(
        input=asked, text_format=Person, **options
    ) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_response()
    assert "response.completed" in kinds
    assert final.output_parsed == response.output_parsed
    free = client.responses.create(
        input=asked, text={"format": {"type": "json_object"}}, **options
    )
    if free.status == "completed":
        assert isinstance(json.loads(free.output_text), dict)


def test_the_newest_response_goes_on_cheaply_and_older_ones_branch(client):
    system = "You are a painter who knows each colour by its name. " * 6
    first = client.responses.create(input=QUESTION, instructions=system, **GREEDY)
    options = {"instructions": system, **GREEDY}
    second = client.responses.create(
        input="Which is warm?", previous_response_id=first.id, **options
    )
    assert second.previous_response_id == first.id
    known = second.usage.input_tokens_details.cached_tokens
    assert known >= first.usage.input_tokens // 64 * 64 > 0
    items = [{"role": "user", "content": QUESTION}, *first.output]
    same = client.responses.create(
        input=[*items, {"role": "user", "content": "Which is warm?"}], **options
    )
    assert same.output_text == second.output_text
    assert same.usage.input_tokens == second.usage.input_tokens
    third = client.responses.create(
        input="And which is cold?", previous_response_id=second.id, **options
    )
    assert third.usage.input_tokens > second.usage.input_tokens
    branch = client.responses.create(
        input="And which is cold?", previous_response_id=first.id, **options
    )
    assert branch.usage.input_tokens < third.usage.input_tokens
    again = client.responses.create(
        input="Which is warm?", previous_response_id=first.id, **options
    )
    assert again.output_text == second.output_text


def test_instructions_do_not_stay(client):
    first = client.responses.create(
        input=QUESTION, instructions="Answer in one word. " * 5, **GREEDY
    )
    next_one = client.responses.create(
        input="And?", previous_response_id=first.id, **GREEDY
    )
    plain = client.responses.create(
        input=[{"role": "user", "content": QUESTION}, *first.output,
               {"role": "user", "content": "And?"}], **GREEDY
    )
    assert next_one.usage.input_tokens == plain.usage.input_tokens


def test_a_response_is_read_and_deleted(client):
    made = client.responses.create(
        input=QUESTION, metadata={"topic": "colours"}, **GREEDY
    )
    assert client.responses.retrieve(made.id).to_dict() == made.to_dict()
    assert made.metadata == {"topic": "colours"}
    client.responses.delete(made.id)
    for gone in (client.responses.retrieve, client.responses.delete):
        with pytest.raises(openai.NotFoundError):
            gone(made.id)
    with pytest.raises(openai.NotFoundError) as caught:
        client.responses.create(input="And?", previous_response_id=made.id, **GREEDY)
    assert caught.value.param == "previous_response_id"
    assert "Send the conversation as input" in caught.value.message
    unkept = client.responses.create(input=QUESTION, store=False, **GREEDY)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(unkept.id)


def test_a_conversation_that_is_too_long_is_an_error_with_both_numbers(client):
    first = client.responses.create(input="sea " * (N_CTX // 2), **GREEDY)
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(
            input="sea " * (N_CTX // 2), previous_response_id=first.id, **GREEDY
        )
    assert caught.value.code == "context_length_exceeded"
    assert str(N_CTX) in caught.value.message
    # What failed is no turn.
    client.responses.create(input="And?", previous_response_id=first.id, **GREEDY)


def test_nothing_unknown_passes(client):
    for field, value in {
        "tempreature": 1, "background": True, "truncation": "auto",
        "conversation": "c", "tools": [{"type": "web_search"}],
        "include": ["message.output_text.logprobs"],
    }.items():
        with pytest.raises(openai.BadRequestError) as caught:
            client.responses.create(input="a", model=MODEL, extra_body={field: value})
        assert caught.value.param.startswith(field)


def test_a_client_that_leaves_frees_its_slot(client):
    """More streams than slots are left."""
    for _ in range(8):
        stream = client.responses.create(input=QUESTION, model=MODEL, stream=True)
        next(iter(stream))
        stream.close()
    client.responses.create(input=QUESTION, **GREEDY)


@pytest.fixture(scope="module")
def thinker(own_template):
    with Front(str(own_template(TEMPLATE)), f"--n-ctx={N_CTX}", "--slots=1") as server:
        yield client_of(server)


@pytest.fixture(scope="module")
def caller(own_template):
    with Front(str(own_template(CALLS)), f"--n-ctx={N_CTX}", "--slots=1") as server:
        yield client_of(server)


def test_a_call_and_its_output(caller):
    asked = {"model": "model", "tools": [LIGHT], "max_output_tokens": 100,
             "parallel_tool_calls": False, "temperature": 0}
    first = caller.responses.create(
        input="Hall, please.", tool_choice="required", **asked
    )
    call = next(item for item in first.output if item.type == "function_call")
    assert call.name == "light"
    assert json.loads(call.arguments)["room"] in ("hall", "attic")
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "on"}
    after = caller.responses.create(
        input=[output], previous_response_id=first.id, **asked
    )
    assert after.usage.input_tokens > first.usage.input_tokens
    by_hand = caller.responses.create(
        input=[{"role": "user", "content": "Hall, please."}, *first.output, output],
        **asked,
    )
    assert by_hand.usage.input_tokens == after.usage.input_tokens
    with pytest.raises(openai.BadRequestError) as caught:
        caller.responses.create(input=[output], **asked)
    assert caught.value.param == "input[0].call_id"


def test_reasoning_is_an_item(thinker):
    options = {"input": "Think.", "model": "model", "max_output_tokens": 16,
               "temperature": 0,
               "extra_body": {"chat_template_kwargs": {"enable_thinking": True}}}
    response = thinker.responses.create(**options)
    reasoning = response.output[0]
    assert reasoning.type == "reasoning" and reasoning.content[0].text
    used = response.usage
    assert 0 < used.output_tokens_details.reasoning_tokens <= used.output_tokens
    events = list(thinker.responses.create(stream=True, **options))
    kinds = [event.type for event in events]
    assert "response.reasoning_text.delta" in kinds
    done = events[kinds.index("response.reasoning_text.done")]
    assert done.text == reasoning.content[0].text


def test_other_tenants_find_nothing(smollm2, tmp_path):
    tokens = Tokens(tmp_path)
    tokens.add("a", "user", "--tenant", "team-a")
    tokens.add("b", "user", "--tenant", "team-b")
    tokens.add("v", "viewer")
    flags = (f"--n-ctx={N_CTX}", "--slots=1", *tokens.flag())
    with Front(str(smollm2), *flags) as server:
        def of(name):
            return client_of(server).with_options(api_key=tokens.of[name])

        made = of("a").responses.create(input=QUESTION, **GREEDY)
        assert of("a").responses.retrieve(made.id).id == made.id
        for refused in (of("b").responses.retrieve, of("b").responses.delete):
            with pytest.raises(openai.NotFoundError):
                refused(made.id)
        with pytest.raises(openai.NotFoundError):
            of("b").responses.create(
                input="And?", previous_response_id=made.id, **GREEDY
            )
        with pytest.raises(openai.PermissionDeniedError):
            of("v").responses.retrieve(made.id)
        request = urllib.request.Request(f"{server.url}/v1/responses/{made.id}")
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(request, timeout=CALL_SECONDS)
        assert caught.value.code == 401
