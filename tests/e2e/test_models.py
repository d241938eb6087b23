"""Loading exactly to the plan, unloading, and what does not fit."""

from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from asks import GREEDY, generate, text
from conftest import model_flag
from servers import CALL_SECONDS, Planner, Worker, refused, until
from stubs import common, model as v1, planner as planner_v1


def say(server):
    """A few greedy tokens."""
    request = generate(text=text("Once upon"), sampling=GREEDY, max_tokens=4)
    return server.generation.Generate(request, timeout=CALL_SECONDS)


def memory(server):
    """What the only model takes."""
    return server.models.GetMemory(v1.GetMemoryRequest(), timeout=CALL_SECONDS)


def unload(server):
    server.models.UnloadModel(v1.UnloadModelRequest(), timeout=CALL_SECONDS)


def test_load_reports_its_plan_once_its_progress_and_the_model(lazy_worker):
    assert lazy_worker.model().state == v1.MODEL_STATE_ABSENT
    messages = lazy_worker.load(n_ctx=300, n_slots=1)
    plans = [m.plan for m in messages if m.HasField("plan")]
    assert len(plans) == 1
    assert plans[0].fits and plans[0].n_ctx == 300
    done = [m.bytes_done for m in messages if m.HasField("bytes_done")]
    assert done and done == sorted(done)
    totals = {m.bytes_total for m in messages if m.HasField("bytes_total")}
    assert totals == {done[-1]}
    assert [m.HasField("model") for m in messages].index(True) == len(messages) - 1
    ready = messages[-1].model
    assert messages[-1].state == ready.state == v1.MODEL_STATE_READY
    assert (ready.name, ready.n_ctx, ready.n_slots) == ("smollm2", 300, 1)
    assert ready.total_bytes == plans[0].total_bytes
    assert ready.architecture == "llama"


def test_loading_a_loaded_model_answers_with_its_plan(lazy_worker):
    lazy_worker.load(n_ctx=300)
    messages = lazy_worker.load(n_ctx=200)  # options are ignored now
    assert messages[-1].model.n_ctx == 300
    assert [m.plan.n_ctx for m in messages if m.HasField("plan")] == [300]


def test_f18_many_loads_are_one(smollm2):
    with Planner() as planner:
        flags = ("--lazy", "--n-ctx=256", f"--planner={planner.address}")
        with Worker(model_flag("smollm2"), *flags) as server:
            with ThreadPoolExecutor(8) as pool:
                loads = list(pool.map(lambda _: server.load(), range(8)))
            assert all(m[-1].model.state == v1.MODEL_STATE_READY for m in loads)
            (lease,) = planner.leases()
            # The epoch grows with every grant: there was one.
            request = planner_v1.ReserveRequest(
                request_id="next",
                device_id=lease.device_id,
                holder="next",
                bytes=1,
            )
            following = planner.stub.Reserve(request, timeout=CALL_SECONDS).lease
            assert following.epoch == lease.epoch + 1


def test_a_load_goes_on_without_its_caller(lazy_worker):
    call = lazy_worker.models.LoadModel(v1.LoadModelRequest())
    next(call)
    call.cancel()
    until(
        lambda: lazy_worker.model().state == v1.MODEL_STATE_READY,
        seconds=60,
        what="the model",
    )


def test_nothing_is_allocated_beside_the_plan(lazy_worker):
    plan = next(m.plan for m in lazy_worker.load() if m.HasField("plan"))
    before = memory(lazy_worker)
    assert before.plan.arena_bytes == plan.arena_bytes
    # What the allocator's rounding adds is in the plan's margin.
    rounding, = [r.bytes for r in plan.regions if r.name == "margin"]
    assert before.measured.planned_bytes == plan.arena_bytes + rounding
    assert before.measured.allocated_bytes == before.measured.planned_bytes
    assert say(lazy_worker).memory.device_allocations_after_load == 0
    after = memory(lazy_worker)
    assert after.measured.device_allocations_after_load == 0
    assert after.measured.allocated_bytes == before.measured.allocated_bytes
    assert 0 < after.rss_bytes
    assert after.model == "smollm2"


def test_unloaded_model_is_refused_and_can_be_loaded_again(lazy_worker):
    lazy_worker.load()
    first = say(lazy_worker)
    for _ in range(2):  # unloading what is not loaded is no error
        unload(lazy_worker)
        assert lazy_worker.model().state == v1.MODEL_STATE_ABSENT
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "MODEL_NOT_LOADED"):
        say(lazy_worker)
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "MODEL_NOT_LOADED"):
        memory(lazy_worker)
    lazy_worker.load()
    assert say(lazy_worker).text == first.text


def test_unloading_gives_the_lease_back(smollm2):
    with Planner() as planner:
        flags = ("--n-ctx=256", f"--planner={planner.address}")
        with Worker(model_flag("smollm2"), *flags) as server:
            server.await_ready()
            assert planner.devices()[0].held_bytes > 0
            unload(server)
            assert not planner.leases()
            assert planner.devices()[0].held_bytes == 0


def test_lease_holds_the_plan_and_what_was_measured(smollm2):
    with Planner() as planner:
        flags = ("--n-ctx=256", f"--planner={planner.address}", "--device-id=here")
        with Worker(model_flag("smollm2"), *flags) as server:
            server.await_ready()
            lease, = planner.leases()
            found = memory(server)
            assert lease.state == planner_v1.LEASE_STATE_CONFIRMED
            assert (lease.device_id, lease.purpose) == ("here", "smollm2")
            assert lease.bytes == found.plan.total_bytes
            measured = found.measured
            expected = measured.allocated_bytes + measured.vocab_bytes
            assert lease.measured_bytes == min(expected, lease.bytes)
            assert server.model().device_id == "here"


def test_a_killed_workers_bytes_are_free_again(smollm2):
    with Planner() as planner:
        flags = ("--n-ctx=256", f"--planner={planner.address}")
        with Worker(model_flag("smollm2"), *flags) as server:
            server.await_ready()
            lease, = planner.leases()
            assert lease.watched_pid == server.process.pid
            server.kill()
            until(lambda: not planner.leases(), what="the lease's end")
            assert planner.devices()[0].held_bytes == 0


def test_a_planner_that_forgot_takes_the_lease_back(smollm2):
    with Planner() as planner:
        flags = ("--n-ctx=256", f"--planner={planner.address}", "--device-id=here")
        with Worker(model_flag("smollm2"), *flags) as server:
            server.await_ready()
            lease, = planner.leases()
            planner.kill()
            assert say(server).text
            with Planner(f"--listen={planner.address}", first=False) as second:
                back, = until(second.leases, what="the lease's return")
                assert (back.id, back.epoch) == (lease.id, lease.epoch)
                assert back.state == planner_v1.LEASE_STATE_CONFIRMED
                assert (back.bytes, back.purpose) == (lease.bytes, lease.purpose)
                assert second.devices()[0].held_bytes == lease.bytes
                assert second.listed().HasField("recovery_left")
                assert say(server).text


def test_what_does_not_fit_is_refused_with_numbers(smollm2):
    flags = ("--lazy", "--device-memory=64MiB")
    with Worker(model_flag("smollm2"), *flags) as server:
        with refused(
            grpc.StatusCode.RESOURCE_EXHAUSTED, "MEMORY_BUDGET_EXCEEDED"
        ) as failures:
            server.load(n_ctx=2048)
        details = failures[0].info.metadata
        wanted, there = int(details["wanted_bytes"]), int(details["available_bytes"])
        assert there == 64 << 20
        assert int(details["missing_bytes"]) == wanted - there > 0
        assert "try" in details
        assert str(wanted) in failures[0].message
        state = server.model()
        assert state.state == v1.MODEL_STATE_ABSENT
        assert str(wanted) in state.last_error
        assert server.serving("liveness")


def test_what_fits_with_less_context_says_so(smollm2):
    with Worker(model_flag("smollm2"), "--lazy", "--device-memory=320MiB") as server:
        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED) as failures:
            server.load(n_ctx=8192, n_slots=4)
        assert failures[0].info.metadata["try"]
        ready = server.load(n_slots=1)[-1].model
        assert 0 < ready.n_ctx < 8192
        assert ready.total_bytes <= 320 << 20
        assert say(server).text


def test_two_workers_never_hold_more_than_the_device(smollm2):
    # The planner's book decides, whatever each worker would take by itself.
    with Planner() as planner:
        flags = ("--lazy", f"--planner={planner.address}", "--device-id=shared")
        with Worker(model_flag("smollm2"), *flags) as one:
            with Worker(model_flag("smollm2"), *flags) as two:
                with ThreadPoolExecutor(2) as pool:
                    list(pool.map(lambda s: s.load(n_ctx=256), (one, two)))
                held = sum(server.model().total_bytes for server in (one, two))
                device, = planner.devices()
                assert device.held_bytes == held <= device.profile.total_bytes


def test_unknown_model_is_refused(lazy_worker):
    with refused(grpc.StatusCode.NOT_FOUND, "MODEL_NOT_FOUND") as failures:
        lazy_worker.load("no-such-model")
    assert failures[0].info.metadata["model"] == "no-such-model"
    assert ".gguf" not in failures[0].message


@pytest.mark.parametrize(
    "field, value",
    [("n_ctx", 0), ("n_slots", 4097), ("n_ubatch", 0), ("k_type", 999)],
)
def test_bad_option_is_named(lazy_worker, field, value):
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD") as failures:
        lazy_worker.load(**{field: value})
    assert field in failures[0].message
    assert lazy_worker.model().state == v1.MODEL_STATE_ABSENT


def test_a_file_that_is_no_model_is_refused_without_its_path(tmp_path):
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF" + b"\xff" * 100)
    with Worker(f"--model=broken={path}", "--lazy") as server:
        with pytest.raises(grpc.RpcError) as caught:
            server.load()
        codes = (grpc.StatusCode.DATA_LOSS, grpc.StatusCode.INVALID_ARGUMENT)
        assert caught.value.code() in codes
        assert str(tmp_path) not in caught.value.details()
        assert str(tmp_path) not in server.model().last_error
        assert server.serving("liveness")


def test_kv_type_of_a_load_counts(lazy_worker):
    wide = common.ELEMENT_TYPE_F32
    plan = next(
        m.plan
        for m in lazy_worker.load(k_type=wide, v_type=wide)
        if m.HasField("plan")
    )
    assert (plan.options.k_type, plan.options.v_type) == (wide, wide)
