"""Calls whose arguments come in pieces, read by the clients of three dialects."""

import json

import anthropic
import pytest

from responses.test_responses import CALLS, LIGHT
from servers import CALL_SECONDS, Front
from test_openai import client_of

QUESTION = [{"role": "user", "content": "Hall, please."}]
PARAMETERS = LIGHT["parameters"]
FUNCTION = {"type": "function",
            "function": {"name": "light", "parameters": PARAMETERS}}
ROOMS = ("hall", "attic")


@pytest.fixture(scope="module")
def front(own_template):
    with Front(str(own_template(CALLS)), "--n-ctx=512", "--slots=1") as server:
        yield server


@pytest.fixture(scope="module")
def openai_client(front):
    return client_of(front)


@pytest.fixture(scope="module")
def anthropic_client(front):
    return anthropic.Anthropic(
        base_url=front.url, api_key="none", max_retries=0, timeout=CALL_SECONDS
    )


def cut(ask):
    """What `ask` returns for the first limit of tokens for which it returns
    something. A call has more than three tokens behind its first piece."""
    return next(found for limit in range(9, 72, 3) if (found := ask(limit)))


def test_a_chat_has_the_pieces(openai_client):
    asked = {"model": "model", "messages": QUESTION, "tools": [FUNCTION],
             "tool_choice": "required", "parallel_tool_calls": False,
             "max_tokens": 100, "temperature": 0}
    whole = openai_client.chat.completions.create(**asked).choices[0].message
    chunks = openai_client.chat.completions.create(stream=True, **asked)
    calls = [call for chunk in chunks for choice in chunk.choices
             for call in choice.delta.tool_calls or []]
    assert len(calls) > 2
    assert {call.index for call in calls} == {0}
    assert calls[0].id and calls[0].function.name == "light"
    assert all(not call.id and not call.function.name for call in calls[1:])
    arguments = "".join(call.function.arguments for call in calls)
    assert arguments == whole.tool_calls[0].function.arguments
    assert json.loads(arguments)["room"] in ROOMS


def test_the_client_puts_a_chat_together(openai_client):
    with openai_client.chat.completions.stream(
        model="model", messages=QUESTION, tools=[FUNCTION], max_tokens=100,
        tool_choice="required", parallel_tool_calls=False, temperature=0,
    ) as stream:
        events = list(stream)
    done = [event for event in events
            if event.type == "tool_calls.function.arguments.done"]
    assert [event.name for event in done] == ["light"]
    pieces = [event.arguments_delta for event in events
              if event.type == "tool_calls.function.arguments.delta"]
    assert "".join(pieces) == done[0].arguments


def test_a_chat_that_is_cut_keeps_its_pieces(openai_client):
    def ask(limit):
        chunks = openai_client.chat.completions.create(
            model="model", messages=QUESTION, tools=[FUNCTION], max_tokens=limit,
            tool_choice="required", temperature=0, stream=True,
        )
        choices = [choice for chunk in chunks for choice in chunk.choices]
        return any(choice.delta.tool_calls for choice in choices) and choices

    choices = cut(ask)
    assert not any(choice.delta.content for choice in choices)
    (failed,) = [choice for choice in choices if hasattr(choice, "tool_call_errors")]
    assert failed.tool_call_errors[0]["index"] == 0
    assert "ended before" in failed.tool_call_errors[0]["error"]
    assert choices[-1].finish_reason == "length"


def test_a_response_has_the_pieces(openai_client):
    with openai_client.responses.stream(
        input="Hall, please.", model="model", tools=[LIGHT],
        tool_choice={"type": "function", "name": "light"}, max_output_tokens=100,
        temperature=0,
    ) as stream:
        events = list(stream)
    kinds = [event.type for event in events]
    begin = kinds.index("response.function_call_arguments.delta")
    end = kinds.index("response.function_call_arguments.done")
    assert kinds[begin - 1] == "response.output_item.added"
    assert set(kinds[begin:end]) == {kinds[begin]} and end - begin > 1
    assert kinds[end + 1] == "response.output_item.done"
    # The model may say more behind the call, until it is cut.
    output = events[-1].response.output
    call = next(item for item in output if item.type == "function_call")
    assert events[end - 1].snapshot == events[end].arguments == call.arguments
    assert json.loads(call.arguments)["room"] in ROOMS


def test_a_conversation_goes_on_behind_an_incomplete_call(openai_client):
    asked = {"model": "model", "tools": [LIGHT], "temperature": 0}

    def ask(limit):
        with openai_client.responses.stream(
            input="Hall, please.", tool_choice="required", max_output_tokens=limit,
            **asked,
        ) as stream:
            events = list(stream)
        kinds = [item.type for item in events[-1].response.output]
        return kinds == ["function_call"] and events

    events = cut(ask)
    assert events[-1].type == "response.incomplete"
    (call,) = events[-1].response.output
    assert (call.type, call.status) == ("function_call", "incomplete")
    assert "response.function_call_arguments.done" not in [e.type for e in events]
    after = openai_client.responses.create(
        input="Again.", previous_response_id=events[-1].response.id,
        max_output_tokens=4, **asked
    )
    assert after.usage.output_tokens > 0


def test_a_message_has_the_pieces(anthropic_client):
    tool = {"name": "light", "input_schema": PARAMETERS}
    with anthropic_client.messages.stream(
        model="model", messages=QUESTION, tools=[tool], max_tokens=100,
        tool_choice={"type": "any", "disable_parallel_tool_use": True},
    ) as stream:
        events = list(stream)
        message = stream.get_final_message()
    pieces = [event.delta.partial_json for event in events
              if event.type == "content_block_delta"
              and event.delta.type == "input_json_delta"]
    assert len(pieces) > 1
    call = next(block for block in message.content if block.type == "tool_use")
    assert call.name == "light" and call.input["room"] in ROOMS
    assert json.loads("".join(pieces)) == call.input


def test_a_message_that_is_cut_keeps_its_block(anthropic_client):
    tool = {"name": "light", "input_schema": PARAMETERS}

    def ask(limit):
        with anthropic_client.messages.stream(
            model="model", messages=QUESTION, tools=[tool], max_tokens=limit,
            tool_choice={"type": "any"},
        ) as stream:
            message = stream.get_final_message()
        kinds = [block.type for block in message.content]
        return kinds == ["tool_use"] and message

    message = cut(ask)
    assert message.stop_reason == "max_tokens"
    assert message.content[0].name == "light"
