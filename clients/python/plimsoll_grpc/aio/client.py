"""What the asynchronous clients share: a channel, calls, and streams."""

import asyncio
import importlib.resources
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import grpc
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2  # type: ignore[import-untyped]

from plimsoll_grpc.errors import from_rpc

Reply = TypeVar("Reply", bound=Message)

# Which calls gRPC repeats by itself, and when.
SERVICE_CONFIG = (
    importlib.resources.files("plimsoll_grpc.v1")
    .joinpath("service_config.json")
    .read_text(encoding="utf-8")
)

# A server whose host has vanished is noticed after 10 s.
KEEPALIVE: list[tuple[str, Any]] = [
    ("grpc.keepalive_time_ms", 4_000),
    ("grpc.keepalive_timeout_ms", 6_000),
    ("grpc.http2.max_pings_without_data", 0),
]


class Block:
    """What may head a `with` block and ends with it."""

    async def _leave(self) -> None:
        """Is called when the block is left."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._leave()


class Replies(Block, Generic[Reply]):
    """The messages of a stream, to be iterated over once.

    Leaving a `with` block ends the stream on the server, too.

    Errors: a PlimsollError in place of the next message.
    """

    def __init__(self, call: Any) -> None:
        self._call = call
        self._messages: AsyncIterator[Reply] = call.__aiter__()
        self._is_cancelled = False

    def cancel(self) -> None:
        """Ends the stream. The iteration then ends without an error."""
        self._is_cancelled = True
        self._call.cancel()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Reply:
        try:
            return await self._messages.__anext__()
        except asyncio.CancelledError:
            if not self._is_cancelled:
                raise
        except grpc.RpcError as error:
            if not self._is_cancelled:
                raise from_rpc(error) from error
        raise StopAsyncIteration

    async def _leave(self) -> None:
        self.cancel()


class Client(Block):
    """A channel to one server. Close it, or use it in a `with` block.

    Args:
      address: HOST:PORT, or unix:PATH.
      credentials: those of a channel with TLS, for a proxy that has it. Absent:
        a channel without TLS.
      timeout: seconds after which a call ends that has no timeout of its own.
        Absent: such a call may take as long as the server lets it.
      tenant: whose calls these are (at most 64 printable characters).
      priority: "low", "normal" or "high", within the tenant's share.
      metadata: more keys and values that are sent with every call.
    """

    def __init__(
        self,
        address: str,
        *,
        credentials: grpc.ChannelCredentials | None = None,
        timeout: float | None = None,
        tenant: str = "",
        priority: str = "",
        metadata: Sequence[tuple[str, str]] = (),
    ) -> None:
        options: list[tuple[str, Any]] = [
            ("grpc.service_config", SERVICE_CONFIG),
            *KEEPALIVE,
        ]
        if credentials is None:
            self._channel = grpc.aio.insecure_channel(address, options)
        else:
            self._channel = grpc.aio.secure_channel(address, credentials, options)
        self._timeout = timeout
        named = (("x-tenant", tenant), ("x-priority", priority))
        self._metadata = (*metadata, *(pair for pair in named if pair[1]))

    async def is_serving(
        self, service: str = "", *, timeout: float | None = None
    ) -> bool:
        """Whether the server is ready to serve. `service` may be the full name
        of one of its services."""
        request = health_pb2.HealthCheckRequest(service=service)
        reply = await self._call(
            "grpc.health.v1.Health/Check",
            request,
            health_pb2.HealthCheckResponse,
            timeout,
        )
        return bool(reply.status == health_pb2.HealthCheckResponse.SERVING)

    async def close(self) -> None:
        """Closes the channel, which ends the calls that run."""
        await self._channel.close()

    async def _leave(self) -> None:
        await self.close()

    def _begin(
        self,
        kind: Any,
        method: str,
        request: Message,
        reply: type[Message],
        timeout: float | None,
        metadata: Sequence[tuple[str, str]],
    ) -> Any:
        """Begins the call of `method`, which is SERVICE/METHOD by full names.
        `kind` is the channel's way to make such a call."""
        call = kind(
            f"/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=reply.FromString,
        )
        return call(
            request,
            timeout=self._timeout if timeout is None else timeout,
            metadata=(*self._metadata, *metadata),
        )

    async def _call(
        self,
        method: str,
        request: Message,
        reply: type[Reply],
        timeout: float | None,
        metadata: Sequence[tuple[str, str]] = (),
    ) -> Reply:
        """The reply of `method`."""
        kind = self._channel.unary_unary
        try:
            made: Reply = await self._begin(
                kind, method, request, reply, timeout, metadata
            )
        except grpc.RpcError as error:
            raise from_rpc(error) from error
        return made

    def _replies(
        self,
        method: str,
        request: Message,
        reply: type[Reply],
        timeout: float | None,
        metadata: Sequence[tuple[str, str]] = (),
    ) -> Replies[Reply]:
        """The replies of `method`, which streams."""
        kind = self._channel.unary_stream
        return Replies(self._begin(kind, method, request, reply, timeout, metadata))
