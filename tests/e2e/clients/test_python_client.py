"""The Python client, waiting and for asyncio, against real servers."""

import asyncio
import threading
from datetime import timedelta

import grpc
import pytest

import installed  # noqa: F401: this comes before what it installs
from servers import Planner, until
from test_leases import DEVICE, DEVICE_BYTES, register

import plimsoll_grpc
from plimsoll_grpc import aio, v1

SECONDS = 120  # bounds every call of a test; none comes near it
LLAMA = v1.Hyperparameters(
    architecture="llama",
    n_layers=4,
    model_dim=256,
    n_heads=4,
    ffn_dim=512,
    vocab_size=1000,
    n_ctx_train=2048,
)
SOURCE = v1.ModelSource(hyperparameters=LLAMA)
GREEDY = {"model": "smollm2", "temperature": 0}


@pytest.fixture
def client(worker):
    """A client of the worker with both models."""
    with plimsoll_grpc.Worker(worker.address, timeout=SECONDS) as made:
        yield made


@pytest.fixture
def lender(planner):
    """A client of a planner with a device of DEVICE_BYTES."""
    register(planner)
    with plimsoll_grpc.Planner(planner.address, timeout=SECONDS) as made:
        yield made


def await_idle(client):
    """Waits until no request of the worker runs."""
    until(
        lambda: not any(m.running for m in client.get_load().models),
        what="a free slot",
    )


def endless(client, **options):
    """A stream that ends only when its context is full."""
    return client.stream("Once upon a time", ignore_eos=True, **GREEDY, **options)


# Text.


def test_a_stream_brings_the_text_of_a_whole_reply(client):
    whole = client.generate("The sea is", max_tokens=12, top_logprobs=2, **GREEDY)
    stream = client.stream("The sea is", max_tokens=12, top_logprobs=2, **GREEDY)
    events = list(stream)
    assert isinstance(events[0], plimsoll_grpc.Started)
    assert isinstance(events[-1], plimsoll_grpc.Finished)
    texts = [e for e in events if isinstance(e, plimsoll_grpc.Text)]
    assert "".join(e.text for e in texts) == whole.text
    tokens = [token for e in texts for token in e.tokens]
    assert tokens == list(whole.tokens) and len(tokens[0].candidates) == 2
    assert stream.prompt.prompt_ids == whole.prompt_ids
    assert stream.finish.usage.generated_tokens == 12


def test_every_form_of_a_prompt_is_understood(client):
    text = client.generate("The sea", max_tokens=4, **GREEDY)
    assert client.generate(b"The sea", max_tokens=4, **GREEDY).text == text.text
    ids = list(text.prompt_ids)
    assert client.generate(ids, max_tokens=4, **GREEDY).text == text.text
    messages = [plimsoll_grpc.system("Be short."), plimsoll_grpc.user("Hello")]
    chat = client.generate(messages, max_tokens=4, **GREEDY)
    assert chat.chat_format == "smollm2"
    rendered = client.apply_chat_template(messages, model="smollm2")
    assert chat.prompt_ids == rendered.ids
    counted = client.count_tokens(messages, model="smollm2")
    assert (counted.n_tokens, counted.n_ctx) == (len(rendered.ids), 512)
    with pytest.raises(TypeError):
        client.generate([1, plimsoll_grpc.user("Hello")])


def test_log_probabilities_of_a_prompt_are_events(client):
    options = {"prompt_logprobs": True, "top_logprobs": 0, "max_tokens": 1}
    scored = [
        logprob
        for event in client.stream("The sea is salt", **options, **GREEDY)
        if isinstance(event, plimsoll_grpc.PromptScored)
        for logprob in event.logprobs
    ]
    n_tokens = len(client.tokenize("The sea is salt", model="smollm2"))
    assert len(scored) == n_tokens - 1 and max(scored) < 0


def test_a_reply_keeps_to_a_constraint(client):
    for options in ({"regex": "yes|no"}, {"gbnf": 'root ::= "yes" | "no"'}):
        reply = client.generate("Is it?", model="smollm2", **options)
        assert reply.text in ("yes", "no")


def test_a_cancelled_stream_frees_its_slot(client):
    stream = endless(client)
    next(stream)
    stream.cancel()
    assert list(stream) == [] and stream.finish is None
    await_idle(client)
    with endless(client) as stream:
        next(stream)
    await_idle(client)


def test_another_thread_cancels_a_stream(client):
    stream = endless(client)
    next(stream)
    timer = threading.Timer(0, stream.cancel)
    timer.start()
    stream.text()
    timer.join()
    assert stream.finish is None
    await_idle(client)


def test_a_deadline_ends_a_call(client):
    with pytest.raises(plimsoll_grpc.DeadlineError) as caught:
        endless(client, timeout=0.05).text()
    assert caught.value.code == grpc.StatusCode.DEADLINE_EXCEEDED
    await_idle(client)


def test_an_operator_ends_a_request(client):
    stream = endless(client, request_id="doomed")
    next(stream)
    found = client.abort(["doomed", "nobody"], reason="too long")
    assert list(found.found_request_ids) == ["doomed"]
    with pytest.raises(plimsoll_grpc.EndedError, match="too long") as caught:
        stream.text()
    assert caught.value.reason == "ABORTED"


def test_scores_and_tokens(client):
    scores = client.score("The sea is", [" blue", [28]], model="smollm2").scores
    assert [len(score.ids) for score in scores] == [1, 1]
    ids = client.tokenize("salt and bread", model="smollm2")
    assert client.detokenize(ids, model="smollm2") == "salt and bread"
    assert client.tokenize(b"salt and bread", model="smollm2") == ids


# Sessions.


def test_a_session_remembers(client):
    with client.open_session(
        model="smollm2", system="Be short.", ttl=timedelta(minutes=1)
    ) as session:
        stream = session.say("Hello", max_tokens=8, temperature=0)
        assert stream.text() and stream.finish.finish_reason
        again = client.session(session.id, model="smollm2")
        again.say("Hello again", max_tokens=8, temperature=0).text()
        assert session.info().turns == 2 and session.info().ttl.seconds == 60
        assert [s.session_id for s in client.list_sessions("smollm2")] == [session.id]
    with pytest.raises(plimsoll_grpc.NotFoundError) as caught:
        session.info()
    assert caught.value.reason == "SESSION_NOT_FOUND"


def test_sessions_belong_to_a_tenant(client, worker):
    with (
        client.open_session(model="smollm2"),
        plimsoll_grpc.Worker(worker.address, tenant="another") as other,
    ):
        assert len(client.list_sessions("smollm2")) == 1
        assert len(other.list_sessions("smollm2")) == 0


# Models.


def test_a_model_is_loaded_and_unloaded(lazy_worker):
    with plimsoll_grpc.Worker(lazy_worker.address, timeout=SECONDS) as client:
        with pytest.raises(plimsoll_grpc.StateError, match="MODEL_NOT_LOADED"):
            client.generate("Hello")
        parts = list(client.load_model(options=v1.LoadOptions(n_slots=1)))
        assert parts[-1].model.state == v1.MODEL_STATE_READY
        memory = client.get_memory()
        assert memory.plan.n_ctx == 512 and memory.plan.options.n_slots == 1
        assert memory.measured.planned_bytes == memory.measured.allocated_bytes
        client.unload_model()
        assert client.list_models()[0].state == v1.MODEL_STATE_ABSENT
        assert not client.drain(wait=True).running_calls
        assert not client.is_serving()
        with pytest.raises(plimsoll_grpc.UnavailableError) as caught:
            client.session("any").say("Hello").text()
        assert caught.value.reason == "DRAINING"


# Plans and leases.


def test_plans_and_grids(lender):
    request = v1.PlanRequest(source=SOURCE, budget_bytes=1 << 30)
    plan = lender.plan(request).plan
    assert plan.fits and plan.n_ctx == 2048
    batch = v1.BatchPlanRequest(requests=[request])
    assert lender.batch_plan(batch).results[0].plan == plan
    grid = v1.WhatIfRequest(
        source=SOURCE,
        devices=[v1.WhatIfDevice(budget_bytes=1 << 30)],
        n_slots=range(1, 301),
    )
    parts = list(lender.what_if(grid))
    assert sum(len(part.points) for part in parts) == parts[0].n_points == 300
    assert lender.list_catalogue().devices


def test_a_lease_is_held_renewed_and_released(lender):
    with lender.hold(DEVICE, 600, holder="a test", purpose="bytes") as held:
        assert held.lease.state == v1.LEASE_STATE_RESERVED
        assert held.confirm(500).state == v1.LEASE_STATE_CONFIRMED
        assert held.renew().measured_bytes == 500
        assert lender.list_leases().leases[0].id == held.lease.id
        with pytest.raises(plimsoll_grpc.MemoryBudgetError) as caught:
            lender.hold(DEVICE, DEVICE_BYTES, holder="a test")
        assert caught.value.metadata["wanted_bytes"] == str(DEVICE_BYTES)
        assert "available_bytes" in caught.value.metadata and caught.value.advice
    assert held.lease.state == v1.LEASE_STATE_RELEASED
    assert not lender.list_leases().leases


def test_only_who_reserved_a_lease_releases_it(lender):
    with lender.hold(DEVICE, 600, holder="a test") as held:
        named = {"lease_id": held.lease.id, "epoch": held.lease.epoch}
        with pytest.raises(plimsoll_grpc.PlimsollError, match="secret"):
            lender.release(v1.ReleaseRequest(**named))
        with pytest.raises(plimsoll_grpc.PlimsollError) as caught:
            request = v1.ForceReleaseRequest(lease_id=held.lease.id, reason="a test")
            lender.force_release(request)
        assert caught.value.reason == "LEASE_HELD"
    assert held.lease.state == v1.LEASE_STATE_RELEASED


def test_devices_are_watched(lender):
    with lender.watch_devices(v1.WatchDevicesRequest(only_changes=True)) as changes:
        assert next(changes).devices[0].held_bytes == 0
        with lender.hold(DEVICE, 600, holder="a test"):
            assert next(changes).devices[0].held_bytes == 600


def test_a_planner_that_recovers_is_asked_again():
    flags = ("--lease-ttl=0.5", "--recovery-time=0.5")
    with Planner(*flags, first=False) as server:
        register(server)
        with plimsoll_grpc.Planner(server.address) as client:
            client.hold(DEVICE, 1, holder="a test").release()


# What fails before a server answers.


def test_nobody_listens():
    with plimsoll_grpc.Worker("127.0.0.1:1") as client:
        with pytest.raises(plimsoll_grpc.UnavailableError, match="address") as caught:
            client.session("any").say("Hello").text()
    assert caught.value.reason == ""


# For asyncio: what the source of both says is tested above.


def run_async(scenario, address):
    """Runs a scenario with a client of the worker at `address`."""

    async def run():
        async with aio.Worker(address, timeout=SECONDS) as client:
            return await scenario(client)

    return asyncio.run(run())


def test_asyncio_generates_and_streams(worker):
    async def scenario(client):
        whole = await client.generate("The sea is", max_tokens=8, **GREEDY)
        stream = client.stream("The sea is", max_tokens=8, **GREEDY)
        other = client.stream("A ship", max_tokens=8, **GREEDY)
        texts = await asyncio.gather(stream.text(), other.text())
        assert texts[0] == whole.text and texts[1]
        assert stream.finish.usage.generated_tokens == 8
        async with await client.open_session(model="smollm2") as session:
            assert await session.say("Hello", max_tokens=4).text()
        with pytest.raises(plimsoll_grpc.NotFoundError):
            await client.generate("Hello", model="nobody")
        return await client.is_serving()

    assert run_async(scenario, worker.address)


def test_asyncio_cancels_streams_and_tasks(worker, client):
    async def scenario(asynchronous):
        stream = endless(asynchronous)
        await anext(stream)
        stream.cancel()
        assert [event async for event in stream] == []
        stream = endless(asynchronous)
        await anext(stream)
        task = asyncio.create_task(stream.text())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(plimsoll_grpc.DeadlineError):
            await endless(asynchronous, timeout=0.05).text()

    run_async(scenario, worker.address)
    await_idle(client)


def test_asyncio_holds_a_lease(planner):
    register(planner)

    async def scenario():
        async with aio.Planner(planner.address) as client:
            async with await client.hold(DEVICE, 600, holder="a test") as held:
                await held.confirm(600)
                with pytest.raises(plimsoll_grpc.MemoryBudgetError):
                    await client.hold(DEVICE, 600, holder="a test")
            return held.lease.state

    assert asyncio.run(scenario()) == v1.LEASE_STATE_RELEASED
