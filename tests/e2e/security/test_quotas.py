"""What tenants may take, of real servers with tokens."""

import json
import subprocess
import urllib.error
import urllib.request

import grpc
import pytest

from asks import GREEDY, generate, text
from conftest import model_flag
from security.test_security import tokens  # noqa: F401 (a fixture)
from servers import (CALL_SECONDS, START_SECONDS, Front, Worker, binary, refused,
                     until)

QUOTAS = {
    "default": {"requests": 8},
    "tenants": {
        "team-a": {"tokens_per_second": 1, "burst_tokens": 64, "prompt_bytes": 100}
    },
}


@pytest.fixture
def quotas(tmp_path):
    """The flag for a file of quotas."""
    path = tmp_path / "quotas.json"
    path.write_text(json.dumps(QUOTAS))
    return f"--quotas={path}"


def test_a_tenant_waits_for_tokens_and_others_do_not(tokens, quotas):  # noqa: F811
    tokens.add("b", "user", "--tenant", "team-b")
    flags = (model_flag("smollm2"), *tokens.flag(), quotas, "--n-ctx=512")
    request = generate("smollm2", text=text("Hello"), sampling=GREEDY, max_tokens=40)
    with Worker(*flags) as worker:
        worker.await_ready()

        def ask(name):
            return worker.generation.Generate(
                request, metadata=tokens.metadata(name), timeout=CALL_SECONDS
            )

        ask("u")
        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED") as failures:
            ask("u")
        assert failures[0].info.metadata["quota"] == "tokens_per_second"
        assert failures[0].retry.retry_delay.seconds > 0
        for _ in range(3):
            ask("b")


def test_http_says_when_to_come_again(smollm2, tokens, quotas):  # noqa: F811
    def ask(front, prompt, max_tokens):
        body = {"model": "", "prompt": prompt, "max_tokens": max_tokens}
        request = urllib.request.Request(
            front.url + "/v1/completions",
            json.dumps(body).encode(),
            {"Authorization": f"Bearer {tokens.of['u']}"},
        )
        return urllib.request.urlopen(request, timeout=CALL_SECONDS)

    with Front(str(smollm2), *tokens.flag(), quotas, "--n-ctx=512") as front:
        with ask(front, "Hello", 40) as reply:
            assert reply.status == 200
        with pytest.raises(urllib.error.HTTPError) as caught:
            ask(front, "Hello", 40)
        assert caught.value.code == 429
        assert int(caught.value.headers["Retry-After"]) > 0
        refused_id = caught.value.headers["X-Request-Id"]
        until(lambda: "was refused" in front.log(), what="its line")
        line = next(x for x in front.log().splitlines() if "was refused" in x)
        assert f"request_id={refused_id} " in line
        error = json.loads(caught.value.read())["error"]
        assert error["code"] == "quota_exceeded"
        with pytest.raises(urllib.error.HTTPError) as caught:
            ask(front, "x" * 101, 1)
        assert caught.value.code == 413


@pytest.mark.parametrize("program", [("plimsoll-worker",), ("plimsoll", "serve")])
def test_quotas_need_tokens(program, smollm2, quotas):
    name, *command = program
    model = (str(smollm2),) if command else (model_flag("smollm2"),)
    done = subprocess.run(
        [binary(name), *command, *model, quotas],
        capture_output=True,
        timeout=START_SECONDS,
    )
    assert done.returncode == 2
    assert "--quotas needs --tokens" in done.stderr.decode()


def test_a_bad_file_ends_the_start(tokens, tmp_path):  # noqa: F811
    path = tmp_path / "quotas.json"
    path.write_text('{"default": {"request": 1}}')
    done = subprocess.run(
        [binary("plimsoll-worker"), model_flag("smollm2"), *tokens.flag()]
        + [f"--quotas={path}"],
        capture_output=True,
        timeout=START_SECONDS,
    )
    assert done.returncode == 2
    assert "default: request: is no limit" in done.stderr.decode()
