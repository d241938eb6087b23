"""Weights that stay in the mapped file: the same text, a plan with the file's
pages apart, and a reason when the file is changed or cut."""

import os
import shutil

import grpc
import pytest

from asks import GREEDY, endless, generate, text
from command_line import parsed, plimsoll
from conftest import model_file, model_flag
from servers import CALL_SECONDS, START_SECONDS, Planner, Worker, refused
from stubs import model as v1

PROMPT = "Once upon a time, there was a little"
READ_ERROR = 74  # EX_IOERR


def ask(server, model=""):
    """A greedy reply to PROMPT."""
    request = generate(model, text=text(PROMPT), sampling=GREEDY, max_tokens=12)
    return server.generation.Generate(request, timeout=CALL_SECONDS)


@pytest.fixture
def copied(smollm2, tmp_path):
    """A worker that maps a file of its own, and that file."""
    path = tmp_path / "copy.gguf"
    shutil.copyfile(smollm2, path)
    with Worker(f"--model=copy={path}", "--mmap", "--n-ctx=512") as server:
        yield server.await_ready(), path


@pytest.mark.parametrize("prompt", [PROMPT, PROMPT * 20], ids=["short", "long"])
def test_the_command_gives_the_same_text(any_model, prompt):
    flags = ("--raw", "--max-tokens", "12", "--temperature", "0", "-o", "json")
    command = ("generate", "--model", str(model_file(any_model)), "--prompt", prompt)
    packed = parsed(plimsoll(*command, *flags))
    mapped = parsed(plimsoll(*command, *flags, "--mmap"))
    assert mapped["text"] == packed["text"]
    assert mapped["tokens"] == packed["tokens"]
    planned = [int(found["memory"]["planned_bytes"]) for found in (mapped, packed)]
    assert planned[0] < planned[1]


def test_a_plan_has_the_pages_of_the_file_apart(smollm2):
    flags = ("--n-ctx", "512", "--mmap", "-o", "json")
    plan = parsed(plimsoll("plan", str(smollm2), *flags))
    regions = {r["name"]: int(r["bytes"]) for r in plan["regions"]}
    mapped = [r["name"] for r in plan["regions"] if r.get("mapped")]
    assert mapped == ["weights_mmap"]
    pages = int(plan["mapped_bytes"])
    assert regions["weights_mmap"] == pages
    assert regions["weights"] < pages < smollm2.stat().st_size
    assert sum(regions.values()) == int(plan["total_bytes"]) + pages


def test_a_worker_leases_what_is_not_in_the_file(smollm2, worker):
    expected = ask(worker, "smollm2")
    with Planner() as planner:
        flags = ("--mmap", "--n-ctx=512", f"--planner={planner.address}")
        with Worker(model_flag("smollm2"), *flags) as server:
            server.await_ready()
            assert ask(server).text == expected.text
            (lease,) = planner.leases()
            request = v1.GetMemoryRequest()
            plan = server.models.GetMemory(request, timeout=CALL_SECONDS).plan
            assert lease.bytes == plan.total_bytes
            assert plan.mapped_bytes > plan.regions[0].bytes


def test_a_load_may_say_so(lazy_worker):
    messages = lazy_worker.load(mmap_weights=True)
    (plan,) = [m.plan for m in messages if m.HasField("plan")]
    assert plan.mapped_bytes > 0


def test_a_file_that_was_changed_is_refused(copied):
    server, path = copied
    ask(server)
    os.utime(path, (1, 1))
    with refused(grpc.StatusCode.DATA_LOSS) as failures:
        ask(server)
    assert "changed" in failures[0].message


def test_a_file_that_is_cut_ends_the_worker_with_a_reason(copied):
    server, path = copied
    call = server.generation.StreamGenerate(endless(), timeout=CALL_SECONDS)
    next(call)
    os.truncate(path, 0)
    with refused(grpc.StatusCode.UNAVAILABLE):
        for _ in call:
            pass
    assert server.process.wait(timeout=START_SECONDS) == READ_ERROR
    assert "a page of a mapped model file cannot be read" in server.log()
