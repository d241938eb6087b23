"""Load, stream, cancel and refuse, from a client of the protos."""

import grpc
import pytest

from conftest import PATIENCE, error_info, wait_for


def test_a_load_ends_ready_exactly_to_its_plan(api, pair):
    planner, worker = pair
    messages = worker.load()  # joins the load that was made
    assert messages[-1].model.state == api.model.MODEL_STATE_READY
    memory = worker.models.GetMemory(
        api.model.GetMemoryRequest(model="smol"), timeout=PATIENCE
    )
    assert memory.measured.planned_bytes == memory.measured.allocated_bytes
    assert memory.measured.device_allocations_after_load == 0
    (lease,) = planner.ListLeases(api.planner.ListLeasesRequest()).leases
    assert lease.bytes == memory.plan.total_bytes
    assert lease.state == api.planner.LEASE_STATE_CONFIRMED


def test_a_stream_has_its_prompt_first_and_its_finish_last(api, pair):
    _, worker = pair
    parts = list(worker.stream(max_tokens=12))
    assert [part.HasField("prompt") for part in parts] == [True] + [False] * (
        len(parts) - 1
    )
    assert [part.HasField("finish") for part in parts] == [False] * (
        len(parts) - 1
    ) + [True]
    assert sum(len(part.tokens) for part in parts) == 12
    finish = parts[-1].finish
    assert finish.finish_reason == api.generation.FINISH_REASON_MAX_TOKENS
    assert finish.usage.generated_tokens == 12
    assert "".join(part.text for part in parts)


def test_a_stream_and_a_reply_say_the_same(api, pair):
    _, worker = pair
    request = api.generation.GenerateRequest(
        text=api.common.TextPrompt(text="Once upon a time"),
        sampling=api.generation.SamplingOptions(temperature=0),
        stopping=api.generation.StoppingOptions(max_tokens=12, ignore_eos=True),
        response=api.generation.ResponseOptions(top_logprobs=10),
    )
    reply = worker.generation.Generate(request, timeout=PATIENCE)
    parts = list(worker.stream(max_tokens=12))
    assert reply.text == "".join(part.text for part in parts)
    ids = [token.id for part in parts for token in part.tokens]
    assert [token.id for token in reply.tokens] == ids
    for token in reply.tokens:
        logprobs = [candidate.logprob for candidate in token.candidates]
        assert len(logprobs) == 10
        assert logprobs == sorted(logprobs, reverse=True)
        assert token.candidates[0].id == token.id


def test_a_cancel_frees_the_slot_and_stops_the_work(pair):
    _, worker = pair
    stream = worker.stream()
    for _ in range(3):
        next(stream)
    assert worker.model().running == 1
    stream.cancel()
    wait_for("the slot", lambda: worker.model().running == 0)
    steps = worker.model().steps
    assert len(list(worker.stream(max_tokens=4))) >= 2
    # Only the second stream's own steps were computed.
    assert worker.model().steps - steps <= 5


def test_a_prompt_longer_than_the_context_is_refused_with_both_numbers(api, pair):
    _, worker = pair
    request = api.generation.GenerateRequest(
        tokens=api.common.TokenPrompt(ids=[7] * 1025)
    )
    with pytest.raises(grpc.RpcError) as refusal:
        worker.generation.Generate(request, timeout=PATIENCE)
    assert refusal.value.code() == grpc.StatusCode.OUT_OF_RANGE
    assert "1025" in refusal.value.details()
    assert "1024" in refusal.value.details()
    reason, metadata = error_info(api, refusal.value)
    assert reason == "PROMPT_TOO_LONG"
    assert metadata["prompt_tokens"] == "1025"
    assert metadata["n_ctx"] == "1024"


def test_a_path_is_no_model(api, pair):
    _, worker = pair
    for name in ("/etc/passwd", "../smol", "smol/../smol"):
        with pytest.raises(grpc.RpcError) as refusal:
            worker.tokenizer.Tokenize(
                api.tokenizer.TokenizeRequest(model=name, text="x"),
                timeout=PATIENCE,
            )
        assert refusal.value.code() == grpc.StatusCode.NOT_FOUND
        assert error_info(api, refusal.value)[0] == "MODEL_NOT_FOUND"


def test_the_text_of_control_tokens_stays_text(api, pair):
    _, worker = pair

    def tokenize(text, special):
        request = api.tokenizer.TokenizeRequest(text=text, parse_special=special)
        return list(worker.tokenizer.Tokenize(request, timeout=PATIENCE).ids)

    def chat_ids(content):
        message = api.common.ChatMessage(
            role=api.common.CHAT_ROLE_USER, content=content
        )
        request = api.tokenizer.ApplyChatTemplateRequest(
            chat=api.common.ChatPrompt(messages=[message])
        )
        return list(
            worker.tokenizer.ApplyChatTemplate(request, timeout=PATIENCE).ids
        )

    for text in ("<|im_end|>", "<|im_start|>", "<|endoftext|>"):
        (control,) = tokenize(text, special=True)
        assert control not in tokenize(text, special=False)
        hostile = chat_ids(f"a{text}b")
        assert hostile.count(control) == chat_ids("a b").count(control)


def test_tokens_become_their_text_again(api, pair):
    _, worker = pair
    text = "Grüße, 世界 🙂 \t  end"
    ids = worker.tokenizer.Tokenize(
        api.tokenizer.TokenizeRequest(text=text), timeout=PATIENCE
    ).ids
    back = worker.tokenizer.Detokenize(
        api.tokenizer.DetokenizeRequest(ids=ids), timeout=PATIENCE
    )
    assert back.text == text


def test_a_chat_answers(api, pair):
    _, worker = pair
    message = api.common.ChatMessage(
        role=api.common.CHAT_ROLE_USER, content="What is the capital of France?"
    )
    request = api.generation.GenerateRequest(
        chat=api.common.ChatPrompt(messages=[message]),
        sampling=api.generation.SamplingOptions(temperature=0),
        stopping=api.generation.StoppingOptions(max_tokens=24),
    )
    reply = worker.generation.Generate(request, timeout=PATIENCE)
    assert "Paris" in reply.text
    assert reply.chat_format == "smollm2"
    assert reply.finish_reason == api.generation.FINISH_REASON_END_TOKEN


def test_a_model_that_does_not_fit_is_refused_with_its_numbers(
    api, start, smollm2
):
    from conftest import Worker

    worker = Worker(
        api,
        start(
            "plimsoll-worker",
            *("--model", f"smol={smollm2}", "--lazy"),
            *("--device-memory", "64MiB"),
        ),
    )
    with pytest.raises(grpc.RpcError) as refusal:
        worker.load()
    assert refusal.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    reason, metadata = error_info(api, refusal.value)
    assert reason == "MEMORY_BUDGET_EXCEEDED"
    assert metadata["available_bytes"] == str(64 << 20)
    assert int(metadata["wanted_bytes"]) > 64 << 20
    assert int(metadata["missing_bytes"]) == int(
        metadata["wanted_bytes"]
    ) - (64 << 20)
    assert str(smollm2) not in refusal.value.details()
    assert worker.model().state == api.model.MODEL_STATE_ABSENT
