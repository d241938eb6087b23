"""How likely continuations are, against what generation says."""

import grpc
import pytest

from asks import GREEDY, generate, text
from servers import CALL_SECONDS, refused
from stubs import common, generation as v1

CAPITAL = text("The capital of France is")


def score(server, model, prompt, *continuations):
    """A ScoreResponse for texts."""
    request = v1.ScoreRequest(
        model=model,
        text=prompt,
        continuations=[v1.Continuation(text=one) for one in continuations],
    )
    return server.generation.Score(request, timeout=CALL_SECONDS)


def test_the_likelier_continuation_scores_higher(worker, any_model):
    reply = score(worker, any_model, CAPITAL, " Paris", " made of cheese")
    paris, cheese = reply.scores
    assert 0 > paris.logprob > cheese.logprob
    assert not cheese.is_greedy
    for one in reply.scores:
        assert len(one.ids) == len(one.logprobs) > 0
        assert one.logprob == pytest.approx(sum(one.logprobs))


def test_a_score_is_that_of_the_generated_tokens(worker, any_model):
    greedy = worker.generation.Generate(
        generate(
            any_model,
            text=CAPITAL,
            sampling=GREEDY,
            max_tokens=12,
            ignore_eos=True,
            response=v1.ResponseOptions(top_logprobs=0),
        ),
        timeout=CALL_SECONDS,
    )
    ids = [token.id for token in greedy.tokens]
    request = v1.ScoreRequest(
        model=any_model,
        text=CAPITAL,
        continuations=[v1.Continuation(tokens=common.TokenPrompt(ids=ids))],
    )
    (one,) = worker.generation.Score(request, timeout=CALL_SECONDS).scores
    assert one.is_greedy
    assert list(one.logprobs) == [token.logprob for token in greedy.tokens]
    assert [token.rank for token in greedy.tokens] == [1] * 12
    assert list(one.ids) == ids


def test_nothing_to_score_is_refused_by_name(worker):
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD") as failures:
        score(worker, "smollm2", CAPITAL)
    assert "continuations" in failures[0].message
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD") as failures:
        score(worker, "smollm2", CAPITAL, "x", "")
    assert "continuations[1]" in failures[0].message


def test_a_continuation_that_is_too_long_is_refused_with_both_numbers(worker):
    with refused(grpc.StatusCode.OUT_OF_RANGE, "PROMPT_TOO_LONG") as failures:
        score(worker, "smollm2", CAPITAL, " word" * 600)
    assert "605" in failures[0].message
    assert "512" in failures[0].message
