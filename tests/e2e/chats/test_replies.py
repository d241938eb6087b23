"""Replies that are split into reasoning, answer and calls of tools.

The model is Gemma's with another template, so its replies are forced.
"""

import json
import re

import grpc
import pytest

from asks import GREEDY, chat, generate, stream
from command_line import plimsoll
from servers import CALL_SECONDS, Worker, refused
from stubs import common, generation as v1, tokenizer as tv1

TEMPLATE = """{%- for message in messages %}
    {{- '[' ~ message.role ~ '] ' }}
    {%- if message.reasoning_content %}{{ '<think>' ~ message.reasoning_content ~ '</think>' }}{% endif %}
    {{- message.content }}
    {%- for call in message.tool_calls %}
        {{- '<tool_call>' ~ call.function.name ~ call.function.arguments | tojson ~ '</tool_call>' }}
    {%- endfor %}
{% endfor %}
{%- for tool in tools or [] %}{{ tool.function.name }}{% endfor %}
{%- if add_generation_prompt %}[model] {% if enable_thinking %}<think>{% endif %}{% endif %}"""
CALL = '<tool_call>\n{"name": "light", "arguments": {"room": "hall", "on": true}}\n</tool_call>'
REPLY = f"<think>\nThe hall, then.\n</think>\n\nOf course.\n{CALL}"
ARGUMENTS = '{"room":"hall","on":true}'


@pytest.fixture(scope="module")
def thinker(own_template):
    return own_template(TEMPLATE)


@pytest.fixture(scope="module")
def worker(thinker):
    with Worker(f"--model=t={thinker}", "--n-ctx=256", "--slots=1") as server:
        yield server.await_ready()


@pytest.fixture(scope="module")
def plain_worker(own_template):
    """Its template has calls, but no reasoning."""
    path = own_template(
        "{{ messages[0].content }} {{ tools | tojson }} <tool_call>{name}")
    with Worker(f"--model=p={path}", "--n-ctx=1024", "--slots=1") as server:
        yield server.await_ready()


def asked(text="Light, please.", tools=("light",), **fields):
    prompt = chat(text)
    prompt.tools.extend(common.Tool(name=name) for name in tools)
    prompt.MergeFrom(common.ChatPrompt(**fields))
    return prompt


def forced(reply):
    return v1.OutputConstraint(regex=re.escape(reply).replace("\\\n", "\\n"))


def test_a_reply_has_its_parts(worker):
    request = generate("t", chat=asked(), sampling=GREEDY, constraint=forced(REPLY))
    reply = worker.generation.Generate(request, timeout=CALL_SECONDS)
    assert reply.reasoning == "The hall, then."
    assert reply.text == "Of course."
    (call,) = reply.tool_calls
    assert (call.name, call.arguments) == ("light", ARGUMENTS)
    assert reply.finish_reason == v1.FINISH_REASON_TOOL_CALL


def test_a_stream_has_the_parts_of_the_whole(worker):
    request = stream("t", chat=asked(), sampling=GREEDY, constraint=forced(REPLY))
    parts = list(worker.generation.StreamGenerate(request, timeout=CALL_SECONDS))
    assert "".join(part.reasoning for part in parts) == "The hall, then."
    assert "".join(part.text for part in parts) == "Of course."
    assert [call.name for part in parts for call in part.tool_calls] == ["light"]
    thoughts = [part for part in parts if part.reasoning]
    assert len(thoughts) > 1, "reasoning comes as it is written"


def test_arguments_come_while_they_are_written(worker):
    request = stream("t", chat=asked(), sampling=GREEDY, constraint=forced(REPLY))
    parts = list(worker.generation.StreamGenerate(request, timeout=CALL_SECONDS))
    pieces = [piece for part in parts for piece in part.tool_call_deltas]
    assert len(pieces) > 3
    assert [piece.name for piece in pieces if piece.name] == [pieces[0].name] == ["light"]
    assert {piece.index for piece in pieces} == {0}
    assert "".join(piece.arguments for piece in pieces) == ARGUMENTS
    (call,) = [call for part in parts for call in part.tool_calls]
    assert call.arguments == ARGUMENTS


def test_a_call_that_is_cut_has_pieces_and_an_error(worker):
    cut = REPLY[: REPLY.index("hall\"")]
    request = stream("t", chat=asked(), sampling=GREEDY, constraint=forced(cut))
    parts = list(worker.generation.StreamGenerate(request, timeout=CALL_SECONDS))
    pieces = [piece for part in parts for piece in part.tool_call_deltas]
    assert "".join(piece.arguments for piece in pieces) == '{"room":"'
    (call,) = [call for part in parts for call in part.tool_calls]
    assert call.error and not call.name
    assert parts[-1].finish.finish_reason == v1.FINISH_REASON_END_TOKEN


def test_nothing_is_split_where_nobody_wants_it(worker):
    request = generate("t", chat=asked(split_reply=False), sampling=GREEDY,
                       constraint=forced(REPLY))
    reply = worker.generation.Generate(request, timeout=CALL_SECONDS)
    assert reply.text == REPLY
    assert not reply.reasoning and not reply.tool_calls
    request = generate("t", chat=asked(tools=()), sampling=GREEDY,
                       constraint=forced(REPLY))
    reply = worker.generation.Generate(request, timeout=CALL_SECONDS)
    assert reply.text == f"Of course.\n{CALL}", "nobody has tools"


def test_a_prompt_may_open_the_reasoning(worker):
    thinks = asked(template_arguments='{"enable_thinking": true}')
    request = generate("t", chat=thinks, sampling=GREEDY,
                       constraint=forced("Hm.</think>Yes."))
    reply = worker.generation.Generate(request, timeout=CALL_SECONDS)
    assert (reply.reasoning, reply.text) == ("Hm.", "Yes.")


def test_what_was_thought_and_called_goes_back(worker):
    prompt = asked()
    prompt.messages.append(common.ChatMessage(
        role=common.CHAT_ROLE_ASSISTANT, content="So.", reasoning="Hm.",
        tool_calls=[common.ToolCall(name="light", arguments='{"a": 1}')]))
    prompt.messages.append(common.ChatMessage(
        role=common.CHAT_ROLE_TOOL, tool_name="light", content='"on"'))
    rendered = worker.tokenizer.ApplyChatTemplate(
        tv1.ApplyChatTemplateRequest(model="t", chat=prompt))
    assert "<think>Hm.</think>So.<tool_call>light{" in rendered.text


def light_tool(**properties):
    schema = {"type": "object", "properties": properties,
              "required": list(properties), "additionalProperties": False}
    return common.Tool(name="light", parameters=json.dumps(schema))


ROOM = {"$ref": "#/$defs/room"}


def held_tools():
    light = light_tool(room=ROOM, on={"type": "boolean"})
    schema = json.loads(light.parameters)
    schema["$defs"] = {"room": {"enum": ["hall", "bath"]}}
    light.parameters = json.dumps(schema)
    dim = common.Tool(name="dim", parameters=json.dumps({
        "type": "object", "properties": {"level": {"type": "integer", "minimum": 0,
                                                   "maximum": 9}},
        "required": ["level"], "additionalProperties": False}))
    return [light, dim]


def check_call(call):
    assert not call.error, call.error
    arguments = json.loads(call.arguments)
    if call.name == "light":
        assert arguments["room"] in ("hall", "bath") and arguments["on"] in (True, False)
        assert len(arguments) == 2
    else:
        assert call.name == "dim" and 0 <= arguments["level"] <= 9


@pytest.mark.parametrize("seed", range(2))
def test_a_required_call_is_as_its_schema_says(worker, seed):
    prompt = asked(tools=(), tool_choice=common.TOOL_CHOICE_REQUIRED,
                   template_arguments='{"enable_thinking": true}',
                   parallel_tool_calls=False)
    prompt.tools.extend(held_tools())
    sampling = v1.SamplingOptions(temperature=1.5, seed=seed)
    request = generate("t", chat=prompt, sampling=sampling, max_tokens=200)
    reply = worker.generation.Generate(request, timeout=CALL_SECONDS)
    for call in reply.tool_calls:
        if not call.error:
            check_call(call)
    assert len(reply.tool_calls) <= 1
    assert reply.finish_reason in (v1.FINISH_REASON_MAX_TOKENS, v1.FINISH_REASON_TOOL_CALL)


@pytest.mark.parametrize("seed", range(3))
def test_a_call_at_once_is_as_its_schema_says(plain_worker, seed):
    prompt = asked(tools=(), tool_choice=common.TOOL_CHOICE_REQUIRED)
    prompt.tools.extend(held_tools())
    sampling = v1.SamplingOptions(temperature=1.5, seed=seed)
    request = generate("p", chat=prompt, sampling=sampling, max_tokens=220)
    reply = plain_worker.generation.Generate(request, timeout=CALL_SECONDS)
    assert reply.tool_calls and not reply.text
    whole = reply.tool_calls
    if reply.finish_reason == v1.FINISH_REASON_MAX_TOKENS:
        whole = whole[:-1]  # the last one may be cut
    else:
        assert reply.finish_reason == v1.FINISH_REASON_TOOL_CALL
    for call in whole:
        check_call(call)


def test_one_tool_can_be_required(plain_worker):
    prompt = asked(tools=(), tool_choice=common.TOOL_CHOICE_REQUIRED,
                   required_tool="dim", parallel_tool_calls=False)
    prompt.tools.extend(held_tools())
    request = generate("p", chat=prompt, sampling=GREEDY, max_tokens=64)
    reply = plain_worker.generation.Generate(request, timeout=CALL_SECONDS)
    (call,) = reply.tool_calls
    check_call(call)
    assert call.name == "dim"
    prompt.required_tool = "nothing"
    request = generate("p", chat=prompt)
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as failures:
        plain_worker.generation.Generate(request, timeout=CALL_SECONDS)
    assert "required_tool" in failures[0].message


def test_a_call_that_begins_by_itself_is_held(plain_worker):
    """The mark is made likely; what follows is as the schema says."""
    (mark, *_) = plain_worker.tokenizer.Tokenize(tv1.TokenizeRequest(
        model="p", text="<tool_call>")).ids
    prompt = asked(tools=())
    prompt.tools.extend(held_tools())
    request = generate("p", chat=prompt, sampling=v1.SamplingOptions(
        temperature=0, logit_bias=[v1.LogitBias(id=mark, bias=3)]), max_tokens=100)
    reply = plain_worker.generation.Generate(request, timeout=CALL_SECONDS)
    for call in reply.tool_calls:
        if call.error != "the reply ended before the call did":
            check_call(call)


def test_an_unknown_keyword_frees_the_arguments_only(plain_worker):
    prompt = asked(tools=(), tool_choice=common.TOOL_CHOICE_REQUIRED,
                   parallel_tool_calls=False)
    prompt.tools.append(common.Tool(name="light", parameters=json.dumps({
        "type": "object", "properties": {"a": {"pattern": "\\p{L}"}}})))
    request = generate("p", chat=prompt, sampling=GREEDY, max_tokens=8)
    reply = plain_worker.generation.Generate(request, timeout=CALL_SECONDS)
    assert any("arguments are any objects" in note for note in reply.constraint_notes)


def test_marks_that_are_control_tokens_are_found_and_held(own_template):
    mark, control = 46, 3
    path = own_template("{{ messages[0].content }}[TOOL_CALLS]",
                        {mark: ("[TOOL_CALLS]", control)})
    likely = v1.SamplingOptions(
        temperature=0, logit_bias=[v1.LogitBias(id=mark, bias=100)])
    with Worker(f"--model=m={path}", "--n-ctx=512", "--slots=1") as server:
        worker = server.await_ready()
        prompt = asked(tools=(), parallel_tool_calls=False)
        prompt.tools.extend(held_tools())
        for choice in (common.TOOL_CHOICE_AUTO, common.TOOL_CHOICE_REQUIRED):
            prompt.tool_choice = choice
            request = generate("m", chat=prompt, sampling=likely, max_tokens=300)
            reply = worker.generation.Generate(request, timeout=CALL_SECONDS)
            assert [token.id for token in reply.tokens].count(mark) == 1
            assert reply.text == "" and reply.tool_calls
            for call in reply.tool_calls:
                check_call(call)
        free = asked(split_reply=False)
        request = generate("m", chat=free, sampling=likely, max_tokens=3)
        reply = worker.generation.Generate(request, timeout=CALL_SECONDS)
        assert [token.id for token in reply.tokens] == [mark] * 3
        assert reply.text == "" and not reply.tool_calls, "the marks are no text"


def test_the_command_prints_calls(thinker, tmp_path):
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps([{"name": "light"}]))
    done = plimsoll(
        "generate", "--model", str(thinker), "--prompt", "x", "--tools", str(tools),
        "--regex", re.escape(REPLY).replace("\\\n", "\\n"), "--n-ctx", "256")
    assert done.returncode == 0, done.stderr.decode()
    said, call = done.stdout.decode().splitlines()
    assert said == "Of course."
    assert json.loads(call)["arguments"] == json.loads(ARGUMENTS)
    assert b"The hall, then." in done.stderr
