"""Sessions that render the whole chat for each message.

The model is Gemma's with templates that cannot be cut into turns: they leave the
reasoning of earlier turns out, as those of most models that think do.
"""

import itertools
import json
import re

import grpc
import pytest

from asks import GREEDY, generate
from command_line import at, plimsoll
from servers import CALL_SECONDS, Worker, nightly, refused
from stubs import common, generation as v1, session as sv1

TEMPLATE = """{%- set ns = namespace(last=-1) %}
{%- for message in messages if message.role == 'user' %}
    {%- set ns.last = loop.index0 %}
{%- endfor %}
{%- set users = namespace(n=-1) %}
{%- for tool in tools or [] %}{{ tool.function.name }}{{ '\\n' }}{% endfor %}
{%- for message in messages %}
    {%- if message.role == 'user' %}{% set users.n = users.n + 1 %}{% endif %}
    {{- '<start_of' ~ '_turn>' ~ message.role ~ '\\n' }}
    {%- if message.reasoning_content and users.n == ns.last %}
        {{- '<think>' ~ message.reasoning_content ~ '</think>' }}
    {%- endif %}
    {{- message.content }}
    {%- for call in message.tool_calls %}
        {{- '<tool_call>' ~ call.function.name ~ call.function.arguments | tojson ~ '</tool_call>' }}
    {%- endfor %}
    {{- '<end_of' ~ '_turn>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<start_of' ~ '_turn>model\\n' }}
    {%- if enable_thinking is not false %}{{ '<think>' }}{% endif %}
{%- endif %}"""
CALL = '<tool_call>\n{"name": "light", "arguments": {"room": "hall"}}\n</tool_call>'
PARAMETERS = json.dumps({"type": "object", "required": ["room"],
                         "properties": {"room": {"enum": ["hall"]}}})
N_CTX, EVICT_TO = 768, 512
SYSTEM = "You are a lighthouse keeper."
strangers = itertools.count()


@pytest.fixture(scope="module")
def thinker(own_template):
    return own_template(TEMPLATE)


@pytest.fixture(
    scope="module",
    params=[pytest.param(False, marks=nightly, id="alone"),
            pytest.param(True, id="snapshots")],
)
def keeps_snapshots(request):
    """Whether prompts can share what rings of sliding windows hold."""
    return request.param


@pytest.fixture(scope="module")
def worker(thinker, keeps_snapshots):
    more = ["--idle-sessions=4"] if keeps_snapshots else []
    with Worker(f"--model=t={thinker}", f"--n-ctx={N_CTX}", "--slots=3", *more) as server:
        yield server.await_ready()


@pytest.fixture
def opened(worker):
    """Opens sessions that are closed in the end."""
    ids = []

    def open_session(**fields):
        request = sv1.OpenSessionRequest(model="t", **fields)
        ids.append(worker.sessions.OpenSession(request, timeout=CALL_SECONDS).session)
        return ids[-1]

    yield open_session
    for one in ids:
        worker.sessions.CloseSession(
            sv1.CloseSessionRequest(model="t", session_id=one.session_id))


def stopping(fields):
    limits = {name: fields.pop(name) for name in
              ("max_tokens", "max_reasoning_tokens", "ignore_eos") if name in fields}
    return v1.StoppingOptions(**{"max_tokens": 12, **limits})


def say(worker, opened, message="", **fields):
    request = sv1.ChatRequest(
        model="t", session_id=opened.session_id, message=message, sampling=GREEDY,
        stopping=stopping(fields), response=v1.ResponseOptions(top_logprobs=0), **fields)
    whole = v1.GenerateResponse()
    for part in worker.sessions.Chat(request, timeout=CALL_SECONDS):
        whole.prompt_ids.extend(part.prompt.prompt_ids)
        whole.text += part.text
        whole.reasoning += part.reasoning
        whole.tokens.extend(part.tokens)
        whole.tool_calls.extend(part.tool_calls)
        whole.evictions.extend(part.evictions)
        if part.HasField("finish"):
            whole.finish_reason = part.finish.finish_reason
            whole.usage.CopyFrom(part.finish.usage)
    return whole


def fresh(worker, messages, arguments="", tools=(), **fields):
    """The reply to a whole conversation, for a tenant who has computed nothing."""
    request = generate(
        "t", sampling=GREEDY, stopping=stopping(fields),
        response=v1.ResponseOptions(top_logprobs=0),
        chat=common.ChatPrompt(messages=messages, template_arguments=arguments,
                               tools=tools), **fields)
    return worker.generation.Generate(
        request, timeout=CALL_SECONDS,
        metadata=[("x-tenant", f"stranger-{next(strangers)}")])


def same(reply, expected):
    assert list(reply.prompt_ids) == list(expected.prompt_ids)
    assert list(reply.tokens) == list(expected.tokens)
    assert (reply.reasoning, reply.text) == (expected.reasoning, expected.text)


def user(content):
    return common.ChatMessage(role=common.CHAT_ROLE_USER, content=content)


def assistant(reply):
    return common.ChatMessage(
        role=common.CHAT_ROLE_ASSISTANT, content=reply.text, reasoning=reply.reasoning,
        tool_calls=reply.tool_calls)


def test_each_reply_is_that_of_the_whole_conversation(worker, opened, keeps_snapshots):
    session = opened(system=SYSTEM, evict_to=EVICT_TO)
    assert session.chat_format == "template"
    assert "cannot be cut" in session.recompute_reason
    first = common.ChatMessage(role=common.CHAT_ROLE_SYSTEM, content=SYSTEM)
    turns, n_left, n_evictions, n_cached = [], 0, 0, 0
    for i in range(12):
        question = user(f"What do you see at {i} o'clock, and what do you hear? " * 8)
        reply = say(worker, session, question.content, max_reasoning_tokens=4)
        for eviction in reply.evictions:
            assert eviction.method == v1.ROLL_METHOD_RECOMPUTE
            assert eviction.kept_tokens == len(reply.prompt_ids) <= EVICT_TO
            n_left += eviction.turns
            n_evictions += 1
        kept = [message for turn in turns[n_left:] for message in turn]
        same(reply, fresh(worker, [first, *kept, question], max_reasoning_tokens=4))
        turns.append([question, assistant(reply)])
        n_cached += reply.usage.cached_tokens
    assert n_evictions >= 2
    # The context is longer than the windows of the model's layers.
    assert bool(n_cached) == keeps_snapshots
    info = worker.sessions.GetSession(
        sv1.GetSessionRequest(model="t", session_id=session.session_id)).session
    assert info.turns == 12 and info.live_turns == 12 - n_left
    assert info.evictions == n_evictions and info.live_tokens <= N_CTX


def test_reasoning_is_split_and_has_a_limit(worker, opened):
    session = opened()
    free = say(worker, session, "Is the sea salty?", ignore_eos=True)
    assert free.reasoning and not free.text
    limited = say(worker, opened(), "Is the sea salty?", ignore_eos=True,
                  max_tokens=24, max_reasoning_tokens=5)
    assert free.reasoning.startswith(limited.reasoning)
    assert limited.text and "</think>" not in limited.text


def test_a_template_has_arguments(worker, opened):
    arguments = '{"enable_thinking": false}'
    session = opened(template_arguments=arguments)
    assert session.recompute_reason == "it has template_arguments"
    reply = say(worker, session, "Is the sea salty?")
    assert reply.text and not reply.reasoning
    same(reply, fresh(worker, [user("Is the sea salty?")], arguments))
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as failures:
        opened(template_arguments="{")
    assert "template_arguments" in failures[0].message


def test_tools_are_called_and_respond(worker, opened):
    tools = [common.Tool(name="light", parameters=PARAMETERS)]
    arguments = '{"enable_thinking": false}'
    session = opened(tools=tools, template_arguments=arguments)
    assert session.recompute_reason == "it has tools"
    called = say(worker, session, "Light, please.", max_tokens=64,
                 tool_choice=common.TOOL_CHOICE_REQUIRED, parallel_tool_calls=False)
    (call,) = called.tool_calls
    assert (call.name, json.loads(call.arguments)) == ("light", {"room": "hall"})
    assert called.finish_reason == v1.FINISH_REASON_TOOL_CALL
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as failures:
        say(worker, session, tool_responses=[sv1.ToolResponse(tool_name="other")])
    assert "tool_name" in failures[0].message
    response = sv1.ToolResponse(tool_name="light", content='{"done": true}')
    done = v1.OutputConstraint(regex="Done[.]")  # and no further call
    reply = say(worker, session, tool_responses=[response], constraint=done)
    messages = [
        user("Light, please."), assistant(called),
        common.ChatMessage(role=common.CHAT_ROLE_TOOL, tool_name="light",
                           content=response.content)]
    same(reply, fresh(worker, messages, arguments, tools, constraint=done))
    # The next message begins a turn of its own.
    more = say(worker, session, "Thank you.")
    messages += [assistant(reply), user("Thank you.")]
    same(more, fresh(worker, messages, arguments, tools))


def test_forced_parts_go_into_the_chat_as_what_they_are(worker, opened):
    session = opened(tools=[common.Tool(name="light", parameters=PARAMETERS)])
    said = "\nThe hall, then.\n</think>\n\nOf course.\n" + CALL
    forced = v1.OutputConstraint(regex=re.escape(said).replace("\\\n", "\\n"))
    reply = say(worker, session, "Light!", max_tokens=100, constraint=forced)
    assert (reply.reasoning, reply.text) == ("The hall, then.", "Of course.")
    assert reply.finish_reason == v1.FINISH_REASON_TOOL_CALL


def test_a_cancelled_reply_is_part_of_the_chat(worker, opened):
    session = opened()
    request = sv1.ChatRequest(
        model="t", session_id=session.session_id, message="Tell me a long story.",
        sampling=GREEDY, stopping=v1.StoppingOptions(ignore_eos=True))
    call = worker.sessions.Chat(request, timeout=CALL_SECONDS)
    next(call)
    call.cancel()
    question = sv1.GetSessionRequest(model="t", session_id=session.session_id)
    while worker.sessions.GetSession(question).session.busy:
        pass
    reply = say(worker, session, "Go on.")
    assert len(reply.prompt_ids) > 20
    assert worker.sessions.GetSession(question).session.turns == 2


def test_the_terminal_chat_says_so_and_takes_turns_back(worker, thinker):
    lines = "Hello.\nIs the sea salty?\n/regenerate\n/undo\nName a city.\n"
    flags = ("--temperature", "0", "--max-tokens", "12", "--system", SYSTEM)
    here = plimsoll("chat", "--model", str(thinker), "--n-ctx", str(N_CTX), *flags,
                    stdin=lines.encode())
    assert here.returncode == 0, here.stderr.decode()
    assert b"each message renders the whole chat again" in here.stderr
    assert here.stderr.count(b"cannot be cut") == 1
    there = at(worker, "chat", "--model", "t", *flags, stdin=lines.encode())
    assert there.stdout == here.stdout, there.stderr.decode()
