"""Plans over gRPC: by a model's name, by a header, and what does not fit."""

from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from grpc_health.v1 import health_pb2

from conftest import model_file, model_flag
from gguf_header import travelling_header
from servers import Planner, refused, until
from stubs import common, planner as v1
from test_leases import SHORT, named, register, reserve

GIB = 1 << 30
BATCH_SECONDS = 30  # it takes far less than one, and took minutes
QUICK_SECONDS = 2


@pytest.fixture(scope="module")
def planner(smollm2, gemma3):
    """A planner that knows both models."""
    with Planner(model_flag("smollm2"), model_flag("gemma3")) as server:
        yield server


def plan(server, source, budget, **options):
    """The plan of a source, on the build's own CPU profile."""
    request = v1.PlanRequest(
        source=source,
        options=common.LoadOptions(**options),
        budget_bytes=budget,
    )
    return server.stub.Plan(request).plan


def by_name(name):
    """A configured model."""
    return v1.ModelSource(model=name)


def by_header(name):
    """A header of a real model's file."""
    path = model_file(name)
    header = v1.ModelHeader(
        gguf=travelling_header(path), file_bytes=path.stat().st_size
    )
    return v1.ModelSource(header=header)


def test_describes_a_model_by_name_and_by_header(planner, any_model):
    replies = [
        planner.stub.DescribeModel(v1.DescribeModelRequest(source=source))
        for source in (by_name(any_model), by_header(any_model))
    ]
    assert replies[0] == replies[1]
    described = replies[0]
    assert described.architecture == {"smollm2": "llama", "gemma3": "gemma3"}[any_model]
    assert described.weight_bytes == sum(w.bytes for w in described.weights)
    assert 0 < described.weight_bytes < model_file(any_model).stat().st_size


def test_header_gives_the_same_plan_as_the_name(planner, any_model):
    options = {"n_ctx": 512, "n_slots": 2}
    named = plan(planner, by_name(any_model), GIB, **options)
    assert named == plan(planner, by_header(any_model), GIB, **options)
    assert named.fits and named.missing_bytes == 0
    assert (named.n_ctx, named.n_ctx_limit) == (512, common.CONTEXT_LIMIT_REQUESTED)


def test_regions_add_up_and_do_not_overlap(planner, any_model):
    found = plan(planner, by_name(any_model), GIB, n_ctx=512)
    inside = [r for r in found.regions if r.HasField("offset")]
    outside = sum(r.bytes for r in found.regions if not r.HasField("offset"))
    assert found.total_bytes == found.arena_bytes + outside
    end = 0
    for region in inside:
        assert region.offset >= end
        assert region.offset % region.alignment == 0
        end = region.offset + region.bytes
    assert end <= found.arena_bytes
    assert all(r.basis != common.BASIS_UNSPECIFIED for r in found.regions)
    names = [region.name for region in found.regions]
    assert {"weights", "vocab", "runtime"} <= set(names)


def test_without_n_ctx_a_large_budget_gives_the_trained_context(planner, any_model):
    source = by_name(any_model)
    described = planner.stub.DescribeModel(v1.DescribeModelRequest(source=source))
    found = plan(planner, source, 64 * GIB)
    assert found.n_ctx == described.n_ctx_train
    assert found.n_ctx_limit == common.CONTEXT_LIMIT_TRAINED_CONTEXT


def test_without_n_ctx_the_largest_that_fits_is_given(planner, any_model):
    source = by_name(any_model)
    budget = plan(planner, source, GIB, n_ctx=1000).total_bytes
    found = plan(planner, source, budget)
    assert found.fits and found.n_ctx >= 1000
    assert found.n_ctx_limit == common.CONTEXT_LIMIT_MEMORY
    assert not plan(planner, source, budget, n_ctx=found.n_ctx + 1).fits
    assert str(found.n_ctx) in found.n_ctx_reason.replace(",", "")


def test_max_inference_len_limits_the_context(planner, any_model):
    found = plan(planner, by_name(any_model), GIB, max_inference_len=32)
    assert found.n_ctx == 32
    assert found.n_ctx_limit == common.CONTEXT_LIMIT_MAX_INFERENCE_LEN


def test_a_plan_that_does_not_fit_says_what_is_missing_and_what_to_try(
    planner, any_model
):
    source = by_name(any_model)
    needed = plan(planner, source, GIB, n_ctx=2048).total_bytes
    found = plan(planner, source, needed - 1, n_ctx=2048)
    assert not found.fits
    assert (found.total_bytes, found.missing_bytes) == (needed, 1)
    assert found.suggestions
    assert all(suggestion.saves_bytes >= 1 for suggestion in found.suggestions)


def test_no_budget_is_small_enough_to_fail_the_call(planner, any_model):
    found = plan(planner, by_name(any_model), 1)
    assert not found.fits
    assert found.n_ctx == 0
    assert found.missing_bytes == found.total_bytes - 1


def test_unknown_model_is_refused(planner):
    with refused(grpc.StatusCode.NOT_FOUND, "MODEL_NOT_FOUND"):
        plan(planner, by_name("no such model"), GIB)


def test_unknown_device_is_refused(planner):
    request = v1.PlanRequest(source=by_name("smollm2"), device_id="no such device")
    with refused(grpc.StatusCode.NOT_FOUND, "DEVICE_NOT_FOUND"):
        planner.stub.Plan(request)


def test_budget_is_needed_without_a_device(planner):
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD") as failures:
        planner.stub.Plan(v1.PlanRequest(source=by_name("smollm2")))
    assert "budget_bytes" in failures[0].message


def test_source_is_needed(planner):
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD") as failures:
        planner.stub.DescribeModel(v1.DescribeModelRequest())
    assert "source" in failures[0].message


@pytest.mark.parametrize(
    "field, value",
    [
        ("n_ctx", 0),
        ("max_inference_len", 0),
        ("n_slots", 0),
        ("n_slots", 4097),
        ("n_ubatch", 0),
        ("n_ubatch", 65537),
        ("n_idle_sessions", 65537),
        ("k_type", common.ELEMENT_TYPE_Q4_K),
        ("v_type", 999),
        ("margin_bytes", 1 << 63),
    ],
)
def test_bad_load_option_is_named(planner, field, value):
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD") as failures:
        plan(planner, by_name("smollm2"), GIB, **{field: value})
    assert field in failures[0].message


def test_f12_damaged_headers_are_refused_and_the_planner_lives(planner, smollm2):
    whole = travelling_header(smollm2)
    size = smollm2.stat().st_size
    for length in (0, 3, 4, 24, 100, len(whole) // 2, len(whole) - 64):
        header = v1.ModelHeader(gguf=whole[:length], file_bytes=size)
        with pytest.raises(grpc.RpcError) as caught:
            plan(planner, v1.ModelSource(header=header), GIB)
        codes = (grpc.StatusCode.DATA_LOSS, grpc.StatusCode.INVALID_ARGUMENT)
        assert caught.value.code() in codes, length
    assert plan(planner, by_name("smollm2"), GIB).fits


def test_header_longer_than_a_mebibyte_is_refused(planner):
    header = v1.ModelHeader(gguf=b"G" * ((1 << 20) + 1), file_bytes=1 << 30)
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as failures:
        plan(planner, v1.ModelSource(header=header), GIB)
    assert "header.gguf" in failures[0].message


def imagined_strings(i):
    """49 bytes that claim 2^30 strings, in a file of some 2^50 bytes."""
    header = b"".join((
        b"GGUF", (3).to_bytes(4, "little"),
        (0).to_bytes(8, "little"), (1).to_bytes(8, "little"),  # tensors, values
        (1).to_bytes(8, "little"), b"a",  # the key
        (9).to_bytes(4, "little"), (8).to_bytes(4, "little"),  # list of strings
        (1 << 30).to_bytes(8, "little"),
    ))
    assert len(header) == 49
    return v1.ModelSource(
        header=v1.ModelHeader(gguf=header, file_bytes=(1 << 50) + i)
    )


def test_f12_headers_that_claim_what_is_not_there_hold_nobody_up():
    batch = v1.BatchPlanRequest(requests=[
        v1.PlanRequest(source=imagined_strings(i), budget_bytes=GIB)
        for i in range(256)
    ])
    with Planner(*SHORT) as server:
        register(server)

        def grant():
            try:
                return reserve(server, "r", 1)
            except grpc.RpcError as error:
                assert error.code() == grpc.StatusCode.UNAVAILABLE  # it recovers
                return None

        lease = named(until(grant))
        server.stub.Confirm(v1.ConfirmRequest(measured_bytes=1, **lease))
        with ThreadPoolExecutor(2) as pool:
            replies = [
                pool.submit(server.stub.BatchPlan, batch, timeout=BATCH_SECONDS)
                for _ in range(2)
            ]
            while True:
                is_last = all(reply.done() for reply in replies)
                server.stub.Renew(v1.RenewRequest(**lease), timeout=QUICK_SECONDS)
                server.health.Check(
                    health_pb2.HealthCheckRequest(), timeout=QUICK_SECONDS
                )
                if is_last:
                    break
        for reply in replies:
            results = reply.result().results
            assert len(results) == 256
            assert all(result.HasField("failure") for result in results)
