"""Text at once and as a stream: the same, and true to the oracle."""

from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from asks import GREEDY, chat, endless, generate, stream, text
from servers import CALL_SECONDS, refused
from stubs import common, generation as v1

TALE = "Once upon a time, there was a little"


def ask(server, model="smollm2", **fields):
    """A GenerateResponse."""
    request = generate(model, **fields)
    return server.generation.Generate(request, timeout=CALL_SECONDS)


def parts_of(server, request):
    """All messages of a stream."""
    return list(server.generation.StreamGenerate(request, timeout=CALL_SECONDS))


def ids_of(reply):
    """The ids of a reply's tokens."""
    return [token.id for token in reply.tokens]


@pytest.mark.parametrize("temperature", [0, 0.9])
def test_a_stream_is_the_whole_text_in_parts(worker, any_model, temperature):
    fields = {
        "text": text(TALE),
        "sampling": v1.SamplingOptions(temperature=temperature, seed=7),
        "max_tokens": 24,
        "response": v1.ResponseOptions(top_logprobs=3),
    }
    whole = ask(worker, any_model, **fields)
    parts = parts_of(worker, stream(any_model, **fields))
    assert "".join(part.text for part in parts) == whole.text
    assert [t for part in parts for t in part.tokens] == list(whole.tokens)
    finish = parts[-1].finish
    assert finish.finish_reason == whole.finish_reason
    assert finish.usage == whole.usage
    assert parts[0].prompt.prompt_ids == whole.prompt_ids


def test_a_stream_has_its_prompt_first_and_its_finish_last(worker):
    request = stream("smollm2", text=text(TALE), sampling=GREEDY, max_tokens=8)
    parts = parts_of(worker, request)
    assert len(parts) > 2
    for i, part in enumerate(parts):
        assert part.HasField("prompt") == (i == 0)
        assert part.HasField("finish") == (i == len(parts) - 1)
    prompt, finish = parts[0].prompt, parts[-1].finish
    assert (prompt.model, prompt.n_ctx) == ("smollm2", 512)
    assert finish.finish_reason == v1.FINISH_REASON_MAX_TOKENS
    assert finish.usage.prompt_tokens == len(prompt.prompt_ids)
    assert finish.usage.generated_tokens == 8
    assert finish.memory.planned_bytes == finish.memory.allocated_bytes
    timing = finish.timing
    assert timing.total.ToNanoseconds() >= timing.first_token.ToNanoseconds() > 0


def test_a_chat_is_answered_in_its_models_format(worker):
    conversation = chat("What is the capital of France?")
    reply = ask(worker, chat=conversation, sampling=GREEDY, max_tokens=48)
    assert "Paris" in reply.text
    assert reply.chat_format == "smollm2"
    assert reply.finish_reason == v1.FINISH_REASON_END_TOKEN


def test_the_seed_decides_the_draw(worker):
    def draw(seed):
        sampling = v1.SamplingOptions(temperature=1.5, top_k=0, top_p=1, seed=seed)
        return ids_of(ask(worker, text=text(TALE), sampling=sampling, max_tokens=16))

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)


def test_f25_company_changes_nothing(worker):
    def greedy(prompt):
        return ids_of(ask(worker, text=text(prompt), sampling=GREEDY, max_tokens=12))

    prompts = [TALE, "The capital of France is", "Water boils at 100 degrees"]
    alone = [greedy(prompt) for prompt in prompts]
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(greedy, prompts)) == alone


def test_the_first_token_is_the_oracles(worker, any_model, goldens):
    checked = 0
    for case in goldens(any_model)["completions"]:
        if len(case["prompt_ids"]) > 300:
            continue  # longer than this worker's context
        reply = ask(
            worker,
            any_model,
            text=text(case["prompt"]),
            sampling=GREEDY,
            response=v1.ResponseOptions(top_logprobs=10),
            max_tokens=1,
        )
        assert list(reply.prompt_ids) == case["prompt_ids"]
        top = case["steps"][0]["top"]
        token = reply.tokens[0]
        if top[0][1] - top[1][1] > 0.6:  # else rounding may decide
            assert token.id == top[0][0], case["prompt"]
            assert abs(token.logprob - top[0][1]) < 0.6, case["prompt"]
            checked += 1
    assert checked >= 3


def test_candidates_come_only_where_asked(worker):
    def tokens(**response):
        return ask(
            worker,
            text=text(TALE),
            sampling=GREEDY,
            max_tokens=4,
            response=v1.ResponseOptions(**response),
        ).tokens

    for token in tokens():
        assert not token.HasField("logprob") and not token.candidates
    for token in tokens(top_logprobs=0):
        assert token.HasField("logprob") and not token.candidates
    for token in tokens(top_logprobs=64):
        found = [candidate.logprob for candidate in token.candidates]
        assert len(found) == 64 and found == sorted(found, reverse=True)
        assert len({candidate.id for candidate in token.candidates}) == 64
        best = token.candidates[0]
        assert (token.id, token.logprob) == (best.id, best.logprob)
        assert token.logprob <= 0


def test_a_stop_string_ends_the_text_before_it(worker, any_model):
    fields = {"text": text(TALE), "sampling": GREEDY, "max_tokens": 24}
    free = ask(worker, any_model, **fields).text
    # From somewhere in one token to somewhere in another.
    stop = free[len(free) // 2 : len(free) // 2 + 9]
    parts = parts_of(worker, stream(any_model, stop_strings=["@@", stop], **fields))
    assert "".join(part.text for part in parts) == free[: free.index(stop)]
    finish = parts[-1].finish
    assert finish.finish_reason == v1.FINISH_REASON_STOP_STRING
    assert finish.stop_string == stop


def test_a_stop_token_ends_the_text(worker):
    fields = {"text": text(TALE), "sampling": GREEDY, "max_tokens": 16}
    free = ids_of(ask(worker, **fields))
    stop = free[5]
    reply = ask(worker, stop_token_ids=[stop], **fields)
    assert reply.finish_reason == v1.FINISH_REASON_STOP_TOKEN
    assert reply.usage.generated_tokens == free.index(stop) + 1


def test_ignore_eos_goes_on_after_the_end_token(worker):
    fields = {"chat": chat("Say only: hi"), "sampling": GREEDY, "max_tokens": 64}
    ended = ask(worker, **fields)
    assert ended.finish_reason == v1.FINISH_REASON_END_TOKEN
    beyond = ask(worker, ignore_eos=True, **fields)
    assert beyond.finish_reason == v1.FINISH_REASON_MAX_TOKENS
    assert beyond.usage.generated_tokens == 64 > ended.usage.generated_tokens
    assert ids_of(beyond)[: len(ended.tokens)] == ids_of(ended)


def test_a_full_context_ends_the_text_or_the_call(worker):
    prompt = {"text": None, "tokens": common.TokenPrompt(ids=[500] * 508)}
    parts = parts_of(worker, endless("smollm2", **prompt))
    assert parts[-1].finish.finish_reason == v1.FINISH_REASON_LENGTH
    assert 4 <= parts[-1].finish.usage.generated_tokens <= 5
    policy = v1.CONTEXT_POLICY_ERROR
    with refused(grpc.StatusCode.OUT_OF_RANGE, "CONTEXT_FULL"):
        parts_of(worker, endless("smollm2", context_policy=policy, **prompt))


def test_the_request_id_is_echoed(worker):
    request = generate("smollm2", text=text("a"), max_tokens=1)
    call = worker.generation.Generate.with_call
    reply, info = call(request, metadata=[("x-request-id", "mine-17")])
    assert reply.request_id == "mine-17"
    assert ("x-request-id", "mine-17") in [tuple(m) for m in info.initial_metadata()]
    reply, info = call(request)
    assert len(reply.request_id) >= 16


def test_ids_and_bytes_are_prompts_too(worker):
    fields = {"sampling": GREEDY, "max_tokens": 6}
    by_text = ask(worker, text=text(TALE), **fields)
    tokens = common.TokenPrompt(ids=by_text.prompt_ids)
    raw = common.TextPrompt(raw_text=TALE.encode())
    assert ids_of(ask(worker, tokens=tokens, **fields)) == ids_of(by_text)
    assert ids_of(ask(worker, text=raw, **fields)) == ids_of(by_text)


def test_f15_every_part_after_broken_bytes_is_utf8(worker):
    # protobuf refuses a string that is not UTF-8, so that arriving is enough.
    prompt = common.TextPrompt(raw_text=b"\xf0\x9f\x98\xff\xe6\x97")
    request = stream("smollm2", text=prompt, sampling=GREEDY, max_tokens=24)
    assert parts_of(worker, request)[-1].HasField("finish")
