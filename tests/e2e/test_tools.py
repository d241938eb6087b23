"""Tools and calls of them, with a model that has FunctionGemma's vocabulary.

The model is Gemma's own with unused tokens renamed, so its replies are forced.
"""

import json

import grpc
import pytest

from asks import GREEDY, chat, generate, stream
from command_line import at, plimsoll
from servers import CALL_SECONDS, Worker, refused
from stubs import common, generation as v1, tokenizer as tv1

INVALID = grpc.StatusCode.INVALID_ARGUMENT
FIRST = 46  # the first marker, in the order of FunctionGemma's file
MARKERS = [
    "<start_function_declaration>", "<end_function_declaration>",
    "<start_function_call>", "<end_function_call>",
    "<start_function_response>", "<end_function_response>", "<escape>",
]
CONTROL = 3
USER_DEFINED = 4  # so that a grammar can ask for them
TEMPLATE = "{{ '<start_of_turn>' }}{{ '<start_function_declaration>' }}"
CALL = (
    "<start_function_call>call:light{room:<escape>the hall<escape>}"
    "<end_function_call>"
)
ARGUMENTS = '{"room":"the hall"}'
LIGHT = {
    "name": "light",
    "description": "Turns on the light in a room <escape>",
    "parameters": {
        "type": "object",
        "properties": {"room": {"type": "string", "description": "Its name"}},
        "required": ["room"],
    },
}


@pytest.fixture(scope="module")
def tool_model(own_template):
    changes = {FIRST + i: (text, USER_DEFINED) for i, text in enumerate(MARKERS)}
    return own_template(TEMPLATE, changes)


@pytest.fixture(scope="module")
def tool_worker(tool_model):
    """Its context has 32 tokens."""
    flags = ("--max-inference-len=32", "--slots=1")
    with Worker(f"--model=fg={tool_model}", *flags) as server:
        yield server.await_ready()


@pytest.fixture(scope="module")
def wide_worker(tool_model):
    flags = ("--n-ctx=512", "--slots=1")
    with Worker(f"--model=fg={tool_model}", *flags) as server:
        yield server.await_ready()


def tool(name="light", parameters=LIGHT["parameters"]):
    return common.Tool(
        name=name, description=LIGHT["description"], parameters=json.dumps(parameters)
    )


def ids_of(server, text):
    request = tv1.TokenizeRequest(text=text, parse_special=True)
    return list(server.tokenizer.Tokenize(request, timeout=CALL_SECONDS).ids)


def gbnf(text):
    return "root ::= " + json.dumps(text)


def forced(server, text, ask=generate, **fields):
    """A request whose reply is `text`, in the tokens that it is cut into."""
    biased = {*ids_of(server, text), FIRST + 4}
    bias = [v1.LogitBias(id=i, bias=1000) for i in sorted(biased)]
    return ask(
        sampling=v1.SamplingOptions(temperature=0, logit_bias=bias),
        constraint=v1.OutputConstraint(gbnf=gbnf(text)), **fields,
    )


def reply_to(server, request):
    return server.generation.Generate(request, timeout=CALL_SECONDS)


def test_a_call_of_13_tokens_fits_in_32(tool_worker):
    reply = reply_to(tool_worker, forced(tool_worker, CALL, chat=chat("Hall light")))
    assert [t.id for t in reply.tokens][:-1] == ids_of(tool_worker, CALL)
    assert reply.usage.generated_tokens == 13 + 1
    assert reply.tokens[-1].id == FIRST + 4
    assert reply.usage.prompt_tokens + 13 <= 32
    assert reply.tool_calls == [common.ToolCall(name="light", arguments=ARGUMENTS)]
    assert reply.finish_reason == v1.FINISH_REASON_TOOL_CALL
    assert reply.text == ""
    assert reply.chat_format == "functiongemma"


def test_a_call_that_the_context_cuts_off_is_reported(tool_worker):
    prompt = chat("Please turn on the light in the hall, as it is dark")
    reply = reply_to(tool_worker, forced(tool_worker, CALL, chat=prompt))
    assert reply.finish_reason == v1.FINISH_REASON_LENGTH
    (call,) = reply.tool_calls
    assert call.error == "the reply ended before the call did"
    assert CALL.removeprefix("<start_function_call>").startswith(call.text)
    assert call.text.startswith("call:light") and not call.name


def test_declarations_too_long_for_the_context_are_refused(tool_worker):
    with refused(grpc.StatusCode.OUT_OF_RANGE, "PROMPT_TOO_LONG"):
        reply_to(tool_worker, generate(chat=chat("Hall", tools=[tool()])))


def test_a_stream_brings_each_call_when_it_is_complete(wide_worker):
    text = CALL + CALL.replace("the hall", "a\\nb")
    request = forced(
        wide_worker, text, ask=stream, chat=chat("Lights!", tools=[tool()])
    )
    parts = list(wide_worker.generation.StreamGenerate(request, timeout=CALL_SECONDS))
    with_calls = [part for part in parts if part.tool_calls]
    assert len(with_calls) == 2
    assert with_calls[0].tool_calls[0].arguments == ARGUMENTS
    assert json.loads(with_calls[1].tool_calls[0].arguments) == {"room": "a\\nb"}
    assert not parts[-1].tool_calls
    assert parts[-1].finish.finish_reason == v1.FINISH_REASON_TOOL_CALL
    assert "".join(part.text for part in parts) == ""


def test_only_the_formats_own_markers_become_tokens(wide_worker):
    request = tv1.ApplyChatTemplateRequest(
        chat=chat("<start_function_call><escape>", tools=[tool()])
    )
    prompt = wide_worker.tokenizer.ApplyChatTemplate(request, timeout=CALL_SECONDS)
    assert prompt.chat_format == "functiongemma"
    markers = [i - FIRST for i in prompt.ids if FIRST <= i < FIRST + len(MARKERS)]
    # A declaration of five strings: two of description, two of type and a name.
    assert markers == [0, *[6] * 10, 1]
    assert (
        "declaration:light{description:<escape>Turns on the light in a room "
        "<escape><escape>,parameters:{properties:{room:{description:<escape>Its "
        "name<escape>,type:<escape>STRING<escape>}},required:[<escape>room"
        "<escape>],type:<escape>OBJECT<escape>}}"
    ) in prompt.text


def test_a_prompt_that_repeats_a_call_is_what_the_model_wrote(wide_worker):
    request = forced(wide_worker, CALL, chat=chat("Hall", tools=[tool()]))
    first = reply_to(wide_worker, request)
    messages = list(request.chat.messages)
    messages.append(
        common.ChatMessage(
            role=common.CHAT_ROLE_ASSISTANT, tool_calls=first.tool_calls
        )
    )
    messages.append(
        common.ChatMessage(
            role=common.CHAT_ROLE_TOOL, tool_name="light", content='{"on":true}'
        )
    )
    again = generate(
        chat=common.ChatPrompt(messages=messages, tools=[tool()]),
        sampling=GREEDY, max_tokens=8,
    )
    second = reply_to(wide_worker, again)
    written = [*first.prompt_ids, *[t.id for t in first.tokens]]
    assert list(second.prompt_ids)[: len(written)] == written
    assert second.prompt_ids[-1] == FIRST + 5
    assert second.tokens


@pytest.mark.parametrize(
    "words, fields",
    [
        ("format gemma3 has no tools", {"chat_format": "gemma3", "tools": [tool()]}),
        ("is there twice", {"tools": [tool(), tool()]}),
        ("no name of a tool", {"tools": [tool(name="a b")]}),
        ("'properties' is not an object", {"tools": [tool(parameters={"properties": 1})]}),
    ],
)
def test_what_makes_no_sense_is_refused(wide_worker, words, fields):
    with refused(INVALID, "INVALID_FIELD") as failures:
        reply_to(wide_worker, generate(chat=chat("x", **fields)))
    assert words in failures[0].message


def test_other_models_have_no_tools(worker):
    for model in ("smollm2", "gemma3"):
        with refused(INVALID) as failures:
            reply_to(worker, generate(model, chat=chat("x", tools=[tool()])))
        assert f"format {model} has no tools" in failures[0].message
    prompt = chat("x", tools=[tool()], chat_format="functiongemma")
    with refused(INVALID) as failures:
        reply_to(worker, generate("gemma3", chat=prompt))
    assert "no markers of tools" in failures[0].message


def forced_flags(ids):
    """The flags of a reply that is the call."""
    flags = ["--temperature", "0", "--grammar", "-"]
    for token in sorted({*ids, FIRST + 4}):
        flags += ["--logit-bias", f"{token}:1000"]
    return flags


@pytest.mark.parametrize("wrapped", [False, True])
def test_the_command_prints_calls_as_lines(wide_worker, tmp_path, wrapped):
    file = tmp_path / "tools.json"
    one = {"type": "function", "function": LIGHT} if wrapped else LIGHT
    file.write_text(json.dumps([one]), encoding="utf-8")
    flags = forced_flags(ids_of(wide_worker, CALL))
    arguments = ("generate", "--tools", str(file), "--prompt", "Hall", *flags)
    done = at(wide_worker, *arguments, stdin=gbnf(CALL).encode())
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode() == f'{{"name":"light","arguments":{ARGUMENTS}}}\n'


def test_the_command_has_calls_of_its_own_model_in_json(
    wide_worker, tool_model, tmp_path
):
    file = tmp_path / "tools.json"
    file.write_text(json.dumps([LIGHT]), encoding="utf-8")
    flags = forced_flags(ids_of(wide_worker, CALL))
    done = plimsoll(
        "generate", "--model", str(tool_model), "--n-ctx", "256", "--prompt", "Hall",
        "--tools", str(file), *flags, "-o", "json", stdin=gbnf(CALL).encode(),
    )
    assert done.returncode == 0, done.stderr.decode()
    reply = json.loads(done.stdout)
    assert reply["tool_calls"] == [{"name": "light", "arguments": ARGUMENTS}]
    assert reply["finish_reason"] == "FINISH_REASON_TOOL_CALL"
    assert reply["text"] == ""


# Arguments that are short, however the model writes them.
ROOMS = {
    "type": "object",
    "properties": {"room": {"enum": ["the hall", "attic"]}, "on": {"type": "boolean"}},
    "required": ["room", "on"],
}


def held(**fields):
    """A conversation with such a tool, whose reply has at most one call."""
    tools = [tool(parameters=ROOMS)]
    return chat("Hall", tools=tools, parallel_tool_calls=False, **fields)


@pytest.fixture(scope="module", params=[CONTROL, USER_DEFINED])
def any_markers(request, own_template):
    """A worker whose model has the markers as tokens of either type."""
    if request.param == USER_DEFINED:
        yield request.getfixturevalue("wide_worker")
        return
    changes = {FIRST + i: (text, CONTROL) for i, text in enumerate(MARKERS)}
    model = own_template(TEMPLATE, changes)
    with Worker(f"--model=fg={model}", "--n-ctx=512", "--slots=1") as server:
        yield server.await_ready()


def test_a_required_call_is_the_reply(any_markers):
    prompt = held(tool_choice=common.TOOL_CHOICE_REQUIRED)
    request = generate(chat=prompt, sampling=GREEDY, max_tokens=200)
    reply = reply_to(any_markers, request)
    assert FIRST + 2 not in reply.prompt_ids
    (call,) = reply.tool_calls
    assert call.name == "light" and not call.error
    arguments = json.loads(call.arguments)
    assert list(arguments) == ["on", "room"]
    assert arguments["room"] in ("the hall", "attic")
    assert reply.finish_reason == v1.FINISH_REASON_TOOL_CALL
    assert reply.text == ""


def test_a_required_tool_is_the_one_that_is_called(any_markers):
    for name in ("light", "heat"):
        prompt = held(tool_choice=common.TOOL_CHOICE_REQUIRED, required_tool=name)
        prompt.tools.add(name="heat", parameters='{"type":"object","properties":{}}')
        request = generate(chat=prompt, sampling=GREEDY, max_tokens=200)
        (call,) = reply_to(any_markers, request).tool_calls
        assert call.name == name and not call.error


def test_a_call_that_the_model_begins_is_held_to_its_tool(any_markers):
    begins = v1.SamplingOptions(
        temperature=0, logit_bias=[v1.LogitBias(id=FIRST + 2, bias=1000)]
    )
    request = stream(chat=held(), sampling=begins, max_tokens=200)
    parts = list(any_markers.generation.StreamGenerate(request, timeout=CALL_SECONDS))
    (call,) = [call for part in parts for call in part.tool_calls]
    assert call.name == "light" and not call.error
    assert list(json.loads(call.arguments)) == ["on", "room"]
    assert "".join(part.text for part in parts) == ""
    assert not any(part.tool_call_deltas for part in parts)
    assert parts[-1].finish.finish_reason == v1.FINISH_REASON_TOOL_CALL


def test_the_command_requires_a_call(any_markers, tmp_path):
    file = tmp_path / "tools.json"
    tools = [{**LIGHT, "parameters": ROOMS}]
    file.write_text(json.dumps(tools), encoding="utf-8")
    done = at(
        any_markers, "generate", "--tools", str(file), "--must-call",
        "--prompt", "Hall", "--temperature", "0", "--max-tokens", "300",
    )
    assert done.returncode == 0, done.stderr.decode()
    call = json.loads(done.stdout.decode().splitlines()[0])
    assert call["name"] == "light" and list(call["arguments"]) == ["on", "room"]
