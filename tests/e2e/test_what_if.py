"""WhatIf and BatchPlan over gRPC, and what the command makes of them."""

import csv
import io
import xml.etree.ElementTree

import grpc
import pytest

from command_line import parsed, plimsoll
from conftest import model_flag
from servers import CALL_SECONDS, Failure, Planner, refused, small_channel, until
from stubs import PlannerStub, common, planner as v1

GIB = 1 << 30
MIB = 1 << 20
POINTS_PER_MESSAGE = 256
MAX_CALLS = 8  # calls of WhatIf at once


@pytest.fixture(scope="module")
def planner(smollm2, gemma3):
    """A planner that knows both models."""
    with Planner(model_flag("smollm2"), model_flag("gemma3")) as server:
        yield server


def grid(name, *budgets, **axes):
    """A request for a model by name, on this build's CPU profile."""
    return v1.WhatIfRequest(
        source=v1.ModelSource(model=name),
        devices=[v1.WhatIfDevice(budget_bytes=budget) for budget in budgets],
        **axes,
    )


def ask(server, request):
    """All messages of a call."""
    return list(server.stub.WhatIf(request, timeout=CALL_SECONDS))


def points_of(messages):
    """All points of a call."""
    return [point for message in messages for point in message.points]


def test_every_point_is_what_plan_says(planner, any_model):
    request = grid(
        any_model,
        300 * MIB,
        GIB,
        n_ctx=[0, 100, 2048],
        n_slots=[1, 3],
        n_ubatch=[64, 512],
        kv_types=[
            v1.KvTypes(),
            v1.KvTypes(k_type=common.ELEMENT_TYPE_F32),
        ],
    )
    points = points_of(ask(planner, request))
    assert len(points) == 2 * 2 * 2 * 2 * 3
    for point in points:
        options = common.LoadOptions(
            n_slots=point.n_slots,
            n_ubatch=point.n_ubatch,
            k_type=point.k_type,
            v_type=point.v_type,
        )
        if point.wanted_ctx:
            options.n_ctx = point.wanted_ctx
        plan = planner.stub.Plan(
            v1.PlanRequest(
                source=request.source,
                options=options,
                budget_bytes=request.devices[point.device].budget_bytes,
            )
        ).plan
        for field in ("n_ctx", "fits", "budget_bytes", "total_bytes", "arena_bytes"):
            assert getattr(point, field) == getattr(plan, field), field
        assert point.missing_bytes == plan.missing_bytes
        assert point.kv_bytes_per_token == plan.kv_bytes_per_token
        kv = (r.bytes for r in plan.regions if r.name in ("kv_full", "kv_window"))
        assert point.kv_bytes == sum(kv)


def test_weights_of_one_type_take_what_that_type_takes(planner):
    types = [common.ELEMENT_TYPE_UNSPECIFIED, common.ELEMENT_TYPE_F16]
    request = grid("smollm2", 4 * GIB, n_ctx=[64], weight_types=types)
    as_in_file, as_f16 = points_of(ask(planner, request))
    assert as_in_file.weight_type == common.ELEMENT_TYPE_UNSPECIFIED
    assert as_f16.weight_type == common.ELEMENT_TYPE_F16
    # 134.5 million parameters in 2 bytes each, and little else that differs.
    assert 2 * 134_515_008 < as_f16.total_bytes < 2 * 134_515_008 + 64 * MIB
    assert as_in_file.total_bytes < as_f16.total_bytes


def test_a_hundred_thousand_points_come_in_large_messages(planner):
    request = grid("gemma3", *(i * 20 * MIB for i in range(1, 51)))
    request.n_ctx.extend([0, 512, 1024, 2048, 4096, 8192, 16384, 32768])
    request.n_slots.extend(range(1, 26))
    request.n_ubatch.extend([32, 64, 128, 256, 512])
    request.kv_types.extend(
        [v1.KvTypes(), v1.KvTypes(k_type=common.ELEMENT_TYPE_F32)]
    )
    messages = ask(planner, request)
    n_points = 50 * 8 * 25 * 5 * 2
    assert messages[0].n_points == n_points
    with_points = [m for m in messages if m.points]
    assert all(len(m.points) >= POINTS_PER_MESSAGE for m in with_points[:-1])
    points = points_of(messages)
    assert len(points) == n_points
    frontier = [index for m in messages for index in m.frontier]
    assert frontier == sorted(set(frontier))
    assert frontier and all(points[i].fits for i in frontier)
    assert messages.index(with_points[-1]) < messages.index(messages[-1])


def has_room(server):
    """Whether another call is taken."""
    try:
        return ask(server, grid("gemma3", GIB))
    except grpc.RpcError as error:
        assert Failure(error).info.reason == "QUEUE_FULL"
        return None


def test_a_cancelled_call_ends_and_the_planner_lives(planner):
    request = grid("gemma3", GIB, n_ctx=[0] * 1000, n_slots=list(range(1, 1001)))
    for _ in range(20):
        # The planner hears of a cancelled call a little later.
        until(lambda: has_room(planner), what="the end of a cancelled call")
        call = planner.stub.WhatIf(request, timeout=CALL_SECONDS)
        assert next(call).n_points == 1_000_000
        call.cancel()
    until(lambda: has_room(planner), what="the end of a cancelled call")
    with refused(grpc.StatusCode.INVALID_ARGUMENT):
        ask(planner, grid("gemma3", GIB, n_slots=[0]))


def is_cancelled(call):
    """Whether a call that was not read yet is cancelled soon."""
    try:
        for _ in range(100):
            next(call)
    except grpc.RpcError as error:
        return error.code() == grpc.StatusCode.CANCELLED
    return False


def test_a_reader_that_never_reads_is_cancelled_and_makes_room(gemma3):
    request = grid("gemma3", GIB, n_ctx=[0] * 1000, n_slots=list(range(1, 1001)))
    with Planner(model_flag("gemma3"), "--reader-timeout=0.2") as server:
        with small_channel(server.address) as channel:
            stub = PlannerStub(channel)
            calls = [
                stub.WhatIf(request, timeout=CALL_SECONDS) for _ in range(MAX_CALLS)
            ]
            for call in calls:
                call.initial_metadata()  # it has begun

            until(lambda: has_room(server), seconds=25, what="a cancelled call")
            assert any(is_cancelled(call) for call in calls)


def test_a_grid_above_the_limit_is_refused(planner):
    request = grid("gemma3", GIB, n_ctx=[0] * 1001, n_slots=[1] * 1000)
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD") as failures:
        ask(planner, request)
    assert "1000000" in failures[0].message


def test_a_device_is_needed(planner):
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD") as failures:
        ask(planner, grid("gemma3"))
    assert "devices" in failures[0].message


def test_a_batch_replies_for_each_request(planner, any_model):
    def request(budget, **options):
        return v1.PlanRequest(
            source=v1.ModelSource(model=any_model),
            options=common.LoadOptions(**options),
            budget_bytes=budget,
        )

    requests = [request(GIB), request(1), request(GIB, n_slots=5000)]
    reply = planner.stub.BatchPlan(v1.BatchPlanRequest(requests=requests))
    assert [r.WhichOneof("result") for r in reply.results] == [
        "plan",
        "plan",
        "failure",
    ]
    for asked, result in zip(requests[:2], reply.results):
        assert result.plan == planner.stub.Plan(asked).plan
    failure = reply.results[2].failure
    assert failure.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
    assert failure.reason == common.ERROR_REASON_INVALID_FIELD
    assert "n_slots" in failure.message


def test_a_batch_of_257_is_refused(planner):
    source = v1.ModelSource(model="smollm2")
    one = v1.PlanRequest(source=source, budget_bytes=GIB)
    reply = planner.stub.BatchPlan(v1.BatchPlanRequest(requests=[one] * 256))
    assert len(reply.results) == 256
    with refused(grpc.StatusCode.INVALID_ARGUMENT):
        planner.stub.BatchPlan(v1.BatchPlanRequest(requests=[one] * 257))


FLAGS = (
    "--device-memory", "400MiB,1GiB", "--n-ctx", "2048,auto", "--slots", "1,4",
    "--kv-type", "f16,f32", "--weights", "file,q8_0",
)  # fmt: skip


def test_the_command_says_the_same_here_and_at_a_planner(planner, gemma3, tmp_path):
    here = parsed(plimsoll("what-if", str(gemma3), *FLAGS, "-o", "json"))
    at = ("--planner", planner.address, "-o", "json")
    by_header = parsed(plimsoll("what-if", str(gemma3), *FLAGS, *at))
    by_name = parsed(plimsoll("what-if", "gemma3", *FLAGS, *at))
    assert here == by_header == by_name
    assert here["n_points"] == len(here["points"]) == 32

    done = plimsoll("what-if", str(gemma3), *FLAGS, "-o", "csv")
    rows = list(csv.DictReader(io.StringIO(done.stdout.decode())))
    for row, point in zip(rows, here["points"], strict=True):
        assert row["total_bytes"] == point["total_bytes"]
        assert row["n_ctx"] == str(point["n_ctx"])
        assert (row["fits"] == "true") == point["fits"]
    best = [i for i, row in enumerate(rows) if row["frontier"] == "true"]
    assert best == here["frontier"]


def test_the_picture_is_xml_with_every_cell(gemma3, tmp_path):
    path = tmp_path / "map.svg"
    done = plimsoll("what-if", str(gemma3), *FLAGS, "--svg", str(path))
    assert done.returncode == 0, done.stderr.decode()
    assert path.stat().st_size <= 100_000
    root = xml.etree.ElementTree.parse(path).getroot()
    svg = "{http://www.w3.org/2000/svg}"
    assert root.tag == svg + "svg"
    tooltips = root.findall(f"{svg}rect/{svg}title")
    assert len(tooltips) == 32
    assert root.find(svg + "title").text == gemma3.name


def test_describe_says_the_same_here_and_at_a_planner(planner, gemma3):
    flags = ("models", "describe", "-o", "json")
    here = parsed(plimsoll(*flags, str(gemma3)))
    assert here == parsed(plimsoll(*flags, "gemma3", "--planner", planner.address))
    assert here["architecture"] == "gemma3"
