"""The plimsoll command against a worker and a planner, and its exit codes."""

import json
import signal
import subprocess

import grpc
import pytest

from asks import GREEDY, endless, generate, text
from command_line import at, parsed, plimsoll
from conftest import model_flag
from servers import CALL_SECONDS, Planner, Worker, binary, refused
from stubs import tokenizer as v1

PROMPT = "Once upon a time, there was a little"


def test_generate_gives_what_the_worker_gives(worker):
    request = generate("smollm2", text=text(PROMPT), sampling=GREEDY, max_tokens=12)
    expected = worker.generation.Generate(request, timeout=CALL_SECONDS)
    done = at(
        worker, "generate", "--model", "smollm2", "--file", "-", "--raw",
        "--max-tokens", "12", "--temperature", "0", "-o", "json",
        stdin=PROMPT.encode(),
    )
    found = parsed(done)
    assert found["text"] == expected.text
    assert found["prompt_ids"] == list(expected.prompt_ids)
    assert [t["id"] for t in found["tokens"]] == [t.id for t in expected.tokens]
    memory = found["memory"]
    assert memory["planned_bytes"] == memory["allocated_bytes"]
    assert isinstance(memory["planned_bytes"], str)  # proto JSON has uint64 like this


def test_generate_writes_the_text_alone(worker):
    request = generate("smollm2", text=text(PROMPT), sampling=GREEDY, max_tokens=12)
    expected = worker.generation.Generate(request, timeout=CALL_SECONDS)
    done = at(
        worker, "generate", "--model", "smollm2", "--prompt", PROMPT, "--raw",
        "--max-tokens", "12", "--temperature", "0",
    )
    assert done.returncode == 0
    assert done.stdout.decode().rstrip("\n") == expected.text.rstrip("\n")


@pytest.mark.parametrize("content", [b"Hello world", b"<|im_end|> \xff\x00", b""])
def test_tokenize_gives_what_the_worker_gives(worker, content):
    request = v1.TokenizeRequest(model="smollm2", raw_text=content)
    expected = worker.tokenizer.Tokenize(request).ids
    flags = ("--model", "smollm2", "--file", "-", "-o", "json")
    found = parsed(at(worker, "tokenize", *flags, stdin=content))
    assert found == {"ids": list(expected)}


def test_tokenize_in_process_gives_the_same(worker, smollm2):
    flags = ("tokenize", "--file", "-", "--special", "-o", "json", "--model")
    content = "<|im_start|>user naïve".encode()
    here = parsed(plimsoll(*flags, str(smollm2), stdin=content))
    assert here == parsed(at(worker, *flags, "smollm2", stdin=content))


def test_models_lists_the_workers(worker):
    listed = parsed(at(worker, "models", "-o", "json"))["models"]
    assert [entry["name"] for entry in listed] == ["gemma3", "smollm2"]
    assert {entry["state"] for entry in listed} == {"MODEL_STATE_READY"}
    table = at(worker, "models")
    assert table.returncode == 0 and b"smollm2" in table.stdout


def test_memory_shows_planned_beside_measured(worker):
    flags = ("memory", "--model", "smollm2", "-o", "json")
    found = parsed(at(worker, *flags))
    assert found["measured"]["planned_bytes"] == found["measured"]["allocated_bytes"]
    assert found["measured"]["device_allocations_after_load"] == 0


def test_devices_lists_the_planners(smollm2):
    with Planner() as planner:
        flags = (f"--planner={planner.address}", "--device-id=here", "--n-ctx=128")
        with Worker(model_flag("smollm2"), *flags) as server:
            server.await_ready()
            command = ("--planner", planner.address, "devices", "-o", "json")
            device, = parsed(plimsoll(*command))["devices"]
    assert device["profile"]["id"] == "here"
    assert int(device["held_bytes"]) > 0


def test_top_lists_requests_and_abort_ends_them(worker):
    metadata = [("x-request-id", "from-a-test")]
    stream = worker.generation.StreamGenerate(
        endless("smollm2"), metadata=metadata, timeout=CALL_SECONDS
    )
    next(stream)
    table = at(worker, "top")
    assert table.returncode == 0
    assert b"1 call is in flight" in table.stdout
    assert b"from-a-test" in table.stdout and b"gemma3" in table.stdout
    found = parsed(at(worker, "top", "-o", "json"))["models"]
    listed = {entry["model"]: entry for entry in found}
    assert listed["smollm2"]["requests"][0]["request_id"] == "from-a-test"
    assert listed["gemma3"]["running"] == 0
    done = at(worker, "abort", "from-a-test", "nobody", "--reason", "a test")
    assert done.returncode == 1
    assert done.stdout == b"  aborted 1 request\n"
    assert b"no such request: nobody" in done.stderr
    with refused(grpc.StatusCode.ABORTED, "ABORTED") as failures:
        list(stream)
    assert failures[0].message == "an operator ended the request: a test"
    assert parsed(at(worker, "abort", "--all", "-o", "json"))["aborted"] == 0


def test_top_goes_on_until_it_is_interrupted(worker):
    command = [binary("plimsoll"), "top", "--address", worker.address]
    command += ["--interval", "1", "-o", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        for _ in range(2):
            assert json.loads(process.stdout.readline())["draining"] is False
        process.send_signal(signal.SIGINT)
        assert process.wait(CALL_SECONDS) == 130


def test_top_shows_rates_from_the_second_time_on(worker):
    command = [binary("plimsoll"), "top", "--address", worker.address]
    command += ["--interval", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        titles = []
        while len(titles) < 2:
            words = process.stdout.readline().split()
            assert words or process.poll() is None
            if "waiting" in words:
                titles.append(words)
        process.send_signal(signal.SIGINT)
        assert process.wait(CALL_SECONDS) == 130
    assert "generated" in titles[0] and "generated/s" not in titles[0]
    assert "generated/s" in titles[1] and "prompt/s" in titles[1]


def test_drain_waits_until_nothing_is_in_flight(smollm2):
    with Worker(model_flag("smollm2"), "--n-ctx=256") as server:
        server.await_ready()
        request = endless(max_tokens=100)
        stream = server.generation.StreamGenerate(request, timeout=CALL_SECONDS)
        next(stream)
        done = at(server, "drain")
        assert done.returncode == 0
        assert b"  draining: " in done.stdout
        last = list(stream)[-1]
        assert last.finish.usage.generated_tokens == 100
        done = at(server, "drain", "--wait")
        assert done.stdout == b"  draining: no call is in flight\n"
        assert parsed(at(server, "drain", "-o", "json")) == {"running_calls": 0}
        done = at(server, "generate", "--prompt", "a")
        assert done.returncode == 1
        assert b"drains" in done.stderr


def test_a_refusal_of_the_worker_is_an_error_with_its_words(worker):
    done = at(worker, "generate", "--model", "no-such-model", "--prompt", "a")
    assert done.returncode == 1
    assert b"no such model" in done.stderr
    assert done.stdout == b""


def test_a_worker_that_is_not_there_is_an_error():
    done = plimsoll("--address", "127.0.0.1:1", "models")
    assert done.returncode == 1
    assert done.stderr and done.stdout == b""


@pytest.mark.parametrize(
    "arguments",
    [
        ("no-such-command",),
        ("generate", "--no-such-flag"),
        ("generate", "--temperature", "warm"),
        ("plan",),
    ],
)
def test_bad_usage_exits_with_two(arguments):
    done = plimsoll(*arguments)
    assert done.returncode == 2, done
    assert done.stderr


def test_what_does_not_fit_exits_with_three(smollm2):
    flags = ("--device-memory", "64MiB", "--n-ctx", "512")
    done = plimsoll("plan", str(smollm2), *flags, "-o", "json")
    assert done.returncode == 3
    assert json.loads(done.stdout)["fits"] is False
    done = plimsoll("generate", "--model", str(smollm2), "--prompt", "a", *flags)
    assert done.returncode == 3
    assert done.stderr and done.stdout == b""


def test_a_file_that_is_no_model_exits_with_one(tmp_path):
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"not a model")
    done = plimsoll("plan", str(path), "--device-memory", "1GiB")
    assert done.returncode == 1
    assert b"broken.gguf" in done.stderr
