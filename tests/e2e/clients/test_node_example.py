"""The example for Node says what the server says, over HTTP."""

import os
import shutil
import subprocess

import httpx
import pytest

import stubs
from conftest import model_flag
from security.test_security import tokens  # noqa: F401 (a fixture)
from servers import CALL_SECONDS, Front, Gateway, Worker, free_port

SAY = stubs.SOURCE_DIR / "clients" / "node" / "say.mjs"
WORDS = "Tell me of the sea."
N_TOKENS = 12

pytestmark = pytest.mark.skipif(
    not shutil.which("node"),
    reason="no node; scripts/install_deps.sh --clients gets it",
)


def start(*arguments, **environment):
    """The example as it runs."""
    return subprocess.Popen(
        ["node", SAY, *arguments],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(example):
    """Its exit code, and what it wrote to both streams."""
    out, errors = example.communicate(timeout=CALL_SECONDS)
    return example.returncode, out, errors


def run(*arguments, **environment):
    return end(start(*arguments, **environment))


@pytest.fixture(scope="module")
def front(smollm2):
    with Front(str(smollm2), "--n-ctx=512", "--slots=2") as server:
        yield server


def reply_of(server):
    """The text of the same reply, not as a stream."""
    request = {
        "messages": [{"role": "user", "content": WORDS}],
        "temperature": 0,
        "max_completion_tokens": N_TOKENS,
    }
    url = f"{server.url}/v1/chat/completions"
    reply = httpx.post(url, json=request, timeout=CALL_SECONDS)
    return reply.json()["choices"][0]["message"]["content"]


def test_it_streams_a_reply(front):
    assert run(front.url, WORDS, str(N_TOKENS)) == (0, reply_of(front) + "\n", "")


def test_it_waits_for_a_worker(smollm2):
    port = free_port()
    with Gateway(f"--worker=127.0.0.1:{port}") as gateway:
        example = start(gateway.url, WORDS, str(N_TOKENS))
        with Worker(
            model_flag("smollm2"), "--n-ctx=512", f"--listen=127.0.0.1:{port}"
        ):
            said = end(example)
            assert said == (0, reply_of(gateway.await_ready()) + "\n", "")


def test_it_says_why_a_call_fails(front):
    code, _, errors = run(front.url, "word " * 1000)
    assert code == 1
    assert errors.startswith("error: context_length_exceeded: "), errors


def test_it_says_that_nobody_listens():
    code, _, errors = run(f"http://127.0.0.1:{free_port()}", WORDS)
    assert code == 1
    assert "ECONNREFUSED" in errors, errors


def test_it_says_how_it_is_called(front):
    code, _, errors = run(front.url)
    assert code == 2
    assert errors.startswith("usage: "), errors


def test_it_shows_its_token(smollm2, tokens):  # noqa: F811
    with Front(str(smollm2), "--n-ctx=512", *tokens.flag()) as server:
        code, _, errors = run(server.url, WORDS, "1", PLIMSOLL_TOKEN=tokens.of["u"])
        assert code == 0, errors
        code, _, errors = run(server.url, WORDS, "1", PLIMSOLL_TOKEN="")
        assert code == 1
        assert "token" in errors, errors
