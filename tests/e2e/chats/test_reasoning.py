"""Reasoning that has a limit: over gRPC, by both dialects and on the command line.

The model is Gemma's with a template whose prompt ends inside of reasoning, so that it
reasons until somebody ends it.
"""

import anthropic
import grpc
import openai
import pytest

from asks import GREEDY, chat, generate, stream, text
from command_line import parsed, plimsoll
from servers import CALL_SECONDS, Front, Worker, refused
from stubs import generation as v1, session as sv1, tokenizer as tv1

TEMPLATE = r"""{%- for message in messages %}
    {{- '[' ~ message.role ~ '] ' ~ message.content ~ '\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<think>' }}
    {%- if enable_thinking is false %}{{ '\n\n</think>\n\n' }}{% endif %}
{%- endif %}"""
END = "</think>\n\n"
QUESTION = "Is the sea salty?"
N_TOKENS = 40


@pytest.fixture(scope="module")
def thinker(own_template):
    return own_template(TEMPLATE)


@pytest.fixture(scope="module")
def worker(thinker):
    flags = ("--n-ctx=256", "--slots=3", "--draft-tokens=4")
    with Worker(f"--model=t={thinker}", *flags) as server:
        yield server.await_ready()


@pytest.fixture(scope="module")
def front(thinker):
    with Front(str(thinker), "--n-ctx=256", "--slots=2") as server:
        yield server


def asked(limit=None, **fields):
    limits = {} if limit is None else {"max_reasoning_tokens": limit}
    fields.setdefault("max_tokens", N_TOKENS)
    return generate("t", chat=chat(QUESTION), sampling=GREEDY, ignore_eos=True,
                    response=v1.ResponseOptions(top_logprobs=0), **limits, **fields)


def ids_of(reply):
    return [token.id for token in reply.tokens]


@pytest.fixture(scope="module")
def endless_thought(worker):
    """What the model thinks without a limit."""
    reply = worker.generation.Generate(asked(), timeout=CALL_SECONDS)
    assert reply.reasoning and not reply.text
    return reply


@pytest.fixture(scope="module")
def end(worker):
    request = tv1.TokenizeRequest(model="t", text=END)
    return list(worker.tokenizer.Tokenize(request).ids)


@pytest.mark.parametrize("limit", [0, 1, 9])
def test_reasoning_ends_after_so_many_tokens(worker, endless_thought, end, limit):
    reply = worker.generation.Generate(asked(limit), timeout=CALL_SECONDS)
    ids = ids_of(reply)
    assert ids[: limit + len(end)] == ids_of(endless_thought)[:limit] + end
    assert endless_thought.reasoning.startswith(reply.reasoning)
    # The first token is a line break, which belongs to the mark.
    assert bool(reply.reasoning) == (limit > 1)
    assert reply.text
    assert reply.usage.generated_tokens == N_TOKENS
    assert reply.usage.reasoning_tokens == limit
    assert all(token.HasField("logprob") for token in reply.tokens)


def test_a_limit_that_is_not_reached_changes_nothing(worker, endless_thought):
    reply = worker.generation.Generate(asked(N_TOKENS), timeout=CALL_SECONDS)
    assert reply.tokens == endless_thought.tokens
    assert reply.reasoning == endless_thought.reasoning


def test_a_stream_ends_its_reasoning_too(worker):
    whole = worker.generation.Generate(asked(9), timeout=CALL_SECONDS)
    request = stream("t", chat=chat(QUESTION), sampling=GREEDY, ignore_eos=True,
                     max_tokens=N_TOKENS, max_reasoning_tokens=9)
    parts = list(worker.generation.StreamGenerate(request, timeout=CALL_SECONDS))
    assert "".join(part.reasoning for part in parts) == whole.reasoning
    assert "".join(part.text for part in parts) == whole.text
    kinds = ["r" if part.reasoning else "t" for part in parts
             if part.reasoning or part.text]
    assert kinds == sorted(kinds), "the text comes behind the reasoning"


def test_streams_beside_it_and_guesses_change_nothing(worker):
    request = asked(9)
    alone = worker.generation.Generate(request, timeout=CALL_SECONDS)
    guessing = asked(9)
    guessing.sampling.draft_tokens = 4
    calls = [worker.generation.Generate.future(one, timeout=CALL_SECONDS)
             for one in (request, asked(), guessing)]
    replies = [call.result() for call in calls]
    assert replies[0].tokens == alone.tokens == replies[2].tokens


def test_a_reply_that_is_not_split_shows_the_mark(worker):
    request = asked(3)
    request.chat.split_reply = False
    reply = worker.generation.Generate(request, timeout=CALL_SECONDS)
    assert END in reply.text and not reply.reasoning


def test_a_template_may_leave_the_reasoning_out(worker):
    free, limited = asked(), asked(0)
    for request in (free, limited):
        request.chat.template_arguments = '{"enable_thinking": false}'
    expected = worker.generation.Generate(free, timeout=CALL_SECONDS)
    reply = worker.generation.Generate(limited, timeout=CALL_SECONDS)
    assert reply.tokens == expected.tokens


def test_only_a_chat_has_a_limit(worker):
    request = asked(3)
    request.text.CopyFrom(text("Once"))
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as failures:
        worker.generation.Generate(request, timeout=CALL_SECONDS)
    assert "max_reasoning_tokens" in failures[0].message


def test_openais_client_limits_reasoning(front):
    with openai.OpenAI(base_url=front.url + "/v1", api_key="none",
                       timeout=CALL_SECONDS) as client:
        reply = client.chat.completions.create(
            model="model", messages=[{"role": "user", "content": QUESTION}],
            temperature=0, max_tokens=N_TOKENS,
            extra_body={"reasoning": {"max_tokens": 5}})
        assert reply.usage.completion_tokens_details.reasoning_tokens == 5
        message = reply.choices[0].message
        assert message.reasoning_content and message.content
        response = client.responses.create(
            model="model", input=QUESTION, temperature=0,
            max_output_tokens=N_TOKENS, extra_body={"reasoning": {"max_tokens": 5}})
        assert response.usage.output_tokens_details.reasoning_tokens == 5
        thought, said = response.output
        assert thought.content[0].text == message.reasoning_content
        assert said.content[0].text == message.content


def test_anthropics_client_limits_reasoning(front):
    client = anthropic.Anthropic(base_url=front.url, api_key="none", max_retries=0,
                                 timeout=CALL_SECONDS)
    reply = client.messages.create(
        model="model", max_tokens=N_TOKENS,
        messages=[{"role": "user", "content": QUESTION}],
        thinking={"type": "enabled", "budget_tokens": 5},
        extra_body={"temperature": 0})
    thought, said = reply.content
    assert (thought.type, said.type) == ("thinking", "text")
    assert thought.thinking and said.text


def test_the_command_limits_reasoning(thinker):
    flags = ("--model", str(thinker), "--prompt", QUESTION, "--temperature", "0",
             "--max-tokens", "20", "--n-ctx", "256", "-o", "json")
    reply = parsed(plimsoll("generate", *flags, "--max-reasoning-tokens", "2"))
    assert END in reply["text"]
    bad = plimsoll("generate", *flags, "--max-reasoning-tokens", "2", "--raw")
    assert bad.returncode == 2 and b"--max-reasoning-tokens" in bad.stderr


def test_sessions_have_no_limit(smollm2):
    with Worker(f"--model=s={smollm2}", "--n-ctx=256", "--slots=1") as server:
        worker = server.await_ready()
        worker.sessions.OpenSession(sv1.OpenSessionRequest(model="s", session_id="a"))
        request = sv1.ChatRequest(
            model="s", session_id="a", message="Hello",
            stopping=v1.StoppingOptions(max_tokens=3, max_reasoning_tokens=1))
        with refused(grpc.StatusCode.INVALID_ARGUMENT) as failures:
            list(worker.sessions.Chat(request, timeout=CALL_SECONDS))
        assert "max_reasoning_tokens" in failures[0].message
