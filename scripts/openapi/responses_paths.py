"""The paths of OpenAI's responses."""

from json_schemas import (
    COUNT, DRAW, FILTERS, FLAG, FUNCTION, NAMED_SCHEMA, OBJECT, PENALTY, REASONING,
    SEED, TEXT, TEXT_OR_NULL, TOKENS, any_of, array, asked, events, ignored, nothing,
    only, post, ref, replies, said, words,
)

TAG = "OpenAI's responses"
PART = asked(
    {
        "type": words("input_text", "output_text"),
        "text": TEXT,
        **ignored("annotations", "logprobs", "prompt_cache_breakpoint"),
    },
    required=("type", "text"),
)
THOUGHT = asked(
    {
        "type": words("reasoning_text"),
        "text": TEXT,
        **ignored("annotations", "logprobs", "prompt_cache_breakpoint"),
    },
    required=("type", "text"),
)
PARTS = any_of(TEXT, array(PART))
OF_ITEM = {"status": TEXT, **ignored("id")}
ITEM = any_of(
    asked(
        {
            "type": words("message"),
            "role": words("system", "developer", "user", "assistant"),
            "content": PARTS,
            **OF_ITEM,
            **ignored("phase"),
        },
        required=("role",),
    ),
    asked(
        {
            "type": words("reasoning"),
            "content": any_of(TEXT, array(THOUGHT)),
            **OF_ITEM,
            **ignored("summary", "encrypted_content"),
        },
        required=("type",),
    ),
    asked(
        {
            "type": words("function_call"),
            "call_id": {**TEXT, "minLength": 1},
            "name": TEXT,
            "arguments": TEXT,
            **OF_ITEM,
        },
        required=("type", "call_id"),
    ),
    asked(
        {
            "type": words("function_call_output"),
            "call_id": TEXT,
            "output": PARTS,
            **OF_ITEM,
            **ignored("name"),
        },
        required=("type", "call_id"),
    ),
)
TOOL = asked({
    "type": words("function"),
    **FUNCTION,
    "defer_loading": words(False),
    **ignored("allowed_callers", "output_schema"),
})
TOOL_CHOICE = any_of(
    words("auto", "none", "required"),
    asked(
        {"type": words("function"), "name": {**TEXT, "minLength": 1}},
        required=("name",),
    ),
)
FORMAT = any_of(
    asked({"type": words("text", "json_object")}, required=("type",)),
    asked(
        {"type": words("json_schema"), **NAMED_SCHEMA}, required=("type", "schema")
    ),
)
REQUEST = asked(
    {
        "model": TEXT,
        "input": any_of(TEXT, array(ref("InputItem"), minItems=1)),
        "instructions": TEXT,
        "previous_response_id": TEXT,
        "store": FLAG,
        "max_output_tokens": TOKENS,
        **DRAW,
        **FILTERS,
        "repetition_penalty": PENALTY,
        "seed": SEED,
        "chat_template_kwargs": OBJECT,
        "stream": FLAG,
        "stream_options": asked(ignored("include_obfuscation")),
        "tools": array(TOOL),
        "tool_choice": TOOL_CHOICE,
        "parallel_tool_calls": FLAG,
        "text": asked({"format": FORMAT, **ignored("verbosity")}),
        "reasoning": REASONING,
        "metadata": {"type": "object", "additionalProperties": TEXT},
        "include": any_of(TEXT, array(TEXT, maxItems=16)),
        "truncation": only("disabled"),
        "background": only(False),
        "top_logprobs": only(0),
        "conversation": nothing(),
        "prompt": nothing(),
        "context_management": nothing(),
        **ignored(
            "user", "safety_identifier", "service_tier", "prompt_cache_key",
            "prompt_cache_options", "prompt_cache_retention", "max_tool_calls",
        ),
    },
    required=("input",),
)
ITEM_STATUS = words("completed", "incomplete", "in_progress")
OUTPUT = any_of(
    said({
        "id": TEXT,
        "type": words("message"),
        "status": ITEM_STATUS,
        "role": words("assistant"),
        "content": array(said({
            "type": words("output_text"),
            "text": TEXT,
            "annotations": array(OBJECT),
        })),
    }),
    said({
        "id": TEXT,
        "type": words("reasoning"),
        "status": ITEM_STATUS,
        "summary": array(OBJECT),
        "content": array(said({"type": words("reasoning_text"), "text": TEXT})),
    }),
    said({
        "id": TEXT,
        "type": words("function_call"),
        "status": ITEM_STATUS,
        "call_id": TEXT,
        "name": TEXT,
        "arguments": TEXT,
    }),
)
RESPONSE = said(
    {
        "id": TEXT,
        "object": words("response"),
        "created_at": COUNT,
        "status": words("completed", "incomplete"),
        "error": {"type": "null"},
        "incomplete_details": any_of({"type": "null"}, said({"reason": TEXT})),
        "model": TEXT,
        "output": array(ref("OutputItem")),
        "usage": said({
            "input_tokens": COUNT,
            "input_tokens_details": said({"cached_tokens": COUNT}),
            "output_tokens": COUNT,
            "output_tokens_details": said({"reasoning_tokens": COUNT}),
            "total_tokens": COUNT,
        }),
        "constraint_notes": array(TEXT, maxItems=16),
        "instructions": TEXT_OR_NULL,
        "previous_response_id": TEXT_OR_NULL,
        "metadata": OBJECT,
        "store": FLAG,
        "tools": array(OBJECT),
    },
    optional=("constraint_notes",),
)
STREAM = events(
    "response.created", "response.in_progress", "response.output_item.added",
    "response.output_item.done", "response.content_part.added",
    "response.content_part.done", "response.reasoning_text.delta",
    "response.reasoning_text.done", "response.output_text.delta",
    "response.output_text.done", "response.function_call_arguments.delta",
    "response.function_call_arguments.done", "response.completed",
    "response.incomplete", "response.failed",
)
ID = [{"name": "response", "in": "path", "required": True, "schema": TEXT}]

SCHEMAS = {
    "ResponseRequest": REQUEST,
    "InputItem": ITEM,
    "OutputItem": OUTPUT,
    "Response": RESPONSE,
    "DeletedResponse": said(
        {"id": TEXT, "object": words("response"), "deleted": words(True)}
    ),
}
PATHS = {
    "/v1/responses": post(
        "A turn of a conversation that may go on from an earlier one.",
        "ResponseRequest", "Response", "Error",
        {"input": "Hello", "max_output_tokens": 4}, STREAM, TAG,
    ),
    "/v1/responses/{response}": {
        "get": {
            "summary": "A response that is kept.",
            "tags": [TAG],
            "parameters": ID,
            "responses": replies("Response", "Error", statuses=("404",)),
        },
        "delete": {
            "summary": "Forgets a response.",
            "tags": [TAG],
            "parameters": ID,
            "responses": replies("DeletedResponse", "Error", statuses=("404",)),
        },
    },
}
