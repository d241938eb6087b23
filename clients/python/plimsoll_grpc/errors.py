"""The errors of calls: each has its reason and says what to do."""

from collections.abc import Iterable
from typing import cast

import grpc
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

_DOMAIN = "plimsoll.dev"
_DETAILS_KEY = "grpc-status-details-bin"


class PlimsollError(Exception):
    """A call failed.

    Attributes:
      code: the gRPC status code.
      reason: the name of a value of v1.ErrorReason without its prefix, or ""
        if the error is not the server's (for example, nobody listens there).
      message: what went wrong, in the server's words.
      advice: what the caller can do.
      metadata: numbers and names that belong to the reason, by key.
      retry_after: the seconds after which the call may succeed, or None.
    """

    def __init__(
        self,
        code: grpc.StatusCode,
        message: str,
        reason: str = "",
        metadata: dict[str, str] | None = None,
        retry_after: float | None = None,
        advice: str = "",
    ) -> None:
        label = reason or code.name
        super().__init__(f"{label}: {message}" + (f"\n{advice}" if advice else ""))
        self.code = code
        self.message = message
        self.reason = reason
        self.metadata = metadata or {}
        self.retry_after = retry_after
        self.advice = advice


class InvalidRequestError(PlimsollError):
    """The request makes no sense, wherever it is sent."""


class TooLongError(PlimsollError):
    """A prompt or a reply does not fit the context."""


class NotFoundError(PlimsollError):
    """There is no model, device, lease or session of this name."""


class MemoryBudgetError(PlimsollError):
    """There is too little memory."""


class BusyError(PlimsollError):
    """As much is running or waiting as may; later there may be room."""


class UnavailableError(PlimsollError):
    """The server cannot be reached, or cannot serve the call now."""


class StateError(PlimsollError):
    """Something must be done first, or was done already."""


class UnsupportedModelError(PlimsollError):
    """The server's build cannot run the model."""


class BadModelFileError(PlimsollError):
    """The model's file is damaged."""


class EndedError(PlimsollError):
    """The caller, an operator or the unload of the model ended the call."""


class DeadlineError(PlimsollError):
    """The call's time is over."""


class InternalError(PlimsollError):
    """The server has a bug."""


# The class of each reason, and what the caller can do.
REASONS: dict[str, tuple[type[PlimsollError], str]] = {
    "INVALID_FIELD": (InvalidRequestError, "Correct the field that is named."),
    "PROMPT_TOO_LONG": (
        TooLongError,
        "context_policy=v1.CONTEXT_POLICY_ROLL lets the context roll.",
    ),
    "CONTEXT_FULL": (
        TooLongError,
        "Give max_tokens; context_policy says what a full context means.",
    ),
    "MODEL_NOT_FOUND": (NotFoundError, "list_models() has the configured names."),
    "DEVICE_NOT_FOUND": (NotFoundError, "list_devices() has the registered ids."),
    "LEASE_NOT_FOUND": (NotFoundError, "Reserve the bytes again."),
    "SESSION_NOT_FOUND": (NotFoundError, "Open the session again."),
    "MEMORY_BUDGET_EXCEEDED": (
        MemoryBudgetError,
        "Ask for fewer bytes: metadata has the numbers and, for a plan, under "
        "`try` a change that fits.",
    ),
    "QUEUE_FULL": (BusyError, "Call again after retry_after seconds."),
    "SESSION_BUSY": (BusyError, "Wait for the end of the session's other call."),
    "SESSION_LIMIT": (BusyError, "Close a session, or wait until one is idle."),
    "QUOTA_EXCEEDED": (
        BusyError,
        "Call again after retry_after seconds; without one the request never fits.",
    ),
    "MODEL_NOT_READY": (UnavailableError, "Wait until the model is loaded."),
    "DRAINING": (UnavailableError, "Call another server."),
    "PLANNER_UNAVAILABLE": (UnavailableError, "Start the worker's planner."),
    "PLANNER_RECOVERING": (UnavailableError, "Call again after retry_after seconds."),
    "JOURNAL_FAILED": (UnavailableError, "Make room on the planner's disk."),
    "DEVICE_UNHEALTHY": (UnavailableError, "Use another device, or restart its worker."),
    "MODEL_NOT_LOADED": (StateError, "Load the model first: load_model()."),
    "LEASE_LOST": (StateError, "Free the memory, and reserve the bytes again."),
    "LEASE_HELD": (StateError, "End the holder's process: that frees the lease."),
    "SESSION_EXISTS": (StateError, "Take the session up by session(id)."),
    "UNSUPPORTED_MODEL": (UnsupportedModelError, "Use what docs/models.md lists."),
    "BAD_MODEL_FILE": (BadModelFileError, "Fetch the file again: `plimsoll verify`."),
    "CANCELLED": (EndedError, ""),
    "ABORTED": (EndedError, "The message has the operator's reason."),
    "DEADLINE_EXCEEDED": (DeadlineError, "Give the call a longer timeout."),
    "INTERNAL": (InternalError, "Report it with metadata's request_id."),
}

# Classes and advice for errors that come from gRPC itself, without a reason of the server's.
_CODES: dict[grpc.StatusCode, tuple[type[PlimsollError], str]] = {
    grpc.StatusCode.UNAVAILABLE: (
        UnavailableError,
        "Check the address, and that the server runs.",
    ),
    grpc.StatusCode.CANCELLED: REASONS["CANCELLED"],
    grpc.StatusCode.DEADLINE_EXCEEDED: REASONS["DEADLINE_EXCEEDED"],
    grpc.StatusCode.RESOURCE_EXHAUSTED: (
        InvalidRequestError,
        "A message has at most 4 MiB.",
    ),
    grpc.StatusCode.UNIMPLEMENTED: (
        InvalidRequestError,
        "Another server has this service, or a newer one.",
    ),
}


def from_rpc(error: grpc.RpcError) -> PlimsollError:
    """The typed form of an error of gRPC."""
    info = error_details_pb2.ErrorInfo()
    retry_after = None
    pairs = cast(Iterable[tuple[str, bytes]], error.trailing_metadata() or ())
    for key, value in pairs:
        if key != _DETAILS_KEY:
            continue
        for detail in status_pb2.Status.FromString(value).details:
            if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
                detail.Unpack(info)
            elif detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR):
                retry = error_details_pb2.RetryInfo()
                detail.Unpack(retry)
                retry_after = retry.retry_delay.ToTimedelta().total_seconds()
    reason = info.reason if info.domain == _DOMAIN else ""
    kind, advice = REASONS.get(reason) or _CODES.get(
        error.code(), (PlimsollError, "")
    )
    return kind(
        error.code(),
        error.details() or "",
        reason,
        dict(info.metadata),
        retry_after,
        advice,
    )
