"""The paths of Ollama's dialect."""

from json_schemas import (
    COUNT, DRAW, FILTERS, FLAG, LOGPROBS, MAX_COUNT, OBJECT, ONLY, PENALTY, SEED, STOPS,
    TEXT, any_of, array, asked, get, ignored, integer, only, post, ref, said, words,
)

TAG = "Ollama"
LINES = "application/x-ndjson"
OPTIONS = asked({
    **DRAW,
    **FILTERS,
    "repeat_penalty": PENALTY,
    "repeat_last_n": integer(-1, 8192),
    "seed": SEED,
    "stop": STOPS,
    "num_predict": integer(-2, MAX_COUNT),
    "num_ctx": integer(1, MAX_COUNT),
    "mirostat": only(0),
    "tfs_z": only(1),
    "penalize_newline": only(True),
    **ignored(
        "num_keep", "num_batch", "num_gpu", "main_gpu", "num_thread", "numa",
        "low_vram", "f16_kv", "use_mmap", "use_mlock", "logits_all", "vocab_only",
        "embedding_only", "mirostat_tau", "mirostat_eta",
    ),
})
COMMON = {
    "model": TEXT,
    "stream": FLAG,
    "options": OPTIONS,
    "format": any_of(words("", "json"), OBJECT),
    **LOGPROBS,
    "keep_alive": any_of({"type": "number"}, TEXT),
    "think": any_of(FLAG, TEXT),
    "truncate": only(False),
    "shift": only(False),
}
CALL = asked(
    {
        "id": TEXT,
        "type": words("function"),
        "function": asked({"name": TEXT, "arguments": OBJECT, **ignored("index")}),
    },
    required=("function",),
)
EMPTY = {"type": "array", "maxItems": 0, "description": ONLY}
MESSAGE = asked(
    {
        "role": words("system", "user", "assistant", "tool"),
        "content": TEXT,
        "images": EMPTY,
        "tool_calls": array(CALL),
        "tool_name": TEXT,
        "tool_call_id": TEXT,
        "thinking": TEXT,
    },
    required=("role",),
)
CHAT = asked({
    **COMMON,
    "messages": array(ref("OllamaMessage")),
    "tools": array(ref("Tool")),
})
GENERATE = asked({
    **COMMON,
    "prompt": TEXT,
    "system": TEXT,
    "raw": FLAG,
    "suffix": only(""),
    "template": only(""),
    "context": EMPTY,
    "images": EMPTY,
    "width": only(0),
    "height": only(0),
    "steps": only(0),
})
COUNTS = (
    "total_duration", "load_duration", "prompt_eval_count", "prompt_eval_duration",
    "eval_count", "eval_duration",
)


def _reply(name, text):
    # A reply to no prompt has neither counts nor durations.
    return said(
        {
            "model": TEXT,
            "created_at": TEXT,
            name: text,
            "thinking": TEXT,
            "logprobs": array(ref("TokenLogprob")),
            "done": FLAG,
            "done_reason": words("stop", "length", "load", "unload"),
            **{count: COUNT for count in COUNTS},
        },
        optional=("thinking", "logprobs", "done_reason", *COUNTS),
    )


SAID = said(
    {
        "role": words("assistant"),
        "content": TEXT,
        "thinking": TEXT,
        "tool_calls": array(said({
            "id": TEXT,
            "function": said({"index": COUNT, "name": TEXT, "arguments": OBJECT}),
        })),
    },
    optional=("thinking", "tool_calls"),
)
DETAILS = said({
    "parent_model": TEXT,
    "format": words("gguf"),
    "family": TEXT,
    "families": array(TEXT),
    "parameter_size": TEXT,
    "quantization_level": TEXT,
})
NAMED = {"name": TEXT, "model": TEXT, "size": COUNT, "digest": TEXT, "details": DETAILS}

SCHEMAS = {
    "OllamaChatRequest": CHAT,
    "OllamaGenerateRequest": GENERATE,
    "OllamaMessage": MESSAGE,
    "OllamaChat": _reply("message", SAID),
    "OllamaGenerate": _reply("response", TEXT),
    "OllamaShowRequest": asked({"model": TEXT, "name": TEXT, **ignored("verbose")}),
    "OllamaShow": said({
        "modelfile": TEXT,
        "parameters": TEXT,
        "template": TEXT,
        "details": DETAILS,
        "model_info": OBJECT,
        "capabilities": array(TEXT),
    }),
    "OllamaTags": said({"models": array(said({**NAMED, "modified_at": TEXT}))}),
    "OllamaLoaded": said({
        "models": array(said({
            **NAMED, "expires_at": TEXT, "size_vram": COUNT, "context_length": COUNT,
        }))
    }),
    "OllamaVersion": said({"version": TEXT}),
    "OllamaError": said({"error": TEXT}),
}
PATHS = {
    "/api/chat": post(
        "A conversation, as Ollama's clients send it.",
        "OllamaChatRequest", "OllamaChat", "OllamaError",
        {
            "messages": [{"role": "user", "content": "Hello"}],
            "options": {"num_predict": 4},
            "stream": False,
        },
        (LINES, any_of(ref("OllamaChat"), ref("OllamaError"))), TAG,
    ),
    "/api/generate": post(
        "A prompt, as Ollama's clients send it.",
        "OllamaGenerateRequest", "OllamaGenerate", "OllamaError",
        {"prompt": "Hello", "options": {"num_predict": 4}, "stream": False},
        (LINES, any_of(ref("OllamaGenerate"), ref("OllamaError"))), TAG,
    ),
    "/api/show": post(
        "One model.", "OllamaShowRequest", "OllamaShow", "OllamaError",
        {"model": "model"}, tag=TAG,
    ),
    "/api/tags": {"get": get("All models.", "OllamaTags", TAG)},
    "/api/ps": {"get": get("The models that are loaded.", "OllamaLoaded", TAG)},
    "/api/version": {"get": get("Plimsoll's version.", "OllamaVersion", TAG)},
}
