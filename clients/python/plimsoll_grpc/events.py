"""What a stream of text brings, one type for each kind of event."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from plimsoll_grpc import v1


@dataclass(frozen=True, slots=True)
class Started:
    """How the worker understood the request; the first event."""

    prompt: v1.PromptInfo


@dataclass(frozen=True, slots=True)
class Text:
    """More text and the tokens it is made of.

    `text` may be "" while a code point or a possible stop string is held back.
    """

    text: str
    tokens: Sequence[v1.GeneratedToken]


@dataclass(frozen=True, slots=True)
class Thought:
    """More of what the model thinks before it answers."""

    text: str


@dataclass(frozen=True, slots=True)
class PromptScored:
    """Log-probabilities of the next tokens of the prompt, if asked for."""

    logprobs: Sequence[float]


@dataclass(frozen=True, slots=True)
class ToolCallPiece:
    """More of a call that the model still writes.

    `index` is the place among all ToolCalled events of the reply, and `name` is
    set only in the first piece. The ToolCalled event follows with the whole
    call, or with an error. Not every model's calls come in pieces.
    """

    index: int
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """A call of a tool by the model, or why it is none (`call.error`)."""

    call: v1.ToolCall


@dataclass(frozen=True, slots=True)
class Evicted:
    """Tokens left a full context."""

    eviction: v1.Eviction


@dataclass(frozen=True, slots=True)
class Finished:
    """How the reply ended; the last event. Without it the text is cut off."""

    finish: v1.FinishInfo


Event = (
    Started
    | Thought
    | Text
    | PromptScored
    | ToolCallPiece
    | ToolCalled
    | Evicted
    | Finished
)


def events_of(part: v1.StreamGenerateResponse | v1.ChatResponse) -> Iterator[Event]:
    """The events that one message of a stream stands for, in their order."""
    if part.HasField("prompt"):
        yield Started(part.prompt)
    if isinstance(part, v1.StreamGenerateResponse) and part.prompt_logprobs:
        yield PromptScored(part.prompt_logprobs)
    if part.reasoning:
        yield Thought(part.reasoning)
    if part.text or part.tokens:
        yield Text(part.text, part.tokens)
    for piece in part.tool_call_deltas:
        yield ToolCallPiece(piece.index, piece.name, piece.arguments)
    for call in part.tool_calls:
        yield ToolCalled(call)
    for eviction in part.evictions:
        yield Evicted(eviction)
    if part.HasField("finish"):
        yield Finished(part.finish)
