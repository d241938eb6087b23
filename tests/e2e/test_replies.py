"""Replies that are split into reasoning, answer and calls of tools.

The model is Gemma's with another template, so its replies are forced.
"""

import json
import re

import pytest

from asks import GREEDY, chat, generate, stream
from command_line import plimsoll
from gguf_header import with_changed_vocabulary
from servers import CALL_SECONDS, Worker
from stubs import common, generation as v1, tokenizer as tv1

TEMPLATE = """{%- for message in messages %}
    {{- '[' ~ message.role ~ '] ' }}
    {%- if message.reasoning_content %}{{ '<think>' ~ message.reasoning_content ~ '</think>' }}{% endif %}
    {{- message.content }}
    {%- for call in message.tool_calls %}
        {{- '<tool_call>' ~ call.function.name ~ call.function.arguments | tojson ~ '</tool_call>' }}
    {%- endfor %}
{% endfor %}
{%- for tool in tools %}{{ tool.function.name }}{% endfor %}
{%- if add_generation_prompt %}[model] {% if enable_thinking %}<think>{% endif %}{% endif %}"""
CALL = '<tool_call>\n{"name": "light", "arguments": {"room": "hall", "on": true}}\n</tool_call>'
REPLY = f"<think>\nThe hall, then.\n</think>\n\nOf course.\n{CALL}"
ARGUMENTS = '{"room":"hall","on":true}'


@pytest.fixture(scope="module")
def thinker(gemma3, tmp_path_factory):
    path = tmp_path_factory.mktemp("replies") / "thinker.gguf"
    with_changed_vocabulary(gemma3, path, {}, TEMPLATE)
    yield path
    path.unlink()


@pytest.fixture(scope="module")
def worker(thinker):
    with Worker(f"--model=t={thinker}", "--n-ctx=256", "--slots=1") as server:
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
