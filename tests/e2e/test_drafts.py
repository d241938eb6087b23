"""Guessed tokens change the time that a reply takes, and nothing else."""

import json
import pathlib
import subprocess
import sys

import grpc
import pytest

from asks import GREEDY, generate, text
from conftest import model_file, model_flag
from servers import CALL_SECONDS, Worker, binary, refused
from stubs import generation as v1

PROMPT = "one two three four five " * 5 + "one two"
DRAWN = v1.SamplingOptions(temperature=0.9, seed=3, repetition_penalty=1.1)


@pytest.fixture(scope="module")
def guesser():
    """A worker whose requests may have 5 tokens guessed."""
    flags = [model_flag(name) for name in ("smollm2", "gemma3")]
    with Worker(*flags, "--n-ctx=512", "--slots=2", "--draft-tokens=5") as server:
        server.await_ready()
        yield server


def say(server, model, sampling, draft_tokens):
    """A reply of 48 tokens with log-probabilities."""
    wanted = v1.SamplingOptions()
    wanted.CopyFrom(sampling)
    wanted.draft_tokens = draft_tokens
    request = generate(
        model,
        text=text(PROMPT),
        sampling=wanted,
        max_tokens=48,
        ignore_eos=True,
        response=v1.ResponseOptions(top_logprobs=3),
    )
    return server.generation.Generate(request, timeout=CALL_SECONDS)


@pytest.mark.parametrize("sampling", [GREEDY, DRAWN], ids=["greedy", "drawn"])
def test_the_same_tokens_to_the_bit(guesser, any_model, sampling):
    plain = say(guesser, any_model, sampling, 0)
    guessed = say(guesser, any_model, sampling, 5)
    assert guessed.text == plain.text
    assert list(guessed.tokens) == list(plain.tokens)
    assert not plain.usage.HasField("draft_tokens")
    usage = guessed.usage
    assert usage.draft_tokens >= usage.accepted_draft_tokens
    if sampling is GREEDY:
        assert usage.accepted_draft_tokens > 0


def test_no_more_than_the_load_allows(guesser, any_model):
    with refused(grpc.StatusCode.INVALID_ARGUMENT):
        say(guesser, any_model, GREEDY, 6)


def test_the_command_line_guesses(any_model):
    command = [binary("plimsoll"), "generate", "--model", model_file(any_model)]
    command += ["--raw", "--prompt", PROMPT, "--temperature", "0", "-o", "json"]
    command += ["--max-tokens", "32", "--n-ctx", "512", "--ignore-eos"]
    replies = []
    for n in ("0", "4"):
        done = subprocess.run(
            [*command, "--draft-tokens", n],
            capture_output=True,
            timeout=CALL_SECONDS,
            check=True,
        )
        replies.append(json.loads(done.stdout))
    assert replies[0]["text"] == replies[1]["text"]
    assert int(replies[1]["usage"]["accepted_draft_tokens"]) > 0


@pytest.fixture(scope="module")
def headed(tmp_path_factory):
    """A tiny model with an MTP head."""
    goldens = pathlib.Path(__file__).parents[1] / "testdata" / "mtp"
    if not (goldens.parents[3] / "shared" / "tools").is_dir():
        pytest.skip("there is no shared data beside this checkout")
    path = tmp_path_factory.mktemp("mtp") / "headed.gguf"
    writer = [sys.executable, goldens / "mtp_models.py", "--params"]
    subprocess.run([*writer, goldens / "qwen35.json", path], check=True)
    return path


def test_a_models_own_head_guesses(headed):
    request = generate("m", text=text("one two three"), sampling=GREEDY,
                       max_tokens=20, ignore_eos=True)
    replies = []
    for flags in ((), ("--draft=mtp",), ("--draft=mtp", "--draft-tokens=3")):
        with Worker(f"--model=m={headed}", "--n-ctx=256", *flags) as server:
            server.await_ready()
            replies.append(
                server.generation.Generate(request, timeout=CALL_SECONDS))
    plain, one, three = replies
    assert plain.text == one.text == three.text
    assert not plain.usage.HasField("draft_tokens")
    # Each step but the first one and the last one has guesses.
    assert one.usage.draft_tokens >= 10
    assert three.usage.draft_tokens > one.usage.draft_tokens


def test_a_model_without_a_head_is_not_loaded_with_one():
    command = [binary("plimsoll"), "plan", model_file("smollm2"), "--draft", "mtp"]
    done = subprocess.run(command, capture_output=True, timeout=CALL_SECONDS)
    assert done.returncode == 1
    assert b"this model has no MTP head" in done.stderr
