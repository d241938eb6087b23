"""Writes services/http/openapi/openapi.json, the description of all HTTP paths.

Usage: python3 scripts/openapi

tests/e2e/dialects/test_openapi.py fails when the file and this folder differ, and
openapi_test when the file and the server's paths do.
"""

import json
import pathlib

import anthropic_paths
import ollama_paths
import openai_paths
import own_paths
import responses_paths

FILE = pathlib.Path(__file__).resolve().parents[2] / "services/http/openapi/openapi.json"
PARTS = (openai_paths, responses_paths, anthropic_paths, ollama_paths, own_paths)


def description():
    """The description as JSON has it."""
    paths = {}
    schemas = {}
    for part in PARTS:
        assert not set(paths) & set(part.PATHS)
        assert not set(schemas) & set(part.SCHEMAS)
        paths.update(part.PATHS)
        schemas.update(part.SCHEMAS)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Plimsoll",
            "version": "1",
            "description": "docs/http.md says what the parameters mean.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        # A server without tokens takes requests without one.
        "security": [{}, {"token": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _lines(value, depth):
    """JSON with one line for each member down to this depth."""
    if depth == 0:
        return json.dumps(value)
    members = [f"{json.dumps(name)}: {_lines(value[name], depth - 1)}" for name in value]
    return "{\n" + ",\n".join(members) + "\n}"


def text():
    """The file's text: each path and each schema has a line of its own."""
    whole = description()
    members = []
    for name, value in whole.items():
        depth = {"paths": 1, "components": 2}.get(name, 0)
        members.append(f"{json.dumps(name)}: {_lines(value, depth)}")
    return "{\n" + ",\n".join(members) + "\n}\n"


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(text(), encoding="utf-8")
