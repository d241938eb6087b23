"""A client of Plimsoll's planner and workers.

`Planner` and `Worker` of this module wait for replies; those of
`plimsoll_grpc.aio` are for asyncio and otherwise the same. `v1` has the
messages. Clients are thread-safe.
"""

from plimsoll_grpc import v1
from plimsoll_grpc.errors import (
    BadModelFileError,
    BusyError,
    DeadlineError,
    EndedError,
    InternalError,
    InvalidRequestError,
    MemoryBudgetError,
    NotFoundError,
    PlimsollError,
    StateError,
    TooLongError,
    UnavailableError,
    UnsupportedModelError,
)
from plimsoll_grpc.events import (
    Event,
    Evicted,
    Finished,
    PromptScored,
    Started,
    Text,
    Thought,
    ToolCalled,
    ToolCallPiece,
)
from plimsoll_grpc.requests import Prompt, assistant, system, tool, user
from plimsoll_grpc.sync import HeldLease, Planner, Replies, Session, Stream, Worker

__all__ = [
    "BadModelFileError",
    "BusyError",
    "DeadlineError",
    "EndedError",
    "Event",
    "Evicted",
    "Finished",
    "HeldLease",
    "InternalError",
    "InvalidRequestError",
    "MemoryBudgetError",
    "NotFoundError",
    "Planner",
    "PlimsollError",
    "Prompt",
    "PromptScored",
    "Replies",
    "Session",
    "Started",
    "StateError",
    "Stream",
    "Text",
    "TooLongError",
    "Thought",
    "ToolCallPiece",
    "ToolCalled",
    "UnavailableError",
    "UnsupportedModelError",
    "Worker",
    "assistant",
    "system",
    "tool",
    "user",
    "v1",
]
