"""Chats that a worker keeps between calls."""

import os
import subprocess

import grpc
import pytest

from asks import GREEDY, chat, generate
from conftest import model_flag
from servers import CALL_SECONDS, Worker, binary, refused
from stubs import common, generation as v1, session as sv1

# A turn has some 220 tokens, and a context holds four turns. Sanitizers are slow.
TURNS = 10 if os.environ.get("PLIMSOLL_SANITIZE") else 26
SYSTEM = "You are a lighthouse keeper. Answer in one short sentence."


@pytest.fixture(scope="module")
def keeper():
    """A worker with a short context, so that chats roll soon."""
    flags = [model_flag(name) for name in ("smollm2", "gemma3")]
    with Worker(*flags, "--n-ctx=1024", "--slots=3") as server:
        server.await_ready()
        yield server


def open_session(server, model, **fields):
    """An open Session."""
    request = sv1.OpenSessionRequest(model=model, **fields)
    return server.sessions.OpenSession(request, timeout=CALL_SECONDS).session


def get(server, model, session_id):
    """The Session as it is."""
    request = sv1.GetSessionRequest(model=model, session_id=session_id)
    return server.sessions.GetSession(request, timeout=CALL_SECONDS).session


def close(server, model, session_id):
    """Closes the session."""
    request = sv1.CloseSessionRequest(model=model, session_id=session_id)
    server.sessions.CloseSession(request, timeout=CALL_SECONDS)


def say(server, model, session_id, message, max_tokens=24, **fields):
    """The parts of a greedy reply."""
    request = sv1.ChatRequest(
        model=model,
        session_id=session_id,
        message=message,
        sampling=GREEDY,
        stopping=v1.StoppingOptions(max_tokens=max_tokens, **fields),
    )
    return list(server.sessions.Chat(request, timeout=CALL_SECONDS))


def text_of(parts):
    """The whole text of a reply."""
    return "".join(part.text for part in parts)


def test_a_reply_is_that_of_the_whole_chat_at_once(keeper, any_model):
    opened = open_session(keeper, any_model)
    said = ["What do ships need at night?", "And by day?"]
    first = say(keeper, any_model, opened.session_id, said[0])
    second = say(keeper, any_model, opened.session_id, said[1])
    usage = second[-1].finish.usage
    whole = keeper.generation.Generate(
        generate(
            any_model,
            chat=chat(said[0], text_of(first), said[1]),
            sampling=GREEDY,
            max_tokens=24,
            # Laid out in pages alike.
            context_policy=v1.CONTEXT_POLICY_ROLL,
            roll=v1.RollOptions(pin_tokens=opened.pinned_tokens),
        ),
        timeout=CALL_SECONDS,
    )
    assert usage.prompt_tokens == len(whole.prompt_ids) > usage.cached_tokens > 0
    assert text_of(second) == whole.text
    close(keeper, any_model, opened.session_id)


def test_a_chat_goes_on_past_its_context(keeper, any_model_at_night):
    opened = open_session(keeper, any_model_at_night, system=SYSTEM)
    session_id = opened.session_id
    left = opened.pinned_tokens
    turns_left = 0
    long_message = "Tell me of the storm. " * 36
    for turn in range(TURNS):
        parts = say(keeper, any_model_at_night, session_id, f"{turn} {long_message}")
        assert parts[-1].finish.finish_reason
        for eviction in (one for part in parts for one in part.evictions):
            assert eviction.position == left
            left += eviction.tokens
            turns_left += eviction.turns
    now = get(keeper, any_model_at_night, session_id)
    assert turns_left >= 4
    assert now.tokens > 195 * TURNS
    assert now.turns == TURNS and now.live_turns == TURNS - turns_left
    assert now.evicted_tokens == left - opened.pinned_tokens
    assert now.live_tokens <= now.capacity_tokens <= 1024
    assert now.tokens == now.live_tokens + now.evicted_tokens
    assert now.pinned_tokens == opened.pinned_tokens
    close(keeper, any_model_at_night, session_id)


def test_a_chat_survives_its_client(keeper):
    open_session(keeper, "smollm2", session_id="tuesday")
    first = say(keeper, "smollm2", "tuesday", "Hello")
    assert text_of(first)
    with grpc.insecure_channel(keeper.address) as channel:
        keeper.connect(channel)
        try:
            with refused(grpc.StatusCode.ALREADY_EXISTS, "SESSION_EXISTS"):
                open_session(keeper, "smollm2", session_id="tuesday")
            parts = say(keeper, "smollm2", "tuesday", "Again")
        finally:
            keeper.connect(keeper.channel)
    assert parts[-1].finish.usage.cached_tokens > 30
    close(keeper, "smollm2", "tuesday")
    with refused(grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND"):
        say(keeper, "smollm2", "tuesday", "And now?")


def test_sessions_are_limited_and_leave_a_slot(keeper):
    ids = [open_session(keeper, "smollm2").session_id for _ in range(2)]
    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "SESSION_LIMIT") as failures:
        open_session(keeper, "smollm2")
    assert failures[0].retry.retry_delay.seconds > 0
    for session_id in ids:
        say(keeper, "smollm2", session_id, "Hello", max_tokens=2)
    reply = keeper.generation.Generate(
        generate("smollm2", chat=chat("Hello"), max_tokens=2), timeout=CALL_SECONDS
    )
    assert reply.usage.generated_tokens
    for session_id in ids:
        close(keeper, "smollm2", session_id)


def test_a_session_goes_on_from_turns_that_were_said_before(keeper, any_model):
    said = ["What do ships need at night?", "And by day?", "In which order?"]
    opened = open_session(keeper, any_model, system=SYSTEM)
    heard = [say(keeper, any_model, opened.session_id, text) for text in said]
    close(keeper, any_model, opened.session_id)

    def ids(parts):
        return common.TokenPrompt(ids=[t.id for part in parts for t in part.tokens])

    turns = [
        sv1.SessionTurn(message=text, tokens=ids(parts))
        for text, parts in zip(said[:2], heard)
    ]
    again = open_session(keeper, any_model, system=SYSTEM, turns=turns)
    assert again.turns == again.live_turns == 2
    assert again.live_tokens > opened.pinned_tokens
    parts = say(keeper, any_model, again.session_id, said[2])
    assert ids(parts) == ids(heard[2])
    assert parts[-1].finish.usage.prompt_tokens == (
        heard[2][-1].finish.usage.prompt_tokens
    )
    close(keeper, any_model, again.session_id)
    # Texts say the same, up to how they are cut into tokens.
    turns = [
        sv1.SessionTurn(message=text, text=text_of(parts))
        for text, parts in zip(said[:2], heard)
    ]
    again = open_session(keeper, any_model, system=SYSTEM, turns=turns)
    assert again.turns == 2
    close(keeper, any_model, again.session_id)


def test_turns_that_were_said_before_have_limits(keeper):
    def turn(message="a", **fields):
        return sv1.SessionTurn(message=message, **fields)

    most = open_session(keeper, "smollm2", turns=[turn(text="b")] * 2048)
    # The session has the turns that fit.
    assert 10 < most.turns < 300 and most.live_tokens <= 768
    assert most.turns == most.live_turns and most.evicted_tokens == 0
    assert text_of(say(keeper, "smollm2", most.session_id, "Hello"))
    close(keeper, "smollm2", most.session_id)
    outside = common.TokenPrompt(ids=[1 << 31])
    for turns, words in (
        ([turn(text="b")] * 2049, "at most 2048"),
        ([turn(), turn(message="")], "turns.message: it is empty"),
        ([turn(tokens=outside)], "outside the vocabulary"),
    ):
        with refused(grpc.StatusCode.INVALID_ARGUMENT) as failures:
            open_session(keeper, "smollm2", turns=turns)
        assert words in failures[0].message


def plimsoll(server, *arguments, lines=""):
    """The command's result, with the worker's address."""
    return subprocess.run(
        [binary("plimsoll"), "--address", server.address, *arguments],
        input=lines.encode(),
        capture_output=True,
        timeout=CALL_SECONDS,
        check=False,
    )


def test_the_command_line_takes_a_chat_up_again(keeper):
    flags = ("chat", "--model", "smollm2", "--session", "mine", "--max-tokens", "4")
    done = plimsoll(keeper, *flags, lines="Hello\n")
    assert done.returncode == 0, done.stderr
    done = plimsoll(keeper, *flags, lines="Hello again\n/info\n")
    assert done.returncode == 0, done.stderr
    assert b"going on with session mine: 1 turns" in done.stderr
    assert b"session mine: 2 turns" in done.stderr
    done = plimsoll(keeper, "sessions", "--model", "smollm2")
    assert b"mine" in done.stdout
    done = plimsoll(keeper, "sessions", "--model", "smollm2", "--close", "mine")
    assert done.returncode == 0, done.stderr
    done = plimsoll(keeper, "chat", "--model", "smollm2", lines="Hi\n")
    assert done.returncode == 0, done.stderr
    done = plimsoll(keeper, "sessions", "--model", "smollm2", "-o", "json")
    assert done.stdout.strip() == b"{}", "a chat without a name is closed"
