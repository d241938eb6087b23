"""A request that makes no sense is refused, and its field is named."""

import grpc
import pytest

from asks import GREEDY, chat, endless, generate, text
from servers import CALL_SECONDS, refused
from stubs import common, generation as v1

INVALID = grpc.StatusCode.INVALID_ARGUMENT


def ask(server, **fields):
    """A call to the smollm2 model that should not get far."""
    fields.setdefault("max_tokens", 1)
    request = generate(fields.pop("model", "smollm2"), **fields)
    return server.generation.Generate(request, timeout=CALL_SECONDS)


def sampled(**fields):
    return {"text": text("a"), "sampling": v1.SamplingOptions(**fields)}


def stopped(**fields):
    return {"text": text("a"), **fields}


def biases(*ids, bias=1):
    return [v1.LogitBias(id=id, bias=bias) for id in ids]


NAN = float("nan")
BAD_FIELDS = [
    ("temperature", sampled(temperature=-0.1)),
    ("temperature", sampled(temperature=100.1)),
    ("temperature", sampled(temperature=NAN)),
    ("temperature", sampled(temperature=float("inf"))),
    ("top_p", sampled(top_p=0)),
    ("top_p", sampled(top_p=1.01)),
    ("top_p", sampled(top_p=NAN)),
    ("min_p", sampled(min_p=-0.01)),
    ("min_p", sampled(min_p=1.01)),
    ("top_k", sampled(top_k=0xFFFFFFFF)),
    ("typical_p", sampled(typical_p=0)),
    ("repetition_penalty", sampled(repetition_penalty=0)),
    ("repetition_penalty", sampled(repetition_penalty=NAN)),
    ("presence_penalty", sampled(presence_penalty=101)),
    ("frequency_penalty", sampled(frequency_penalty=-101)),
    ("penalty_last_tokens", sampled(penalty_last_tokens=8193)),
    ("logit_bias", sampled(logit_bias=biases(0xFFFFFFFF))),
    ("logit_bias", sampled(logit_bias=biases(1 << 20))),
    ("logit_bias", sampled(logit_bias=biases(7, 7))),
    ("logit_bias", sampled(logit_bias=biases(7, bias=1001))),
    ("logit_bias", sampled(logit_bias=biases(*range(1025)))),
    ("stop_strings", stopped(stop_strings=["x"] * 17)),
    ("stop_strings", stopped(stop_strings=["x" * 257])),
    ("stop_strings", stopped(stop_strings=[""])),
    ("stop_token_ids", stopped(stop_token_ids=[1] * 65)),
    ("stop_token_ids", stopped(stop_token_ids=[0xFFFFFFFF])),
    ("top_logprobs", stopped(response=v1.ResponseOptions(top_logprobs=65))),
    ("context_policy", stopped(context_policy=99)),
    ("input", {}),
    ("content", {"text": common.TextPrompt()}),
    ("ids", {"tokens": common.TokenPrompt(ids=[1 << 20])}),
    ("ids", {"tokens": common.TokenPrompt(ids=[0xFFFFFFFF])}),
    ("message", {"chat": common.ChatPrompt()}),
    ("messages", {"chat": chat(*["x"] * 4097)}),
    ("role", {"chat": common.ChatPrompt(messages=[common.ChatMessage()])}),
    ("role", {"chat": common.ChatPrompt(messages=[common.ChatMessage(role=99)])}),
]


@pytest.mark.parametrize("field, fields", BAD_FIELDS)
def test_f15_bad_field_is_named(worker, field, fields):
    with refused(INVALID, "INVALID_FIELD") as failures:
        ask(worker, **fields)
    assert field in failures[0].message


@pytest.mark.parametrize(
    "fields",
    [
        sampled(temperature=100),
        sampled(top_p=1, min_p=1, top_k=0),
        sampled(top_k=(1 << 31) - 1),
        sampled(repetition_penalty=100, presence_penalty=-100),
        sampled(frequency_penalty=100, penalty_last_tokens=8192),
        sampled(logit_bias=biases(*range(1024), bias=-1000)),
        stopped(stop_strings=["x" * 256] * 16),
        stopped(stop_token_ids=list(range(64))),
        stopped(response=v1.ResponseOptions(top_logprobs=64)),
    ],
)
def test_a_field_at_its_limit_is_accepted(worker, fields):
    assert ask(worker, **fields).usage.generated_tokens == 1


def test_a_bias_decides_the_token(worker):
    for id in (7, 300):
        reply = ask(worker, **sampled(logit_bias=biases(id, bias=1000)))
        assert [token.id for token in reply.tokens] == [id]


@pytest.mark.parametrize(
    "key, value",
    [("x-tenant", "t" * 65), ("x-tenant", "a b"), ("x-priority", "urgent")],
)
def test_bad_metadata_is_named(worker, key, value):
    request = generate("smollm2", text=text("a"), max_tokens=1)
    with refused(INVALID, "INVALID_FIELD") as failures:
        worker.generation.Generate(
            request, metadata=[(key, value)], timeout=CALL_SECONDS
        )
    assert key in failures[0].message


@pytest.mark.parametrize("priority", ["low", "normal", "high"])
def test_a_tenant_and_a_priority_are_taken(worker, priority):
    request = generate("smollm2", text=text("a"), max_tokens=1)
    metadata = [("x-tenant", "t" * 64), ("x-priority", priority)]
    reply = worker.generation.Generate(
        request, metadata=metadata, timeout=CALL_SECONDS
    )
    assert reply.usage.generated_tokens == 1


def test_an_empty_prompt_is_refused(worker):
    with refused(INVALID):
        ask(worker, tokens=common.TokenPrompt())


def test_an_unknown_chat_format_is_refused_by_name(worker):
    with pytest.raises(grpc.RpcError) as caught:
        ask(worker, chat=chat("hi", chat_format="no-such-format"))
    codes = (INVALID, grpc.StatusCode.UNIMPLEMENTED)
    assert caught.value.code() in codes
    assert "no-such-format" in caught.value.details()


def test_an_unknown_model_is_refused(worker):
    with refused(grpc.StatusCode.NOT_FOUND, "MODEL_NOT_FOUND") as failures:
        ask(worker, model="no-such-model", text=text("a"))
    assert "smollm2" in failures[0].message  # what there is instead


def test_a_model_must_be_named_where_there_are_two(worker):
    with refused(INVALID, "INVALID_FIELD") as failures:
        ask(worker, model="", text=text("a"))
    assert "model" in failures[0].message


@pytest.mark.parametrize("n_tokens", [513, 5000])
def test_f13_a_prompt_that_is_too_long_is_refused_with_both_numbers(worker, n_tokens):
    prompt = common.TokenPrompt(ids=[500] * n_tokens)
    with refused(grpc.StatusCode.OUT_OF_RANGE, "PROMPT_TOO_LONG") as failures:
        ask(worker, tokens=prompt)
    details = failures[0].info.metadata
    assert (details["prompt_tokens"], details["n_ctx"]) == (str(n_tokens), "512")
    assert str(n_tokens) in failures[0].message and "512" in failures[0].message
    with refused(grpc.StatusCode.OUT_OF_RANGE, "PROMPT_TOO_LONG"):
        request = endless("smollm2", text=None, tokens=prompt)
        list(worker.generation.StreamGenerate(request))


def test_the_longest_prompt_that_fits_is_answered(worker):
    reply = ask(worker, tokens=common.TokenPrompt(ids=[500] * 512), sampling=GREEDY)
    assert reply.usage.prompt_tokens == 512
    assert reply.usage.generated_tokens == 1


def test_f14_a_message_of_more_than_four_mebibytes_is_refused(worker):
    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED):
        ask(worker, text=text("a" * (4 << 20)))


def test_an_error_carries_the_request_id(worker):
    request = generate("smollm2")
    with refused(INVALID) as failures:
        worker.generation.Generate(request, metadata=[("x-request-id", "mine-18")])
    assert failures[0].info.metadata["request_id"] == "mine-18"


def test_refusals_leave_no_slot_taken(worker):
    for _ in range(5):
        with refused(INVALID):
            ask(worker)
    found = worker.model("smollm2")
    assert (found.running, found.waiting) == (0, 0)
