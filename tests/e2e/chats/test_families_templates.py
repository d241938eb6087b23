"""Chats, reasoning and tools with the chat templates of gpt-oss and Gemma 4.

The model is Gemma's 270M with the marks of these templates in place of tokens that it
does not use, so its replies are forced.
"""

import json
import os
import pathlib

import openai
import pytest

from servers import CALL_SECONDS, Front

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
FOLDER = CACHE / "plimsoll" / "templates"  # scripts/fetch_templates.sh fills it
FIRST_UNUSED = 6
USER_DEFINED = 4  # a type of token that a grammar can ask for
# A template, its marks, a reply that has reasoning and an answer, and one with a call.
FAMILIES = {
    "openai-gpt-oss-120b": (
        ["<|channel|>", "<|message|>", "<|end|>", "<|start|>", "<|constrain|>", "<|call|>",
         "<|return|>"],
        "<|channel|>analysis<|message|>It is dark.<|end|>"
        "<|start|>assistant<|channel|>final<|message|>Yes.",
        "<|channel|>commentary to=functions.light <|constrain|>json<|message|>"
        '{"room":"hall"}<|call|>',
    ),
    "google-gemma-4-31B-it": (
        ["<|turn>", "<turn|>", "<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>",
         '<|"|>', "<|tool>", "<tool|>", "<|tool_response>", "<tool_response|>", "<|think|>"],
        "<|channel>thought\nIt is dark.\n<channel|>Yes.",
        '<|tool_call>call:light{room:<|"|>hall<|"|>}<tool_call|>',
    ),
}
LIGHT = {
    "type": "function",
    "function": {
        "name": "light",
        "description": "Turns on the light in a room",
        "parameters": {
            "type": "object",
            "properties": {"room": {"type": "string", "enum": ["hall", "attic"]}},
            "required": ["room"],
        },
    },
}
QUESTION = [{"role": "user", "content": "Light in the hall, please."}]


@pytest.fixture(scope="module", params=list(FAMILIES))
def family(request, own_template):
    """A client, and the two replies."""
    path = FOLDER / f"{request.param}.jinja"
    if not path.exists():
        pytest.skip("run scripts/fetch_templates.sh first")
    marks, *replies = FAMILIES[request.param]
    changes = {FIRST_UNUSED + i: (mark, USER_DEFINED) for i, mark in enumerate(marks)}
    model = own_template(path.read_text(encoding="utf-8"), changes)
    with Front(str(model), "--n-ctx=1024", "--slots=1") as server:
        client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0,
                               timeout=CALL_SECONDS)
        yield client, *replies


def forced(client, reply, messages, **fields):
    grammar = "root ::= " + json.dumps(reply)
    return client.chat.completions.create(
        model="model", messages=messages, temperature=0, max_tokens=200,
        extra_body={"grammar": grammar}, **fields).choices[0]


def test_reasoning_is_apart_from_the_answer(family):
    client, reply, _ = family
    choice = forced(client, reply, QUESTION)
    assert choice.message.content == "Yes."
    assert choice.message.reasoning_content.strip() == "It is dark."


def test_a_call_is_made_and_answered(family):
    client, _, reply = family
    choice = forced(client, reply, QUESTION, tools=[LIGHT])
    assert choice.finish_reason == "tool_calls", choice
    call = choice.message.tool_calls[0]
    assert call.function.name == "light"
    assert json.loads(call.function.arguments) == {"room": "hall"}
    answer = {"role": "tool", "tool_call_id": call.id, "content": '{"done": true}'}
    messages = [*QUESTION, choice.message.model_dump(exclude_none=True), answer]
    after = forced(client, "It is on.", messages, tools=[LIGHT])
    assert after.message.content == "It is on."


def test_a_required_call_is_held_to_its_schema(family):
    client, *_ = family
    choice = client.chat.completions.create(
        model="model", messages=QUESTION, temperature=0, max_tokens=200, tools=[LIGHT],
        tool_choice="required", parallel_tool_calls=False,
        # Else this model reasons for ever.
        extra_body={"reasoning": {"max_tokens": 0}}).choices[0]
    assert choice.finish_reason == "tool_calls", choice
    call = choice.message.tool_calls[0]
    assert call.function.name == "light"
    assert json.loads(call.function.arguments)["room"] in ("hall", "attic")
