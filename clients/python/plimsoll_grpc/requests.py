"""Prompts and options as people write them, made into fields of requests."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from plimsoll_grpc import v1

# A text, its bytes, token ids, a conversation, or the message itself where more
# than that is to be said.
Prompt = (
    str
    | bytes
    | Sequence[int]
    | Sequence[v1.ChatMessage]
    | v1.TextPrompt
    | v1.TokenPrompt
    | v1.ChatPrompt
)


class ReplyOptions(TypedDict, total=False):
    """Fields of SamplingOptions, StoppingOptions, ResponseOptions and
    OutputConstraint, by the names and with the defaults that these have."""

    temperature: float
    top_k: int
    top_p: float
    min_p: float
    seed: int
    typical_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    penalty_last_tokens: int
    logit_bias: Sequence[v1.LogitBias]
    draft_tokens: int
    max_tokens: int
    max_reasoning_tokens: int
    stop_strings: Sequence[str]
    stop_token_ids: Sequence[int]
    ignore_eos: bool
    top_logprobs: int
    prompt_logprobs: bool
    token_bytes: bool
    json_schema: str
    gbnf: str
    regex: str
    schema_options: v1.JsonSchemaOptions
    trigger: str


class GenerateOptions(ReplyOptions, total=False):
    """What a call without a session can say, too."""

    model: str
    context_policy: v1.ContextPolicy
    roll: v1.RollOptions


class SessionReplyOptions(ReplyOptions, total=False):
    """What a message to a session with tools can say, too."""

    tool_choice: v1.ToolChoice
    required_tool: str
    parallel_tool_calls: bool


# The field of a request, by the name of each field in its message.
FIELD_OF = {
    name: field
    for field, message in (
        ("sampling", v1.SamplingOptions),
        ("stopping", v1.StoppingOptions),
        ("response", v1.ResponseOptions),
        ("constraint", v1.OutputConstraint),
    )
    for name in message.DESCRIPTOR.fields_by_name
}


def option_fields(options: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a request that `options` stand for."""
    fields: dict[str, Any] = {}
    for name, value in options.items():
        field = FIELD_OF.get(name)
        if field is None:
            fields[name] = value
        else:
            fields.setdefault(field, {})[name] = value
    return fields


def prompt_field(prompt: Prompt) -> dict[str, Any]:
    """The field of a request that `prompt` stands for, by its name."""
    if isinstance(prompt, str):
        return {"text": v1.TextPrompt(text=prompt)}
    if isinstance(prompt, bytes):
        return {"text": v1.TextPrompt(raw_text=prompt)}
    if isinstance(prompt, v1.TextPrompt):
        return {"text": prompt}
    if isinstance(prompt, v1.TokenPrompt):
        return {"tokens": prompt}
    if isinstance(prompt, v1.ChatPrompt):
        return {"chat": prompt}
    messages = [item for item in prompt if isinstance(item, v1.ChatMessage)]
    if messages and len(messages) == len(prompt):
        return {"chat": v1.ChatPrompt(messages=messages)}
    ids = [item for item in prompt if isinstance(item, int)]
    if len(ids) != len(prompt):
        raise TypeError("a prompt is all token ids or all messages")
    return {"tokens": v1.TokenPrompt(ids=ids)}


def continuation(content: str | Sequence[int]) -> v1.Continuation:
    """The message of a text or of token ids."""
    if isinstance(content, str):
        return v1.Continuation(text=content)
    return v1.Continuation(tokens=v1.TokenPrompt(ids=content))


def system(content: str) -> v1.ChatMessage:
    """A message with instructions to the model."""
    return v1.ChatMessage(role=v1.CHAT_ROLE_SYSTEM, content=content)


def user(content: str) -> v1.ChatMessage:
    """A message that the user says."""
    return v1.ChatMessage(role=v1.CHAT_ROLE_USER, content=content)


def assistant(
    content: str, tool_calls: Sequence[v1.ToolCall] = (), reasoning: str = ""
) -> v1.ChatMessage:
    """A message that the model said, with the calls of tools it made and what
    it thought before."""
    return v1.ChatMessage(
        role=v1.CHAT_ROLE_ASSISTANT,
        content=content,
        tool_calls=tool_calls,
        reasoning=reasoning,
    )


def tool(name: str, response: str) -> v1.ChatMessage:
    """The response, as JSON, of the tool `name` to a call."""
    return v1.ChatMessage(
        role=v1.CHAT_ROLE_TOOL, content=response, tool_name=name
    )
