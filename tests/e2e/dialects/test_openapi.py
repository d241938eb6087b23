"""/openapi.json says what docs/http.md says and what `plimsoll serve` does.

Schemathesis makes requests from it, good ones and bad ones, and checks replies.
"""

import importlib.util
import json
import re
import subprocess
import sys

import httpx
import pytest

import stubs
from servers import CALL_SECONDS, Front, Gateway, Worker, nightly

SCRIPTS = stubs.SOURCE_DIR / "scripts" / "openapi"
# What a request says whose example has another form.
HELLO = [{"role": "user", "content": "Hello"}]
# Headings of docs/http.md, and the requests that their tables are about.
TABLES = {
    "OpenAI's parameters": ("ChatRequest", "CompletionRequest"),
    "OpenAI's responses": ("ResponseRequest",),
    "Anthropic's parameters": ("MessagesRequest",),
    "Ollama's parameters": (
        "OllamaChatRequest", "OllamaGenerateRequest", "OllamaShowRequest",
    ),
}
SCHEMATHESIS_SECONDS = 900
# Valid requests may ask for what this model or this moment has not.
CHECKS = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance",
    "response_headers_conformance", "response_schema_conformance",
    "negative_data_rejection", "unsupported_method", "allow_header_conformance",
)


@pytest.fixture(scope="module")
def script():
    sys.path.insert(0, str(SCRIPTS))
    try:
        spec = importlib.util.spec_from_file_location(
            "openapi_main", SCRIPTS / "__main__.py"
        )
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(str(SCRIPTS))


@pytest.fixture(scope="module")
def description(script):
    return json.loads(script.FILE.read_text(encoding="utf-8"))


# Replies are short, as the context is.
SIZE = ("--n-ctx=64", "--slots=4")


@pytest.fixture(scope="module")
def front(smollm2):
    with Front(str(smollm2), *SIZE) as server:
        yield server


@pytest.fixture(scope="module")
def gateway(smollm2):
    with Worker(f"--model=m={smollm2}", *SIZE) as worker:
        worker.await_ready()
        with Gateway(workers=[worker]) as server:
            yield server.await_ready()


def schema_at(description, reference):
    return description["components"]["schemas"][reference.rsplit("/", 1)[1]]


def posts(description):
    """The paths that take JSON: the schemas of their requests and an example."""
    for path, item in description["paths"].items():
        # The planner's paths are described in docs/api.md.
        if "post" not in item or path.endswith("{method}"):
            continue
        content = item["post"]["requestBody"]["content"]["application/json"]
        schema = schema_at(description, content["schema"]["$ref"])
        example = content["examples"]["plain"]["value"]
        yield path, schema.get("anyOf", [schema]), example


def documented(heading):
    """What a table of docs/http.md says of each parameter."""
    text = (stubs.SOURCE_DIR / "docs" / "http.md").read_text(encoding="utf-8")
    section = text.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    table = section.split("| parameter | |\n|---|---|\n", 1)[1].split("\n\n", 1)[0]
    found = {}
    for line in table.splitlines():
        names, meaning = line.strip("| ").split(" | ", 1)
        prefix = re.match(r"`(\w+)`: ", names)
        if prefix:
            names = names.removeprefix(prefix[0])
        for name in re.findall(r"`([\w.]+)`", names):
            found[f"{prefix[1]}.{name}" if prefix else name] = meaning
    return found


# Tables name parameters within these; of stream_options they name one in its row.
OUTER = {"options": None, "roll": None, "stream_options": {"include_usage"}}


def described(description, request):
    """The parameters of a request, and those within one that tables name."""
    found = dict(description["components"]["schemas"][request]["properties"])
    for outer, named in OUTER.items():
        inner = found.pop(outer, {}).get("properties", {})
        found |= {f"{outer}.{name}": schema for name, schema in inner.items()
                  if named is None or name in named}
    return found


def test_the_file_is_what_the_script_writes(script):
    assert script.FILE.read_text(encoding="utf-8") == script.text(), (
        "run python3 scripts/openapi"
    )


@pytest.mark.parametrize("heading", TABLES)
def test_tables_and_description_have_the_same_parameters(description, heading):
    told = documented(heading)
    known = {}
    for request in TABLES[heading]:
        known |= described(description, request)
    assert set(told) == set(known)
    ignored = {name for name, meaning in told.items() if meaning.startswith("ignored")}
    assert ignored == {
        name for name, schema in known.items()
        if schema.get("description") == "Ignored."
    }
    refused = {name for name, meaning in told.items() if meaning.startswith("only")}
    assert refused == {
        name for name, schema in known.items()
        if schema.get("description") == "No other value."
    }


def test_the_server_sends_it(front, description):
    assert httpx.get(f"{front.url}/openapi.json").json() == description


def test_every_parameter_is_known_to_the_server(front, description):
    """A parameter that is null counts as absent, unless nobody knows it."""
    n_sent = 0
    for path, schemas, example in posts(description):
        for schema in schemas:
            body = {name: None for name in schema["properties"]}
            needed = set(schema.get("required", ()))
            body |= {name: value for name, value in example.items() if name in body}
            if "messages" in needed:
                body["messages"] = HELLO
            if "content" in needed:
                body["content"] = "Hello"
            if path == "/api/show":
                body["model"] = httpx.get(f"{front.url}/v1/models").json()["data"][0]["id"]
            reply = httpx.post(f"{front.url}{path}", json=body, timeout=CALL_SECONDS)
            assert reply.status_code == 200, (path, reply.text)
            reply = httpx.post(
                f"{front.url}{path}", json=body | {"unheard_of": None},
                timeout=CALL_SECONDS,
            )
            assert reply.status_code == 400, (path, reply.text)
            assert "unheard_of" in reply.text
            n_sent += 1
    assert n_sent == 12


def schemathesis(front, tmp_path, *flags):
    command = [
        sys.executable, "-m", "schemathesis.cli", "run", f"{front.url}/openapi.json",
        "--checks", ",".join(CHECKS), "--generation-deterministic", "--no-shrink",
        "--continue-on-failure", "--warnings=off", "--no-color",
        f"--request-timeout={CALL_SECONDS}", *flags,
    ]
    ran = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True,
        timeout=SCHEMATHESIS_SECONDS, check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    counted = re.search(r"(\d+) generated", ran.stdout)
    assert counted, ran.stdout
    return int(counted[1])


@pytest.mark.parametrize("kind", ["front", "gateway"])
def test_schemathesis_finds_nothing(kind, request, tmp_path):
    server = request.getfixturevalue(kind)
    n_requests = schemathesis(
        server, tmp_path, "--phases=examples,fuzzing", "--max-examples=15"
    )
    assert n_requests > 150


@nightly
@pytest.mark.parametrize("kind", ["front", "gateway"])
def test_schemathesis_finds_nothing_at_the_bounds(kind, request, tmp_path):
    server = request.getfixturevalue(kind)
    assert schemathesis(server, tmp_path, "--phases=coverage") > 4000
