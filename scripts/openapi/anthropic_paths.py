"""The paths of Anthropic's dialect."""

from json_schemas import (
    A_SCHEMA, COUNT, DRAW, FLAG, MAX_COUNT, OBJECT, SCHEMA_OPTIONS, STOPS, TEXT,
    TEXT_OR_NULL, TOKENS, any_of, array, asked, events, ignored, integer, nothing,
    post, ref, said, words,
)

TAG = "Anthropic"
TEXT_BLOCK = asked(
    {
        "type": words("text"),
        "text": TEXT,
        **ignored("cache_control", "citations"),
    },
    required=("type", "text"),
)
TEXTS = any_of(TEXT, array(TEXT_BLOCK))
RESULT = asked(
    {
        "type": words("tool_result"),
        "tool_use_id": TEXT,
        "content": TEXTS,
        **ignored("cache_control", "is_error", "toolset_name"),
    },
    required=("type", "tool_use_id"),
)
CALL = asked(
    {
        "type": words("tool_use"),
        "id": TEXT,
        "name": TEXT,
        "input": OBJECT,
        **ignored("cache_control", "caller", "toolset_name"),
    },
    required=("type", "input"),
)
# The signature of a thought and what was redacted are not looked at.
THOUGHT = {
    "type": "object",
    "properties": {
        "type": words("thinking", "redacted_thinking"),
        "thinking": TEXT_OR_NULL,
    },
    "required": ["type"],
}
MESSAGE = any_of(
    asked({"role": words("system"), "content": TEXTS}, required=("role",)),
    asked(
        {
            "role": words("user"),
            "content": any_of(TEXT, array(any_of(TEXT_BLOCK, RESULT))),
        },
        required=("role", "content"),
    ),
    asked(
        {
            "role": words("assistant"),
            "content": any_of(TEXT, array(any_of(TEXT_BLOCK, CALL, THOUGHT))),
        },
        required=("role", "content"),
    ),
)
TOOL = asked({
    "type": words("custom"),
    "name": TEXT,
    "description": TEXT,
    "input_schema": OBJECT,
    "defer_loading": words(False),
    **ignored(
        "allowed_callers", "cache_control", "eager_input_streaming", "input_examples",
        "strict",
    ),
})
TOOL_CHOICE = any_of(
    asked(
        {
            "type": words("auto", "any", "none"),
            "name": TEXT,
            "disable_parallel_tool_use": FLAG,
        },
        required=("type",),
    ),
    asked(
        {
            "type": words("tool"),
            "name": {**TEXT, "minLength": 1},
            "disable_parallel_tool_use": FLAG,
        },
        required=("type", "name"),
    ),
)
COMMON = {
    "model": TEXT,
    "system": TEXTS,
    "messages": array(ref("AnthropicMessage"), minItems=1),
    "tools": array(ref("AnthropicTool")),
    "tool_choice": TOOL_CHOICE,
    "thinking": asked(
        {
            "type": words("enabled", "disabled", "adaptive"),
            "budget_tokens": integer(0, MAX_COUNT),
            **ignored("display"),
        },
        required=("type",),
    ),
    "output_config": asked({
        "format": asked(
            {
                "type": words("json_schema"),
                "schema": A_SCHEMA,
                "schema_options": SCHEMA_OPTIONS,
            },
            required=("type", "schema"),
        ),
        **ignored("effort"),
    }),
    **ignored("cache_control", "speed", "user_profile_id", "workspace_id"),
}
REQUEST = asked(
    {
        **COMMON,
        "max_tokens": TOKENS,
        "stop_sequences": STOPS,
        **DRAW,
        "stream": FLAG,
        "container": nothing(),
        **ignored("metadata", "service_tier", "inference_geo", "diagnostics"),
    },
    required=("messages", "max_tokens"),
)
BLOCK = any_of(
    said({"type": words("text"), "text": TEXT}),
    said({"type": words("thinking"), "thinking": TEXT, "signature": TEXT}),
    said({"type": words("tool_use"), "id": TEXT, "name": TEXT, "input": OBJECT}),
)
REPLY = said({
    "id": TEXT,
    "type": words("message"),
    "role": words("assistant"),
    "model": TEXT,
    "content": array(BLOCK),
    "stop_reason": words(
        "end_turn", "max_tokens", "stop_sequence", "tool_use",
        "model_context_window_exceeded",
    ),
    "stop_sequence": TEXT_OR_NULL,
    "usage": said({
        "input_tokens": COUNT,
        "cache_creation_input_tokens": COUNT,
        "cache_read_input_tokens": COUNT,
        "output_tokens": COUNT,
    }),
})

STREAM = events(
    "message_start", "content_block_start", "content_block_delta",
    "content_block_stop", "message_delta", "message_stop", "error",
)
SCHEMAS = {
    "MessagesRequest": REQUEST,
    "CountTokensRequest": asked(COMMON, required=("messages",)),
    "AnthropicMessage": MESSAGE,
    "AnthropicTool": TOOL,
    "AnthropicReply": REPLY,
    "TokenCount": said({"input_tokens": COUNT}),
    "AnthropicError": said({
        "type": words("error"),
        "error": said({"type": TEXT, "message": TEXT}),
    }),
}
EXAMPLE = {"messages": [{"role": "user", "content": "Hello"}]}
PATHS = {
    "/v1/messages": post(
        "A conversation, as Anthropic's clients send it.",
        "MessagesRequest", "AnthropicReply", "AnthropicError",
        {**EXAMPLE, "max_tokens": 4}, STREAM, TAG,
    ),
    "/v1/messages/count_tokens": post(
        "The tokens of such a conversation.",
        "CountTokensRequest", "TokenCount", "AnthropicError", EXAMPLE, tag=TAG,
    ),
}
