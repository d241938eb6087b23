"""Text at once and as a stream, from the protos alone."""

import pytest

from asks import GREEDY, chat, generate, stream, text
from servers import CALL_SECONDS
from stubs import generation as v1

PROMPT = text("Once upon a time")


def reply_of(worker, **fields):
    """The whole reply of a greedy call."""
    fields.setdefault("model", "smollm2")
    request = generate(sampling=GREEDY, **fields)
    return worker.generation.Generate(request, timeout=CALL_SECONDS)


def parts_of(worker, **fields):
    """All messages of a greedy stream."""
    fields.setdefault("model", "smollm2")
    request = stream(sampling=GREEDY, **fields)
    return list(worker.generation.StreamGenerate(request, timeout=CALL_SECONDS))


def test_text_at_once_is_text_as_a_stream(worker, any_model):
    fields = {"text": PROMPT, "max_tokens": 24, "ignore_eos": True}
    reply = reply_of(worker, model=any_model, **fields)
    parts = parts_of(worker, model=any_model, **fields)
    assert reply.text == "".join(part.text for part in parts)
    tokens = [token for part in parts for token in part.tokens]
    assert list(reply.tokens) == tokens
    assert reply.prompt_ids == parts[0].prompt.prompt_ids
    assert reply.finish_reason == parts[-1].finish.finish_reason


def test_a_stream_has_its_prompt_first_and_its_finish_last(worker):
    parts = parts_of(worker, text=PROMPT, max_tokens=12, ignore_eos=True)
    last = len(parts) - 1
    for i, part in enumerate(parts):
        assert part.HasField("prompt") == (i == 0)
        assert part.HasField("finish") == (i == last)
    assert sum(len(part.tokens) for part in parts) == 12
    finish = parts[-1].finish
    assert finish.finish_reason == v1.FINISH_REASON_MAX_TOKENS
    assert finish.usage.generated_tokens == 12
    assert finish.usage.prompt_tokens == len(parts[0].prompt.prompt_ids)


def test_a_chat_is_answered_in_its_models_format(worker):
    conversation = chat("What is the capital of France?")
    reply = reply_of(worker, chat=conversation, max_tokens=24)
    assert "Paris" in reply.text
    assert reply.chat_format == "smollm2"
    assert reply.finish_reason == v1.FINISH_REASON_END_TOKEN


def test_a_stop_string_ends_the_text_before_it(worker):
    whole = reply_of(worker, text=PROMPT, max_tokens=24, ignore_eos=True).text
    stop = whole[len(whole) // 2 :][:5]
    reply = reply_of(worker, text=PROMPT, max_tokens=24, stop_strings=[stop])
    assert reply.text == whole[: whole.index(stop)]
    assert reply.finish_reason == v1.FINISH_REASON_STOP_STRING
    assert reply.stop_string == stop


def test_a_stop_token_ends_the_text(worker):
    fields = {"text": PROMPT, "max_tokens": 12, "ignore_eos": True}
    third = reply_of(worker, **fields).tokens[2].id
    reply = reply_of(worker, stop_token_ids=[third], **fields)
    assert len(reply.tokens) <= 3
    assert reply.finish_reason == v1.FINISH_REASON_STOP_TOKEN


@pytest.mark.parametrize("k", [None, 0, 1, 10, 64])
def test_candidates_come_where_asked(worker, k):
    response = v1.ResponseOptions(top_logprobs=k)
    reply = reply_of(worker, text=PROMPT, max_tokens=3, response=response)
    for token in reply.tokens:
        assert token.HasField("logprob") == (k is not None)
        logprobs = [candidate.logprob for candidate in token.candidates]
        assert len(logprobs) == (k or 0)
        assert logprobs == sorted(logprobs, reverse=True)
        if k:
            assert token.candidates[0] == v1.TokenCandidate(
                id=token.id, logprob=token.logprob
            )


def test_a_seed_gives_the_same_text_again(worker):
    def draw(seed):
        sampling = v1.SamplingOptions(temperature=1, seed=seed)
        request = generate(
            "smollm2", text=PROMPT, max_tokens=16, sampling=sampling
        )
        return worker.generation.Generate(request, timeout=CALL_SECONDS).text

    assert draw(7) == draw(7)
    assert len({draw(seed) for seed in range(4)}) > 1
