"""Receipts of what tenants took, of real servers with tokens."""

import json
import subprocess
import urllib.request

import grpc
import pytest

from asks import GREEDY, generate, text
from conftest import model_flag
from security.test_security import tokens  # noqa: F401 (a fixture)
from servers import CALL_SECONDS, START_SECONDS, Front, Worker, binary, refused, until


def summed(*files):
    """What `plimsoll usage` says of the files, by tenant."""
    done = subprocess.run(
        [binary("plimsoll"), "usage", *map(str, files), "-o", "json"],
        capture_output=True,
        timeout=START_SECONDS,
        check=True,
    )
    answer = json.loads(done.stdout)
    assert answer["lost"] == 0 and answer["bad_lines"] == 0
    return {group["tenant"]: group for group in answer["groups"]}


def test_a_workers_receipts_say_what_its_callers_were_told(tokens, tmp_path):  # noqa: F811
    tokens.add("b", "user", "--tenant", "team-b")
    file, moved = tmp_path / "usage.jsonl", tmp_path / "usage.jsonl.1"
    quotas = tmp_path / "quotas.json"
    quotas.write_text(json.dumps({"tenants": {"team-b": {"kv_bytes": 1}}}))
    flags = (model_flag("smollm2"), *tokens.flag(), "--n-ctx=512")
    flags += (f"--usage-file={file}", f"--quotas={quotas}")
    request = generate("smollm2", text=text("Hello"), sampling=GREEDY, max_tokens=7)
    with Worker(*flags) as worker:
        worker.await_ready()

        def ask(name):
            return worker.generation.Generate(
                request, metadata=tokens.metadata(name), timeout=CALL_SECONDS
            )

        usages = [ask("u").usage]
        # A reply does not wait for its receipt, which a thread writes soon after.
        until(lambda: file.read_text().endswith("\n"), what="the first receipt")
        file.rename(moved)  # as a rotator of logs does
        usages += [ask("u").usage, ask("u").usage]
        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED"):
            ask("b")
    first = json.loads(moved.read_text().splitlines()[0])
    assert (first["model"], first["status"]) == ("smollm2", "OK")
    by_tenant = summed(moved, file)
    team = by_tenant["team-a"]
    assert team["requests"] == 3 and team["refused"] == 0
    assert team["generated_tokens"] == 21
    assert team["prompt_tokens"] + team["cached_tokens"] == sum(
        usage.prompt_tokens for usage in usages
    )
    assert by_tenant["team-b"]["requests"] == 0
    assert by_tenant["team-b"]["refused"] == 1


def test_http_has_receipts_without_quotas(smollm2, tokens, tmp_path):  # noqa: F811
    file = tmp_path / "usage.jsonl"
    flags = (*tokens.flag(), f"--usage-file={file}", "--n-ctx=512")
    with Front(str(smollm2), *flags) as front:
        body = {"model": "", "prompt": "Hello", "max_tokens": 5}
        request = urllib.request.Request(
            front.url + "/v1/completions",
            json.dumps(body).encode(),
            {"Authorization": f"Bearer {tokens.of['u']}"},
        )
        with urllib.request.urlopen(request, timeout=CALL_SECONDS) as reply:
            usage = json.loads(reply.read())["usage"]
    team = summed(file)["team-a"]
    assert team["requests"] == 1
    assert team["generated_tokens"] == usage["completion_tokens"]
    assert team["prompt_tokens"] == usage["prompt_tokens"]


@pytest.mark.parametrize("program", [("plimsoll-worker",), ("plimsoll", "serve")])
def test_receipts_need_tokens(program, smollm2, tmp_path):
    name, *command = program
    model = (str(smollm2),) if command else (model_flag("smollm2"),)
    done = subprocess.run(
        [binary(name), *command, *model, f"--usage-file={tmp_path / 'usage.jsonl'}"],
        capture_output=True,
        timeout=START_SECONDS,
    )
    assert done.returncode == 2
    assert "--usage-file needs --tokens" in done.stderr.decode()


def test_a_file_that_cannot_be_opened_ends_the_start(tokens, tmp_path):  # noqa: F811
    done = subprocess.run(
        [binary("plimsoll-worker"), model_flag("smollm2"), *tokens.flag()]
        + [f"--usage-file={tmp_path / 'none' / 'usage.jsonl'}"],
        capture_output=True,
        timeout=START_SECONDS,
    )
    assert done.returncode == 2
    assert "No such file" in done.stderr.decode()
