"""Replies of a given form: JSON by a schema, a grammar, a regular expression."""

import json
import re

import grpc
import pytest

from asks import GREEDY, chat, generate, stream, text
from command_line import at, plimsoll
from servers import CALL_SECONDS, refused
from stubs import generation as v1, session as sv1

INVALID = grpc.StatusCode.INVALID_ARGUMENT
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 24},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "languages": {
            "type": "array",
            "items": {"enum": ["English", "French", "Spanish"]},
            "minItems": 1,
            "maxItems": 3,
        },
        "note": {"type": ["string", "null"], "maxLength": 16},
    },
    "required": ["name", "age", "languages"],
    "additionalProperties": False,
}
QUESTION = "Describe a person: name, age and the languages that they speak, as JSON."


def constrained(**kind):
    return v1.OutputConstraint(**kind)


def ask(server, prompt=QUESTION, model="smollm2", sampling=GREEDY, **kind):
    request = generate(
        model, chat=chat(prompt), sampling=sampling, max_tokens=250,
        constraint=constrained(**kind),
    )
    return server.generation.Generate(request, timeout=CALL_SECONDS)


def check_person(reply):
    assert reply.finish_reason == v1.FINISH_REASON_END_TOKEN, reply.text
    person = json.loads(reply.text)
    assert set(PERSON["required"]) <= set(person) <= set(PERSON["properties"])
    assert list(person) == [k for k in PERSON["properties"] if k in person]
    assert 1 <= len(person["name"]) <= 24
    assert isinstance(person["age"], int) and 0 <= person["age"] <= 120
    assert 1 <= len(person["languages"]) <= 3
    assert set(person["languages"]) <= {"English", "French", "Spanish"}
    assert person.get("note") is None or len(person["note"]) <= 16


@pytest.mark.parametrize(
    "sampling",
    [
        GREEDY,
        v1.SamplingOptions(temperature=1.0, seed=3),
        v1.SamplingOptions(temperature=1.3, top_k=0, top_p=1, min_p=0, seed=4),
        v1.SamplingOptions(temperature=0.8, seed=5, repetition_penalty=1.1),
    ],
)
def test_json_is_what_its_schema_says(worker, any_model, sampling):
    check_person(
        ask(worker, model=any_model, sampling=sampling, json_schema=json.dumps(PERSON))
    )


def test_a_model_says_what_it_means_in_the_form_given(worker):
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}},
        "required": ["city"],
        "additionalProperties": False,
    }
    reply = ask(
        worker, "What is the capital of France? Answer as JSON.",
        json_schema=json.dumps(schema),
    )
    assert json.loads(reply.text) == {"city": "Paris"}


def test_a_regular_expression_matches_the_whole_reply(worker):
    pattern = r"(19|20)\d{2}-(0[1-9]|1[0-2])"
    reply = ask(worker, "When did the war end? Year and month.", regex=pattern)
    assert re.fullmatch(pattern, reply.text)
    assert reply.finish_reason == v1.FINISH_REASON_END_TOKEN


def test_a_pattern_that_matches_in_many_ways_holds_to_the_end(worker):
    pattern = "(([a-z ]{1,40}[,.])|([a-z ,.]{2,80})){1,40}"
    request = generate(
        "smollm2", text=text("Once upon a time"), sampling=GREEDY, max_tokens=120,
        constraint=constrained(regex=pattern),
    )
    reply = worker.generation.Generate(request, timeout=CALL_SECONDS)
    assert reply.usage.generated_tokens == 120 or (
        reply.finish_reason == v1.FINISH_REASON_END_TOKEN
    )
    assert re.fullmatch("[a-z ,.]+", reply.text)


def test_a_grammar_accepts_the_reply(worker):
    grammar = """
        # One word, perhaps doubled.
        root ::= answer (", " answer)?
        answer ::= "yes" | "no" | "é"+
    """
    reply = ask(worker, "Is the sea salty?", gbnf=grammar)
    assert re.fullmatch("(yes|no|é+)(, (yes|no|é+))?", reply.text)


def test_a_stream_is_constrained_as_well(worker):
    request = stream(
        "smollm2", chat=chat(QUESTION), sampling=GREEDY, max_tokens=250,
        constraint=constrained(json_schema=json.dumps(PERSON)),
    )
    parts = worker.generation.StreamGenerate(request, timeout=CALL_SECONDS)
    streamed = "".join(part.text for part in parts)
    assert streamed == ask(worker, json_schema=json.dumps(PERSON)).text


def test_each_reply_of_a_session_has_its_own_form(worker):
    opened = worker.sessions.OpenSession(
        sv1.OpenSessionRequest(model="smollm2"), timeout=CALL_SECONDS
    ).session

    def say(message, **kind):
        request = sv1.ChatRequest(
            model="smollm2", session_id=opened.session_id, message=message,
            sampling=GREEDY, stopping=v1.StoppingOptions(max_tokens=250),
        )
        if kind:
            request.constraint.CopyFrom(constrained(**kind))
        return "".join(
            part.text for part in worker.sessions.Chat(request, timeout=CALL_SECONDS)
        )

    try:
        assert set(json.loads(say(QUESTION, json_schema=json.dumps(PERSON))))
        assert re.fullmatch("yes|no", say("Is that a person?", regex="yes|no"))
        with refused(INVALID):
            say("And?", regex="(")
        assert say("Why?")
    finally:
        close = sv1.CloseSessionRequest(model="smollm2", session_id=opened.session_id)
        worker.sessions.CloseSession(close, timeout=CALL_SECONDS)


def test_log_probabilities_stay_those_of_the_model(worker):
    fields = {
        "text": text("The answer is"), "sampling": GREEDY,
        "response": v1.ResponseOptions(top_logprobs=3), "max_tokens": 1,
    }
    free = worker.generation.Generate(
        generate("smollm2", **fields), timeout=CALL_SECONDS
    ).tokens[0]
    bound = worker.generation.Generate(
        generate("smollm2", **fields, constraint=constrained(regex="[0-9]+")),
        timeout=CALL_SECONDS,
    ).tokens[0]
    assert bound.candidates == free.candidates
    assert bound.id != free.id and bound.rank > 1
    assert bound.logprob < free.logprob


DEEP = '{"items":' * 7000 + "{}" + "}" * 7000
WRONG = [
    ("not JSON", {"json_schema": '{"type":'}),
    ("'uniqueItems'", {"json_schema": '{"properties":{"a":{"uniqueItems":true}}}'}),
    ("can never end", {"json_schema": '{"$ref":"#"}'}),
    ("can never end", {"json_schema": '{"type":"array","items":{"$ref":"#"},"minItems":1}'}),
    ("at most 65536", {"json_schema": DEEP}),
    ("nested more than 64 deep", {"json_schema": "[" * 10000}),
    ("look-ahead", {"regex": "a(?=b)"}),
    ("is not closed", {"regex": "(a"}),
    ("is not defined", {"gbnf": "root ::= a"}),
    ("begins with itself", {"gbnf": 'root ::= root "a" | "b"'}),
    ("no json_schema, gbnf or regex", {}),
]


@pytest.mark.parametrize("words, kind", WRONG)
def test_what_cannot_be_is_refused_by_name(worker, words, kind):
    with refused(INVALID, "INVALID_FIELD") as failures:
        ask(worker, **kind)
    assert words in failures[0].message
    assert "constraint" in failures[0].message


def test_what_is_refused_leaves_others_alone(worker):
    request = stream(
        "smollm2", text=text("Once upon a time"), sampling=GREEDY, max_tokens=40
    )
    alone = "".join(
        part.text for part in worker.generation.StreamGenerate(request, timeout=CALL_SECONDS)
    )
    call = worker.generation.StreamGenerate(request, timeout=CALL_SECONDS)
    parts = [next(call).text]
    for _, kind in WRONG:
        with refused(INVALID):
            ask(worker, **kind)
    parts += [part.text for part in call]
    assert "".join(parts) == alone


def test_the_command_takes_a_schema_from_a_file(worker, tmp_path):
    schema = tmp_path / "person.json"
    schema.write_text(json.dumps(PERSON), encoding="utf-8")
    done = at(
        worker, "generate", "--model", "smollm2", "--prompt", QUESTION,
        "--temperature", "0", "--max-tokens", "250", "--json-schema", str(schema),
    )
    assert done.returncode == 0, done.stderr.decode()
    expected = ask(worker, json_schema=json.dumps(PERSON)).text
    assert done.stdout.decode() == expected + "\n"


def test_the_command_holds_its_own_model_to_a_form(smollm2):
    done = plimsoll(
        "generate", "--model", str(smollm2), "--prompt", "Is the sea salty?",
        "--n-ctx", "256", "--temperature", "0", "--grammar", "-",
        stdin=b'root ::= "yes" | "no"',
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode() in ("yes\n", "no\n")


def test_the_command_refuses_a_wrong_pattern_before_it_loads(smollm2):
    done = plimsoll(
        "generate", "--model", str(smollm2), "--prompt", "x", "--regex", "a**?"
    )
    assert done.returncode == 1
    assert "constraint.regex: at byte" in done.stderr.decode()


def test_a_command_checks_texts_without_a_model(tmp_path):
    schema = tmp_path / "person.json"
    schema.write_text(json.dumps(PERSON | {"x-made-by": "hand"}), encoding="utf-8")
    texts = tmp_path / "texts.jsonl"
    person = {"languages": ["French"], "age": 40, "name": "Zoé"}
    texts.write_text(
        json.dumps({"text": json.dumps(person)}) + "\n"
        + json.dumps({"text": '{"name":"x","age":400}'}) + "\n",
        encoding="utf-8",
    )
    done = plimsoll("constraint", "--json-schema", str(schema), "--check", str(texts))
    assert done.returncode == 0, done.stderr.decode()
    first, second = map(json.loads, done.stdout.splitlines())
    assert first["accepted"] and not second["accepted"] and second["at"] == 18
    assert "It compiles: " in done.stderr.decode()
    assert "'x-made-by' is not known" in done.stderr.decode()
    done = plimsoll("constraint", "--regex", "(a")
    assert done.returncode == 1
    assert "constraint.regex: at byte 2" in done.stderr.decode()


def test_the_command_takes_one_form_only():
    done = plimsoll(
        "generate", "--model", "x", "--prompt", "x", "--regex", "a", "--grammar", "b"
    )
    assert done.returncode == 2
    assert "give one of" in done.stderr.decode()
