"""The paths of OpenAI's dialect but for its responses."""

from json_schemas import (
    A_SCHEMA, COUNT, DRAW, EVENT_STREAM, FILTERS, FLAG, FUNCTION, LOGPROBS, MAX_COUNT,
    NAMED_SCHEMA, NULL, OBJECT, PENALTY, REASONING, SCHEMA_OPTIONS, SEED, STOPS, TEXT,
    TEXT_OR_NULL, TOKENS, any_of, array, asked, get, ignored, integer, number, only,
    post, ref, replies, said, words,
)

TAG = "OpenAI"
# Without names; the last one is [DONE].
STREAM = (EVENT_STREAM, said({"data": TEXT}))
ACCOUNT = ignored(
    "user", "metadata", "store", "service_tier", "safety_identifier",
    "prompt_cache_key", "prompt_cache_retention",
)

CALL = asked(
    {
        "id": TEXT,
        "type": words("function"),
        "function": asked({"name": TEXT, "arguments": TEXT}),
        **ignored("index"),
    },
    required=("function",),
)
TEXT_PART = asked({"type": words("text"), "text": TEXT}, required=("type",))
MESSAGE = asked(
    {
        "role": words("system", "developer", "user", "assistant", "tool"),
        "content": any_of(TEXT, array(TEXT_PART)),
        "tool_calls": array(CALL),
        "tool_call_id": TEXT,
        "reasoning": TEXT,
        "reasoning_content": TEXT,
        **ignored("name", "refusal", "annotations", "audio", "function_call"),
    },
    required=("role",),
)
TOOL = asked(
    {"type": words("function"), "function": asked(FUNCTION)}, required=("function",)
)
TOOL_CHOICE = any_of(
    words("auto", "none", "required"),
    asked(
        {
            "type": words("function"),
            "function": asked({"name": {**TEXT, "minLength": 1}}, required=("name",)),
        },
        required=("function",),
    ),
)
TOOL_USE = {
    "tools": array(ref("Tool")),
    "tool_choice": TOOL_CHOICE,
    "parallel_tool_calls": FLAG,
}
RESPONSE_FORMAT = any_of(
    asked({"type": words("text")}, required=("type",)),
    asked(
        {
            "type": words("json_object"),
            "schema": A_SCHEMA,
            "schema_options": SCHEMA_OPTIONS,
        },
        required=("type",),
    ),
    asked(
        {
            "type": words("json_schema"),
            "json_schema": asked(NAMED_SCHEMA, required=("schema",)),
        },
        required=("type", "json_schema"),
    ),
)
COMMON = {
    "model": TEXT,
    **DRAW,
    **FILTERS,
    "repetition_penalty": PENALTY,
    "seed": SEED,
    "logit_bias": {
        "type": "object",
        "propertyNames": {"pattern": "^[0-9]{1,9}$"},
        "additionalProperties": {**number(-100, 100), "type": ["number", "null"]},
    },
    "max_tokens": TOKENS,
    "max_completion_tokens": TOKENS,
    "stop": STOPS,
    "stop_token_ids": array(integer(0, MAX_COUNT)),
    "ignore_eos": FLAG,
    "stream": FLAG,
    "stream_options": asked({"include_usage": FLAG, **ignored("include_obfuscation")}),
    "context_policy": words("stop", "roll"),
    "roll": asked({"pin_tokens": integer(0, MAX_COUNT)}),
    "response_format": RESPONSE_FORMAT,
    "grammar": TEXT,
    "regex": TEXT,
    "json_schema": A_SCHEMA,
    "n": integer(1, 16),
    **ACCOUNT,
}
CHAT = asked(
    {
        **COMMON,
        **LOGPROBS,
        "messages": array(ref("Message"), minItems=1),
        **TOOL_USE,
        "chat_template_kwargs": OBJECT,
        "reasoning_effort": TEXT,
        "reasoning": REASONING,
    },
    required=("messages",),
)
IDS = array(integer(0, MAX_COUNT))
COMPLETION = asked(
    {
        **COMMON,
        "prompt": any_of(
            TEXT,
            {**IDS, "minItems": 1},
            array(any_of(TEXT, IDS), minItems=1, maxItems=16),
        ),
        "logprobs": integer(0, 20),
        "echo": only(False),
        "suffix": only(""),
        "best_of": only(1),
    },
    required=("prompt",),
)

CANDIDATE = {"token": TEXT, "logprob": {"type": "number"}, "bytes": array(integer(0, 255))}
TOKEN_LOGPROB = said({**CANDIDATE, "top_logprobs": array(said(CANDIDATE))})
REPLY_MESSAGE = said(
    {
        "role": words("assistant"),
        "content": TEXT_OR_NULL,
        "refusal": NULL,
        "reasoning_content": TEXT,
        "tool_calls": array(said({
            "id": TEXT,
            "type": words("function"),
            "function": said({"name": TEXT, "arguments": TEXT}),
        })),
    },
    optional=("reasoning_content", "tool_calls"),
)
EVICTIONS = array(said({"position": COUNT, "tokens": COUNT, "kept_tokens": COUNT}))
REASON = words("stop", "length", "tool_calls")
USAGE = said({
    "prompt_tokens": COUNT,
    "completion_tokens": COUNT,
    "total_tokens": COUNT,
    "prompt_tokens_details": said({"cached_tokens": COUNT}),
})
CHAT_CHOICE = said(
    {
        "index": COUNT,
        "message": REPLY_MESSAGE,
        "logprobs": any_of(
            NULL, said({"content": array(ref("TokenLogprob")), "refusal": NULL})
        ),
        "finish_reason": REASON,
        "evictions": EVICTIONS,
    },
    optional=("evictions",),
)
COMPLETION_CHOICE = said(
    {
        "index": COUNT,
        "text": TEXT,
        "logprobs": any_of(NULL, said({
            "tokens": array(TEXT),
            "token_logprobs": array({"type": "number"}),
            "top_logprobs": array(OBJECT),
            "text_offset": array(COUNT),
        })),
        "finish_reason": REASON,
        "evictions": EVICTIONS,
    },
    optional=("evictions",),
)


def _whole(kind, choice):
    return said(
        {
            "id": TEXT,
            "object": words(kind),
            "created": COUNT,
            "model": TEXT,
            "constraint_notes": array(TEXT, maxItems=16),
            "choices": array(choice, minItems=1),
            "usage": USAGE,
        },
        optional=("constraint_notes",),
    )


MODEL = said(
    {
        "id": TEXT,
        "object": words("model"),
        "created": COUNT,
        "owned_by": TEXT,
        "state": words("unloaded", "loading", "ready", "unloading"),
        "max_model_len": COUNT,
        "architecture": TEXT,
        "planned_bytes": COUNT,
    },
    optional=("max_model_len", "architecture", "planned_bytes"),
)
ERROR = said({
    "error": said({
        "message": TEXT,
        "type": TEXT,
        "param": TEXT_OR_NULL,
        "code": TEXT_OR_NULL,
    })
})

SCHEMAS = {
    "ChatRequest": CHAT,
    "CompletionRequest": COMPLETION,
    "Message": MESSAGE,
    "Tool": TOOL,
    "TokenLogprob": TOKEN_LOGPROB,
    "Chat": _whole("chat.completion", CHAT_CHOICE),
    "Completion": _whole("text_completion", COMPLETION_CHOICE),
    "Model": MODEL,
    "ModelList": said({"object": words("list"), "data": array(ref("Model"))}),
    "Error": ERROR,
}
PATHS = {
    "/v1/models": {"get": get("All models.", "ModelList", TAG)},
    "/v1/models/{model}": {
        "get": {
            "summary": "One model.",
            "tags": [TAG],
            "parameters": [
                {"name": "model", "in": "path", "required": True, "schema": TEXT}
            ],
            "responses": replies("Model", "Error", statuses=("404",)),
        }
    },
    "/v1/chat/completions": post(
        "A conversation, in the model's chat format.", "ChatRequest", "Chat", "Error",
        {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4},
        STREAM, TAG,
    ),
    "/v1/completions": post(
        "A text or token ids as they are.", "CompletionRequest", "Completion", "Error",
        {"prompt": "Hello", "max_tokens": 4}, STREAM, TAG,
    ),
}
