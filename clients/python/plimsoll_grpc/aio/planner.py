"""The asynchronous client of a planner."""

import secrets
import uuid

from plimsoll_grpc import v1
from plimsoll_grpc.aio.client import Block, Client, Replies

_SERVICE = "plimsoll.v1.PlannerService"


class HeldLease(Block):
    """A lease of this client. Leaving a `with` block releases it.

    Attributes:
      lease: the lease as the planner last said it is. It must be renewed before
        `lease.expires_in` has passed.
    """

    def __init__(
        self, planner: "Planner", lease: v1.Lease, asked: v1.ReserveRequest
    ) -> None:
        self._planner = planner
        self._process = asked.process if asked.HasField("process") else None
        self._secret = asked.secret
        self.lease = lease

    async def confirm(
        self,
        measured_bytes: int,
        *,
        device_free_bytes: int | None = None,
        timeout: float | None = None,
    ) -> v1.Lease:
        """Says that `measured_bytes` of the lease are allocated, and all that
        will be."""
        request = v1.ConfirmRequest(
            lease_id=self.lease.id,
            epoch=self.lease.epoch,
            secret=self._secret,
            measured_bytes=measured_bytes,
            device_free_bytes=device_free_bytes,
        )
        reply = await self._planner.confirm(request, timeout=timeout)
        self.lease = reply.lease
        return self.lease

    async def renew(
        self,
        *,
        device_free_bytes: int | None = None,
        timeout: float | None = None,
    ) -> v1.Lease:
        """Extends the lease. A planner that forgot a confirmed lease takes it
        back."""
        request = v1.RenewRequest(
            lease_id=self.lease.id,
            epoch=self.lease.epoch,
            secret=self._secret,
            device_free_bytes=device_free_bytes,
            presented=self._presented(),
        )
        reply = await self._planner.renew(request, timeout=timeout)
        self.lease = reply.lease
        return self.lease

    async def release(
        self, *, shortfall_bytes: int | None = None, timeout: float | None = None
    ) -> v1.Lease:
        """Gives the bytes back. The memory must be free already."""
        request = v1.ReleaseRequest(
            lease_id=self.lease.id,
            epoch=self.lease.epoch,
            secret=self._secret,
            shortfall_bytes=shortfall_bytes,
        )
        reply = await self._planner.release(request, timeout=timeout)
        self.lease = reply.lease
        return self.lease

    def _presented(self) -> v1.PresentedLease | None:
        if not self.lease.HasField("measured_bytes"):
            return None
        return v1.PresentedLease(
            device_id=self.lease.device_id,
            holder=self.lease.holder,
            purpose=self.lease.purpose,
            bytes=self.lease.bytes,
            measured_bytes=self.lease.measured_bytes,
            process=self._process,
        )

    async def _leave(self) -> None:
        await self.release()


class Planner(Client):
    """Plans what a model needs of a device's memory, and who holds it.

    A method has the name of its call in PlannerService and takes its request.
    Every call may be repeated, so gRPC repeats those that a planner could not
    answer. A `timeout` is in seconds. Errors: PlimsollError, by its reason.
    """

    async def hold(
        self,
        device_id: str,
        n_bytes: int,
        *,
        holder: str,
        purpose: str = "",
        process: v1.ProcessIdentity | None = None,
        timeout: float | None = None,
    ) -> HeldLease:
        """Reserves `n_bytes` of a device. The caller confirms the lease when it
        has allocated them, renews it while it holds them, and releases it.

        Errors: MemoryBudgetError with the bytes wanted and available.
        """
        request = v1.ReserveRequest(
            request_id=uuid.uuid4().hex,
            device_id=device_id,
            holder=holder,
            purpose=purpose,
            bytes=n_bytes,
            process=process,
            secret=secrets.token_hex(16),
        )
        reply = await self.reserve(request, timeout=timeout)
        return HeldLease(self, reply.lease, request)

    async def describe_model(
        self, request: v1.DescribeModelRequest, *, timeout: float | None = None
    ) -> v1.DescribeModelResponse:
        """Reports what the planner knows of a model."""
        return await self._call(
            f"{_SERVICE}/DescribeModel", request, v1.DescribeModelResponse, timeout
        )

    async def plan(
        self, request: v1.PlanRequest, *, timeout: float | None = None
    ) -> v1.PlanResponse:
        """Plans a model on a device. A plan that does not fit is a reply, too."""
        return await self._call(f"{_SERVICE}/Plan", request, v1.PlanResponse, timeout)

    async def plan_set(
        self, request: v1.PlanSetRequest, *, timeout: float | None = None
    ) -> v1.PlanSetResponse:
        """Plans several models in one process on one device."""
        return await self._call(
            f"{_SERVICE}/PlanSet", request, v1.PlanSetResponse, timeout
        )

    async def plan_split(
        self, request: v1.PlanSplitRequest, *, timeout: float | None = None
    ) -> v1.PlanSplitResponse:
        """Plans one model over several devices."""
        return await self._call(
            f"{_SERVICE}/PlanSplit", request, v1.PlanSplitResponse, timeout
        )

    async def batch_plan(
        self, request: v1.BatchPlanRequest, *, timeout: float | None = None
    ) -> v1.BatchPlanResponse:
        """Computes many plans in one call."""
        return await self._call(
            f"{_SERVICE}/BatchPlan", request, v1.BatchPlanResponse, timeout
        )

    def what_if(
        self, request: v1.WhatIfRequest, *, timeout: float | None = None
    ) -> Replies[v1.WhatIfResponse]:
        """The plans of a whole grid, then the points that no other plan beats."""
        return self._replies(f"{_SERVICE}/WhatIf", request, v1.WhatIfResponse, timeout)

    async def place_models(
        self, request: v1.PlaceModelsRequest, *, timeout: float | None = None
    ) -> v1.PlaceModelsResponse:
        """Decides which replica of which model goes on which device."""
        return await self._call(
            f"{_SERVICE}/PlaceModels", request, v1.PlaceModelsResponse, timeout
        )

    async def list_catalogue(
        self,
        request: v1.ListCatalogueRequest = v1.ListCatalogueRequest(),
        *,
        timeout: float | None = None,
    ) -> v1.ListCatalogueResponse:
        """Lists the real devices that the planner knows by name."""
        return await self._call(
            f"{_SERVICE}/ListCatalogue", request, v1.ListCatalogueResponse, timeout
        )

    async def find_devices(
        self, request: v1.FindDevicesRequest, *, timeout: float | None = None
    ) -> v1.FindDevicesResponse:
        """Lists the devices of the catalogue that a model fits on."""
        return await self._call(
            f"{_SERVICE}/FindDevices", request, v1.FindDevicesResponse, timeout
        )

    async def get_bounds(
        self, request: v1.GetBoundsRequest, *, timeout: float | None = None
    ) -> v1.GetBoundsResponse:
        """Reports the most that a device allows a model."""
        return await self._call(
            f"{_SERVICE}/GetBounds", request, v1.GetBoundsResponse, timeout
        )

    async def register_device(
        self, request: v1.RegisterDeviceRequest, *, timeout: float | None = None
    ) -> v1.RegisterDeviceResponse:
        """Adds a device, or updates it and its free bytes."""
        return await self._call(
            f"{_SERVICE}/RegisterDevice", request, v1.RegisterDeviceResponse, timeout
        )

    async def list_devices(
        self,
        request: v1.ListDevicesRequest = v1.ListDevicesRequest(),
        *,
        timeout: float | None = None,
    ) -> v1.ListDevicesResponse:
        """Lists all devices, sorted by id."""
        return await self._call(
            f"{_SERVICE}/ListDevices", request, v1.ListDevicesResponse, timeout
        )

    def watch_devices(
        self,
        request: v1.WatchDevicesRequest = v1.WatchDevicesRequest(),
        *,
        timeout: float | None = None,
    ) -> Replies[v1.WatchDevicesResponse]:
        """All devices at once, and again after changes."""
        return self._replies(
            f"{_SERVICE}/WatchDevices", request, v1.WatchDevicesResponse, timeout
        )

    async def list_leases(
        self,
        request: v1.ListLeasesRequest = v1.ListLeasesRequest(),
        *,
        timeout: float | None = None,
    ) -> v1.ListLeasesResponse:
        """Lists all live leases, sorted by id."""
        return await self._call(
            f"{_SERVICE}/ListLeases", request, v1.ListLeasesResponse, timeout
        )

    async def reserve(
        self, request: v1.ReserveRequest, *, timeout: float | None = None
    ) -> v1.ReserveResponse:
        """Grants bytes of a device; hold() is shorter."""
        return await self._call(
            f"{_SERVICE}/Reserve", request, v1.ReserveResponse, timeout
        )

    async def confirm(
        self, request: v1.ConfirmRequest, *, timeout: float | None = None
    ) -> v1.ConfirmResponse:
        """Says that the bytes of a lease are allocated."""
        return await self._call(
            f"{_SERVICE}/Confirm", request, v1.ConfirmResponse, timeout
        )

    async def renew(
        self, request: v1.RenewRequest, *, timeout: float | None = None
    ) -> v1.RenewResponse:
        """Extends a lease."""
        return await self._call(f"{_SERVICE}/Renew", request, v1.RenewResponse, timeout)

    async def release(
        self, request: v1.ReleaseRequest, *, timeout: float | None = None
    ) -> v1.ReleaseResponse:
        """Frees a lease's bytes."""
        return await self._call(
            f"{_SERVICE}/Release", request, v1.ReleaseResponse, timeout
        )

    async def force_release(
        self, request: v1.ForceReleaseRequest, *, timeout: float | None = None
    ) -> v1.ForceReleaseResponse:
        """Frees a suspect lease whose holder is gone; for administrators."""
        return await self._call(
            f"{_SERVICE}/ForceRelease", request, v1.ForceReleaseResponse, timeout
        )
