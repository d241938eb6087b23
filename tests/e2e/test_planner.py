"""Plans and leases, from a client of the protos."""

import grpc
import pytest

from conftest import PATIENCE, error_info, wait_for


@pytest.fixture
def planner(api, start):
    """The stub of a planner with one device of 1,000,000 bytes."""
    stub = api.planner_grpc.PlannerServiceStub(start("plimsoll-planner").channel)
    profile = api.planner.DeviceProfile(
        id="gpu",
        kind="cuda",
        name="A device",
        total_bytes=1_000_000,
        free_bytes=1_000_000,
        allocation=api.planner.ALLOCATION_RULE_EXACT,
        alignment=64,
        storage=[
            api.planner.StorageRule(
                type=api.common.ELEMENT_TYPE_F32, row_multiple=1
            )
        ],
        workspace=api.planner.WorkspaceParameters(
            activation_block=32,
            activation_block_bytes=40,
            min_logits_rows=16,
            max_candidates=64,
        ),
        runtime_bytes=0,
        runtime_basis=api.common.BASIS_MEASURED,
    )
    stub.RegisterDevice(
        api.planner.RegisterDeviceRequest(profile=profile), timeout=PATIENCE
    )
    return stub


def reserve(api, planner, request_id, size):
    request = api.planner.ReserveRequest(
        request_id=request_id, device_id="gpu", holder="me", bytes=size
    )
    return planner.Reserve(request, timeout=PATIENCE).lease


def plan_request(api, budget, **options):
    return api.planner.PlanRequest(
        source=api.planner.ModelSource(model="smol"),
        options=api.common.LoadOptions(**options),
        budget_bytes=budget,
    )


def test_a_plans_regions_sum_exactly(api, pair):
    planner, _ = pair
    request = plan_request(api, 1 << 30, n_ctx=2048)
    plan = planner.Plan(request, timeout=PATIENCE).plan
    assert plan.fits
    assert plan.n_ctx == 2048
    outside = sum(r.bytes for r in plan.regions if not r.HasField("offset"))
    assert plan.arena_bytes + outside <= plan.total_bytes
    ends = [(r.offset, r.offset + r.bytes) for r in plan.regions if r.HasField("offset")]
    for (_, end), (begin, _) in zip(ends, ends[1:]):
        assert begin >= end
    assert all(region.basis for region in plan.regions)


def test_an_omitted_context_is_the_largest_that_fits(api, pair):
    planner, _ = pair
    small = planner.Plan(plan_request(api, 220 << 20), timeout=PATIENCE).plan
    large = planner.Plan(plan_request(api, 8 << 30), timeout=PATIENCE).plan
    assert small.fits and large.fits
    assert 0 < small.n_ctx < large.n_ctx == 8192
    assert small.n_ctx_limit == api.common.CONTEXT_LIMIT_MEMORY
    more = plan_request(api, 220 << 20, n_ctx=small.n_ctx + small.page_tokens)
    assert not planner.Plan(more, timeout=PATIENCE).plan.fits


def test_a_plan_that_does_not_fit_says_what_is_missing(api, pair):
    planner, _ = pair
    request = plan_request(api, 100 << 20, n_ctx=8192)
    plan = planner.Plan(request, timeout=PATIENCE).plan
    assert not plan.fits
    assert plan.missing_bytes == plan.total_bytes - (100 << 20)


def test_a_device_is_registered_by_its_worker(api, pair):
    planner, _ = pair
    request = api.planner.ListDevicesRequest()
    (device,) = planner.ListDevices(request, timeout=PATIENCE).devices
    assert device.profile.kind == "cpu"
    assert device.held_bytes > 0
    assert device.available_bytes <= device.profile.total_bytes


def test_a_repeated_reserve_gets_the_first_reply(api, planner):
    first = reserve(api, planner, "once", 600_000)
    again = reserve(api, planner, "once", 600_000)
    assert first.id == again.id
    assert first.epoch == again.epoch
    with pytest.raises(grpc.RpcError) as refusal:
        reserve(api, planner, "twice", 600_000)
    assert refusal.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    reason, metadata = error_info(api, refusal.value)
    assert reason == "MEMORY_BUDGET_EXCEEDED"
    assert metadata["wanted_bytes"] == "600000"
    assert metadata["available_bytes"] == "400000"


def test_expiry_frees_nothing_and_a_release_everything(api, planner):
    lease = reserve(api, planner, "a", 1_000_000)

    def is_suspect():
        request = api.planner.ListLeasesRequest(device_id="gpu")
        (one,) = planner.ListLeases(request, timeout=PATIENCE).leases
        return one.state == api.planner.LEASE_STATE_SUSPECT

    wait_for("the lease to expire", is_suspect)
    with pytest.raises(grpc.RpcError) as refusal:
        reserve(api, planner, "b", 1)
    assert refusal.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    planner.Release(
        api.planner.ReleaseRequest(lease_id=lease.id, epoch=lease.epoch),
        timeout=PATIENCE,
    )
    assert reserve(api, planner, "c", 1_000_000).id != lease.id


def test_another_epoch_is_refused(api, planner):
    lease = reserve(api, planner, "a", 10)
    with pytest.raises(grpc.RpcError) as refusal:
        planner.Renew(
            api.planner.RenewRequest(lease_id=lease.id, epoch=lease.epoch + 1),
            timeout=PATIENCE,
        )
    assert refusal.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert error_info(api, refusal.value)[0] == "LEASE_LOST"
