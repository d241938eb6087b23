"""OpenAI's own client against `plimsoll serve` with a real model."""

import http.client
import json
import subprocess
import threading

import openai
import pydantic
import pytest

from command_line import parsed, plimsoll
from conftest import N_CTX
from servers import CALL_SECONDS, START_SECONDS, Front, binary, until

MODEL = "SmolLM2-135M-Instruct.Q4_1"
QUESTION = [{"role": "user", "content": "Name three colours."}]
GREEDY = {"model": MODEL, "temperature": 0, "max_tokens": 24}


def client_of(server, **options):
    """A client that repeats nothing, so that tests see each error."""
    options = {"max_retries": 0, "timeout": CALL_SECONDS, **options}
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", **options)


@pytest.fixture(scope="module")
def client(front):
    return client_of(front)


def request(front, method, path, body=None, **headers):
    """Status and body of a bare request."""
    connection = http.client.HTTPConnection(front.address, timeout=CALL_SECONDS)
    try:
        connection.request(method, path, body, headers)
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


def test_models_are_listed(client):
    (model,) = client.models.list().data
    assert model.id == MODEL
    assert model.max_model_len == N_CTX
    assert client.models.retrieve(MODEL).id == MODEL
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nothing")


def test_a_chat_says_what_the_command_says(client):
    flags = ("--prompt", QUESTION[0]["content"], "--temperature", "0")
    flags += ("--max-tokens", "24", "--n-ctx", str(N_CTX), "-o", "json")
    expected = parsed(plimsoll("generate", "--model", MODEL, *flags))
    reply = client.chat.completions.create(messages=QUESTION, **GREEDY)
    assert reply.choices[0].message.content == expected["text"]
    assert reply.usage.prompt_tokens == expected["usage"]["prompt_tokens"]
    assert reply.usage.completion_tokens == 24
    assert reply.choices[0].finish_reason == "length"


def test_a_stream_has_the_same_text_and_its_usage(client):
    whole = client.chat.completions.create(messages=QUESTION, **GREEDY)
    parts = list(
        client.chat.completions.create(
            messages=QUESTION,
            stream=True,
            stream_options={"include_usage": True},
            **GREEDY,
        )
    )
    texts = [c.delta.content or "" for part in parts for c in part.choices]
    assert "".join(texts) == whole.choices[0].message.content
    assert parts[0].choices[0].delta.role == "assistant"
    assert parts[-2].choices[0].finish_reason == "length"
    assert parts[-1].choices == []
    assert parts[-1].usage.total_tokens == whole.usage.total_tokens
    assert len({part.id for part in parts}) == 1


def test_replies_and_seeds(client):
    options = {**GREEDY, "temperature": 1.0, "seed": 5, "n": 3}
    first = client.chat.completions.create(messages=QUESTION, **options)
    again = client.chat.completions.create(messages=QUESTION, **options)
    texts = [choice.message.content for choice in first.choices]
    assert len(set(texts)) == 3
    assert texts == [choice.message.content for choice in again.choices]


def test_log_probabilities(client):
    reply = client.chat.completions.create(
        messages=QUESTION, logprobs=True, top_logprobs=2, **GREEDY
    )
    content = reply.choices[0].logprobs.content
    text = b"".join(bytes(token.bytes) for token in content).decode()
    assert text == reply.choices[0].message.content
    for token in content:
        assert token.top_logprobs[0].token == token.token
        assert token.top_logprobs[0].logprob >= token.top_logprobs[1].logprob
    legacy = client.completions.create(prompt="One, two,", logprobs=1, **GREEDY)
    logprobs = legacy.choices[0].logprobs
    assert "".join(logprobs.tokens) == legacy.choices[0].text
    assert logprobs.text_offset[:2] == [0, len(logprobs.tokens[0])]


def test_a_bias_and_a_stop(client, front):
    whole = client.completions.create(prompt="One, two,", **GREEDY)
    stopped = client.completions.create(prompt="One, two,", stop=[","], **GREEDY)
    assert stopped.choices[0].finish_reason == "stop"
    assert whole.choices[0].text.startswith(stopped.choices[0].text + ",")
    first = json.loads(
        request(
            front, "POST", "/tokenize", json.dumps({"content": whole.choices[0].text})
        )[1]
    )["tokens"][0]
    other = client.completions.create(
        prompt="One, two,", logit_bias={str(first): -100}, **GREEDY
    )
    assert other.choices[0].text[:3] != whole.choices[0].text[:3]


class Person(pydantic.BaseModel):
    name: str
    age: int


def test_a_schema_is_kept(client):
    reply = client.chat.completions.parse(
        messages=[{"role": "user", "content": "Invent a person, as JSON."}],
        response_format=Person,
        **{**GREEDY, "max_tokens": 200},
    )
    assert isinstance(reply.choices[0].message.parsed, Person)
    reply = client.chat.completions.create(
        messages=[{"role": "user", "content": "Invent a person, as JSON."}],
        response_format={"type": "json_object"},
        **{**GREEDY, "max_tokens": 200},
    )
    if reply.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(reply.choices[0].message.content), dict)


@pytest.mark.parametrize(
    "name, constraint, reply",
    [
        ("grammar", 'root ::= "aa" "b"', "aab"),
        ("regex", "(ab){2}", "abab"),
        ("json_schema", {"const": "x"}, '"x"'),
        ("response_format", {"type": "json_object", "schema": {"const": 7}}, "7"),
    ],
)
def test_other_constraints_are_kept(client, name, constraint, reply):
    extra = {name: constraint}
    chat = client.chat.completions.create(messages=QUESTION, extra_body=extra, **GREEDY)
    assert chat.choices[0].message.content == reply
    text = client.completions.create(prompt="One", extra_body=extra, **GREEDY)
    assert text.choices[0].text == reply


def test_a_bad_grammar_is_named(client):
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(
            prompt="One", extra_body={"grammar": "root ::= ("}, **GREEDY
        )
    assert "grammar" in caught.value.message or "gbnf" in caught.value.message


def test_a_prompt_that_is_too_long_is_an_error_with_both_numbers(client):
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(prompt=[1] * (N_CTX + 9), **GREEDY)
    assert caught.value.code == "context_length_exceeded"
    assert str(N_CTX) in caught.value.message
    assert str(N_CTX + 9) in caught.value.message


def test_nothing_unknown_passes(client):
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(
            messages=QUESTION, extra_body={"tempreature": 1}, **GREEDY
        )
    assert caught.value.param == "tempreature"
    with pytest.raises(openai.NotFoundError) as caught:
        client.completions.create(prompt="a", model="nothing")
    assert caught.value.code == "model_not_found"


def test_tokens_and_back(front):
    status, body = request(front, "POST", "/tokenize", '{"content": "salty sea"}')
    assert status == 200
    tokens = json.loads(body)
    assert tokens["count"] == len(tokens["tokens"]) and tokens["max_model_len"] == N_CTX
    ids = json.dumps({"tokens": tokens["tokens"]})
    assert json.loads(request(front, "POST", "/detokenize", ids)[1])["content"] == (
        "salty sea"
    )


def test_a_client_that_leaves_frees_its_slot(client):
    """More streams than slots are left; each would fill its context."""
    for _ in range(8):
        stream = client.completions.create(
            prompt="One, two,", model=MODEL, stream=True,
            extra_body={"ignore_eos": True},
        )
        next(iter(stream))
        stream.close()
    client.chat.completions.create(messages=QUESTION, **GREEDY)


def test_many_streams_at_once(front):
    texts = []

    def ask():
        parts = client_of(front).chat.completions.create(
            messages=QUESTION, stream=True, **GREEDY
        )
        texts.append("".join(p.choices[0].delta.content or "" for p in parts))

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(texts) == 16 and len(set(texts)) == 1


def test_pages_of_others_are_refused(front):
    body = json.dumps({"messages": QUESTION, "max_tokens": 1})
    path = "/v1/chat/completions"
    assert request(front, "GET", "/health")[0] == 200
    assert request(front, "GET", "/health", Host="evil.example")[0] == 403
    assert request(front, "POST", path, body, Origin="http://evil.example")[0] == 403
    assert request(front, "POST", path, body, Origin=front.url)[0] == 200


def test_sigterm_lets_streams_end(smollm2):
    with Front(str(smollm2), f"--n-ctx={N_CTX}") as server:
        stream = client_of(server).completions.create(
            prompt="One, two,", stream=True, **{**GREEDY, "max_tokens": 200},
            extra_body={"ignore_eos": True},
        )
        parts = iter(stream)
        next(parts)
        server.terminate()
        assert list(parts)[-1].choices[0].finish_reason == "length"
        assert server.process.wait(START_SECONDS) == 0


def serve(*flags):
    """The end of `plimsoll serve` that does not begin to serve."""
    command = [binary("plimsoll"), "serve", *flags]
    return subprocess.run(command, capture_output=True, timeout=CALL_SECONDS)


def test_what_cannot_be_served_ends_with_a_reason(smollm2, tmp_path):
    done = serve(str(smollm2), "--listen=0.0.0.0:0")
    assert done.returncode == 2 and b"--insecure" in done.stderr
    done = serve(str(smollm2), "--listen=127.0.0.1:0", "--device-memory=64MiB")
    assert done.returncode == 3 and b"bytes are missing" in done.stderr
    done = serve(str(tmp_path))
    assert done.returncode == 2 and b"no file *.gguf" in done.stderr
    done = serve("no-such-model")
    assert done.returncode == 1 and b"no-such-model" in done.stderr


def test_a_folder_of_models_is_served(smollm2, tmp_path):
    for name in ("one.gguf", "two, three.gguf"):
        (tmp_path / name).symlink_to(smollm2)
    with Front(str(tmp_path), "--n-ctx=128", "--slots=1") as server:
        names = [model.id for model in client_of(server).models.list()]
        assert names == ["one", "two--three"]
        assert until(lambda: b"try: curl" in server.process.stdout.readline())
        for name in names:
            reply = client_of(server).completions.create(
                prompt="a", **{**GREEDY, "model": name}
            )
            assert reply.model == name
