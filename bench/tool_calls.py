#!/usr/bin/env python3
"""Do calls of tools parse and fit their schemas, however hot the sampling is?

Gives copies of MODEL the chat templates of all forms in which models write
calls, with marks that are text and with marks that are control tokens. Draws
replies that must have a call, at a high temperature, and checks each call with
the package `jsonschema`. Prints, for each form, the replies, the calls, those
that are wrong, and the replies that the limit of tokens cut off.

Needs the packages of tests/e2e/requirements.txt, and jsonschema. The marks that
are control tokens take the places of tokens 6 and after, which gemma-3-270m and
SmolLM2-135M do not use.

usage: PLIMSOLL_BUILD=build/release tool_calls.py [--replies N] MODEL
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import sys
import tempfile
import time

import jsonschema

sys.path.append(str(pathlib.Path(__file__).parents[1] / "tests" / "e2e"))

from asks import chat, generate  # noqa: E402
from gguf_header import with_changed_vocabulary  # noqa: E402
from servers import Worker  # noqa: E402
from stubs import common, generation as v1  # noqa: E402

CONTROL = 3  # a type of token
FIRST_UNUSED = 6  # the id of Gemma's <unused0>
CUT = "the reply ended before the call did"
N_SLOTS = 8
MAX_TOKENS = 400

# What a template has that writes calls in a form, and its marks.
FORMS = {
    "Qwen, Hermes": ["<tool_call>", "</tool_call>"],
    "Nemotron": ["<TOOLCALL>", "</TOOLCALL>"],
    "Command R7B": ["<|START_ACTION|>", "<|END_ACTION|>"],
    "Mistral": ["[TOOL_CALLS]", "[ARGS]"],
    "Mistral, with ids": ["[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"],
    "Mistral, list": ["[TOOL_CALLS]"],
    "Granite": ["<|tool_call|>"],
    "gpt-oss": ["<|channel|>", "<|message|>", "<|end|>", "<|start|>",
                "<|constrain|>", "<|call|>"],
    "DeepSeek": ["<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>",
                 "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"],
    "Kimi": ["<|tool_calls_section_begin|>", "<|tool_calls_section_end|>",
             "<|tool_call_begin|>", "<|tool_call_end|>",
             "<|tool_call_argument_begin|>"],
    "Qwen Coder": ["<tool_call>", "</tool_call>", "<function="],
    "GLM": ["<tool_call>", "</tool_call>", "<arg_key>"],
    "Gemma 4": ["<|tool_call>", "<tool_call|>", "<|\"|>"],
    "LFM2": ["<|tool_call_start|>", "<|tool_call_end|>"],
    "Llama 3": ["<|python_tag|>"],
}
# Signs that are no tokens of their own.
NO_MARKS = {"<function=", "<arg_key>"}

TEXT = {"type": "string", "maxLength": 40}
TOOLS = {
    "set_light": {"type": "object", "properties": {
        "room": {"enum": ["hall", "attic", "bath"]},
        "level": {"type": "integer", "minimum": 0, "maximum": 100},
        "fade": {"type": "boolean"}}, "required": ["room", "level"]},
    "send_mail": {"type": "object", "properties": {
        "to": {"type": "array", "items": TEXT, "minItems": 1, "maxItems": 3},
        "subject": TEXT,
        "options": {"type": "object", "properties": {
            "urgent": {"type": "boolean"},
            "delay": {"type": "number", "minimum": 0, "maximum": 60},
            "copy": {"anyOf": [TEXT, {"type": "null"}]}},
            "required": ["urgent"], "additionalProperties": False}},
        "required": ["to", "subject"]},
    "find": {"type": "object", "properties": {
        "query": TEXT,
        "kind": {"type": "string", "enum": ["file", "page"]},
        "since": {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}},
        "required": ["query"]},
    "stop": {"type": "object", "properties": {}},
}
ASKED = ["Make it dark in the attic.", "Write to Ann that we are late.",
         "Where is the page about tides?", "That is enough.",
         "Find the <b>file</b> and mail it, please.", "Ein Licht im Flur!"]


def template_of(marks):
    """Shows the last message and the tools; the marks stand where none is read."""
    signs = "".join(mark for mark in marks)
    return ("{{ messages[-1].content }}\n{{ tools | tojson }}\n"
            "{% if false %}" + signs + "{% endif %}")


def request_of(number, temperature):
    prompt = chat(ASKED[number % len(ASKED)])
    for name, schema in TOOLS.items():
        prompt.tools.append(common.Tool(name=name, parameters=json.dumps(schema)))
    prompt.tool_choice = common.TOOL_CHOICE_REQUIRED
    prompt.parallel_tool_calls = number % 8 == 0
    sampling = v1.SamplingOptions(temperature=temperature, top_k=0, top_p=1,
                                  min_p=0, seed=number)
    return generate("m", chat=prompt, sampling=sampling, max_tokens=MAX_TOKENS)


def why_wrong(call):
    """Empty if a call fits its tool."""
    if call.error:
        return call.error
    if call.name not in TOOLS:
        return f"there is no tool {call.name}"
    try:
        arguments = json.loads(call.arguments)
        jsonschema.validate(arguments, TOOLS[call.name],
                            cls=jsonschema.Draft202012Validator)
    except (ValueError, jsonschema.ValidationError) as error:
        return str(error).splitlines()[0]
    unknown = set(arguments) - set(TOOLS[call.name]["properties"])
    return f"arguments that are not listed: {unknown}" if unknown else ""


def measure(worker, numbers, temperature):
    """Replies, calls, the wrong ones with their reasons, and cut replies."""
    def one(number):
        return worker.generation.Generate(request_of(number, temperature))

    calls, wrong, n_cut = 0, [], 0
    with concurrent.futures.ThreadPoolExecutor(N_SLOTS) as pool:
        for reply in pool.map(one, numbers):
            is_cut = reply.finish_reason == v1.FINISH_REASON_MAX_TOKENS
            found = list(reply.tool_calls)
            # Without a mark at its end, what was cut is a call with an error.
            if is_cut and found and found[-1].error:
                found.pop()
            n_cut += is_cut
            calls += len(found)
            reasons = [why_wrong(call) for call in found]
            wrong += [f"{why}: {call.text or call.arguments}"
                      for why, call in zip(reasons, found) if why]
            if not is_cut and not found:
                wrong.append(f"no call in: {reply.text}")
    return calls, wrong, n_cut


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replies", type=int, default=1000)
    parser.add_argument("--temperature", type=float, default=1.5)
    parser.add_argument("model")
    args = parser.parse_args()
    per_case = -(-args.replies // (2 * len(FORMS)))
    print(f"{os.path.basename(args.model)}, temperature {args.temperature}")
    print(f"{'form':<20} {'marks':<8} {'replies':>7} {'calls':>6} {'wrong':>6}"
          f" {'cut':>4} {'s':>6}")
    n_replies = n_calls = n_wrong = 0
    for name, marks in FORMS.items():
        for is_control in (False, True):
            tokens = {FIRST_UNUSED + i: (mark, CONTROL)
                      for i, mark in enumerate(marks) if mark not in NO_MARKS}
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / "model.gguf"
                with_changed_vocabulary(args.model, path,
                                        tokens if is_control else {},
                                        template_of(marks))
                begin = time.monotonic()
                with Worker(f"--model=m={path}", "--n-ctx=1024",
                            f"--slots={N_SLOTS}") as server:
                    first = n_replies
                    calls, wrong, n_cut = measure(
                        server.await_ready(), range(first, first + per_case),
                        args.temperature)
            kind = "control" if is_control else "text"
            print(f"{name:<20} {kind:<8} {per_case:>7} {calls:>6}"
                  f" {len(wrong):>6} {n_cut:>4}"
                  f" {time.monotonic() - begin:>6.1f}", flush=True)
            for why in wrong[:3]:
                print(f"    {why[:200]!r}")
            n_replies += per_case
            n_calls += calls
            n_wrong += len(wrong)
    print(f"{n_replies} replies, {n_calls} calls, {n_wrong} wrong")
    return 1 if n_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
