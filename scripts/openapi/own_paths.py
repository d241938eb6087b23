"""The paths that belong to no dialect of others."""

from json_schemas import (
    COUNT, FLAG, MAX_COUNT, OBJECT, TEXT, any_of, array, asked, get, integer, post,
    ref, said, words,
)
from openai_paths import TOOL_USE

TAG = "Plimsoll"
IDS = array(integer(0, MAX_COUNT))
TEXT_TO_TOKENIZE = {
    "model": TEXT,
    "add_special_tokens": FLAG,
    "add_special": FLAG,
    "parse_special": FLAG,
}
TOKENIZE = any_of(
    asked({**TEXT_TO_TOKENIZE, "prompt": TEXT}, required=("prompt",)),
    asked({**TEXT_TO_TOKENIZE, "content": TEXT}, required=("content",)),
    asked(
        {
            "model": TEXT,
            "messages": array(ref("Message"), minItems=1),
            **TOOL_USE,
            "add_generation_prompt": FLAG,
        },
        required=("messages",),
    ),
)
STATUS = said(
    {
        "state": words("ok", "loading", "draining"),
        "devices": array(OBJECT),
        "models": array(said({"id": TEXT, "state": TEXT})),
        "workers": array(OBJECT),
    },
    optional=("workers",),
)

SCHEMAS = {
    "TokenizeRequest": TOKENIZE,
    "Tokens": said({"tokens": IDS, "count": COUNT, "max_model_len": COUNT}),
    "DetokenizeRequest": asked({"model": TEXT, "tokens": IDS}),
    "TokenText": said({"prompt": TEXT, "content": TEXT}),
    "Health": said({"status": words("ok", "loading", "draining")}),
    "Liveness": said({"status": words("alive", "hangs")}),
    "Status": STATUS,
    "PlannerRequest": OBJECT,
    "PlannerReply": OBJECT,
}


def _file(summary, kinds, schema=TEXT, **more):
    content = {kind: {"schema": schema} for kind in kinds}
    return {
        "summary": summary,
        "tags": [TAG],
        **more,
        "responses": {
            "200": {"description": "The file.", "content": content},
            "304": {"description": "The client has it already."},
        },
    }


def _probe(summary, schema, yes, no):
    content = {"application/json": {"schema": ref(schema)}}
    return {
        "summary": summary,
        "tags": [TAG],
        "responses": {
            "200": {"description": yes, "content": content},
            "503": {"description": no, "content": content},
        },
    }


def _page_file():
    file = _file(
        "A file of the page.",
        ("text/javascript", "text/css", "image/svg+xml"),
        parameters=[{"name": "file", "in": "path", "required": True, "schema": TEXT}],
    )
    file["responses"]["404"] = {
        "description": "There is none of this name.",
        "content": {"application/json": {"schema": ref("Error")}},
    }
    return file


QUERIES = (
    "BatchPlan", "DescribeModel", "FindDevices", "GetBounds", "ListCatalogue",
    "ListDevices", "Plan", "PlaceModels", "PlanSet", "PlanSplit",
)


def _planner_query():
    item = post(
        "What a planner says. The method's messages are those of docs/api.md.",
        "PlannerRequest", "PlannerReply", "Error", {}, tag=TAG,
    )
    item["post"]["parameters"] = [{
        "name": "method", "in": "path", "required": True,
        "schema": {"enum": list(QUERIES)},
    }]
    return item


PATHS = {
    "/": {"get": _file("The page.", ("text/html",))},
    "/page/{file}": {"get": _page_file()},
    "/openapi.json": {"get": _file("This description.", ("application/json",), OBJECT)},
    "/health": {
        "get": _probe(
            "Whether requests can be answered.", "Health", "They can.", "They cannot."
        )
    },
    "/livez": {
        "get": _probe(
            "Whether no step and no load hangs.", "Liveness", "None does.",
            "One hangs, and the process is to be ended.",
        )
    },
    "/metrics": {"get": _file("Numbers for Prometheus.", ("text/plain",))},
    "/plimsoll/status": {
        "get": get("Plans beside measurements.", "Status", TAG)
    },
    "/plimsoll.v1.PlannerService/{method}": _planner_query(),
    "/tokenize": post(
        "The tokens of a text or of a conversation.",
        "TokenizeRequest", "Tokens", "Error", {"prompt": "Hello"}, tag=TAG,
    ),
    "/detokenize": post(
        "The text of tokens.",
        "DetokenizeRequest", "TokenText", "Error", {"tokens": [1, 2]}, tag=TAG,
    ),
}
