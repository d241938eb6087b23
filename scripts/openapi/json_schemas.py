"""Pieces of JSON schemas that requests and replies of several dialects share."""

MAX_COUNT = 2**31 - 1
LEAST_MASS = 1e-6
IGNORED = "Ignored."
# What the schema of a parameter says that has one value only.
ONLY = "No other value."


def nullable(schema):
    """The schema of a parameter that may be null, which is the same as absent."""
    if not schema or set(schema) == {"description"}:
        return schema
    if "enum" in schema:
        return {**schema, "enum": [*schema["enum"], None]}
    if "type" in schema:
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        return {**schema, "type": [*kinds, "null"]}
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    return {"anyOf": [schema, {"type": "null"}]}


def asked(properties, required=(), **more):
    """An object of a request: nothing else is in it, and what is not required may
    be null."""
    return {
        "type": "object",
        "properties": {
            name: schema if name in required else nullable(schema)
            for name, schema in properties.items()
        },
        **({"required": list(required)} if required else {}),
        "additionalProperties": False,
        **more,
    }


def said(properties, optional=()):
    """An object of a reply, which may have more than this."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}


def ref(name):
    return {"$ref": f"#/components/schemas/{name}"}


def array(items, **more):
    return {"type": "array", "items": items, **more}


def integer(least=None, most=None):
    bounds = {"minimum": least, "maximum": most}
    return {"type": "integer", **{k: v for k, v in bounds.items() if v is not None}}


def number(least, most):
    return {"type": "number", "minimum": least, "maximum": most}


def words(*values):
    return {"enum": list(values)}


def any_of(*schemas):
    return {"anyOf": list(schemas)}


def ignored(*names):
    return {name: {"description": IGNORED} for name in names}


def only(value):
    """A parameter with one value, which it has where it is absent, too."""
    return {"enum": [value], "description": ONLY}


def nothing():
    """A parameter that has to be absent."""
    return {"type": "null", "description": ONLY}


TEXT = {"type": "string"}
EVENT_STREAM = "text/event-stream"
FLAG = {"type": "boolean"}
OBJECT = {"type": "object"}
NULL = {"type": "null"}
TEXT_OR_NULL = {"type": ["string", "null"]}
COUNT = integer(0)  # a count in a reply
TOKENS = integer(1, MAX_COUNT)  # how many at most

DRAW = {
    "temperature": number(0, 100),
    "top_p": number(LEAST_MASS, 1),
    "top_k": integer(0, MAX_COUNT),
}
FILTERS = {
    "min_p": number(0, 1),
    "typical_p": number(LEAST_MASS, 1),
    "presence_penalty": number(-2, 2),
    "frequency_penalty": number(-2, 2),
}
PENALTY = number(0.01, 100)
SEED = integer(-(2**63), 2**63 - 1)
STOPS = any_of(TEXT, array(TEXT, maxItems=16))
LOGPROBS = {"logprobs": FLAG, "top_logprobs": integer(0, 20)}

SCHEMA_OPTIONS = asked({
    "closed_objects": FLAG,
    "any_order": FLAG,
    "any_spelling": FLAG,
    "refuse_unknown": FLAG,
    "ignore_formats": FLAG,
})
A_SCHEMA = any_of(OBJECT, FLAG)
NAMED_SCHEMA = {
    "schema": A_SCHEMA,
    "schema_options": SCHEMA_OPTIONS,
    **ignored("name", "description", "strict"),
}
FUNCTION = {
    "name": TEXT,
    "description": TEXT,
    "parameters": OBJECT,
    **ignored("strict"),
}
REASONING = asked({
    "effort": TEXT,
    "max_tokens": integer(0, MAX_COUNT),
    **ignored("context", "summary", "generate_summary"),
})


def body(name, example):
    """The body of a request."""
    content = {"schema": ref(name), "examples": {"plain": {"value": example}}}
    return {"required": True, "content": {"application/json": content}}


def events(*names):
    """Server-sent events of these names, whose data are JSON."""
    return EVENT_STREAM, said({"event": words(*names), "data": TEXT})


def replies(name, error, stream=None, statuses=("400", "404", "413", "429", "503", "504")):
    """The replies of a path: a whole one, a stream, and errors of its dialect.

    `stream` is a media type and the schema of one event of it.

    A request is refused with 401 and 403 before its path is looked at, and with
    413 before or after.
    """
    good = {"application/json": {"schema": ref(name)}}
    if stream:
        good[stream[0]] = {"schema": stream[1]}
    found = {"200": {"description": "The reply.", "content": good}}
    for status in (*statuses, "401", "403"):
        schema = ref(error)
        if status in ("401", "403"):
            schema = ref("Error")
        elif status == "413" and error != "Error":
            schema = any_of(schema, ref("Error"))
        found[status] = {
            "description": ERRORS[status],
            "content": {"application/json": {"schema": schema}},
        }
    return dict(sorted(found.items()))


ERRORS = {
    "400": "A parameter makes no sense, or the prompt is longer than the context.",
    "401": "The server wants a token.",
    "403": "The Host, the Origin or the token's role is not allowed.",
    "404": "There is no such model, response or file.",
    "413": "The body is too large, or a reply can never have its memory.",
    "429": "The queue or the memory of messages is full.",
    "503": "The model loads or is not loaded, or the server drains.",
    "504": "A whole reply took too long.",
}


def post(summary, name, reply, error, example, stream=None, tag=None):
    """A POST with JSON."""
    return {
        "post": {
            "summary": summary,
            "tags": [tag],
            "requestBody": body(name, example),
            "responses": replies(reply, error, stream),
        }
    }


def get(summary, reply, tag, **more):
    """A GET that says JSON."""
    return {
        "summary": summary,
        "tags": [tag],
        "responses": replies(reply, "Error", statuses=()),
        **more,
    }
