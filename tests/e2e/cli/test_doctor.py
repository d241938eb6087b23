"""plimsoll doctor on the machine that runs the tests, and what it says is wrong."""

import json
import os
import subprocess

import pytest

from command_line import at, parsed, plimsoll
from conftest import model_flag
from servers import CALL_SECONDS, Planner, Worker, binary

MACHINE = [
    "cpu path", "cpus", "gpu", "memory", "cgroup", "swap", "huge pages",
    "overcommit", "open files", "threads", "clock", "planner", "worker",
]
STATES = ("ok", "skipped", "warning", "error")


def check_form(found):
    """Holds a report to the form that programs may rely on."""
    assert set(found) == {"ok", "errors", "warnings", "checks"}
    for check in found["checks"]:
        is_wrong = check["state"] in ("warning", "error")
        # What is wrong has a fix, and nothing else has.
        keys = {"name", "state", "found"} | ({"fix"} if is_wrong else set())
        assert set(check) == keys and check["state"] in STATES, check
        for text in check.values():
            assert isinstance(text, str) and text and "\n" not in text, check
    states = [check["state"] for check in found["checks"]]
    assert found["errors"] == states.count("error")
    assert found["warnings"] == states.count("warning")
    assert found["ok"] is (found["errors"] == 0)


def report(*arguments, run=plimsoll):
    """The JSON of a run, which has its form and fits the exit code."""
    done = run("doctor", *arguments, "-o", "json")
    found = json.loads(done.stdout)
    check_form(found)
    assert done.returncode == (0 if found["ok"] else 1), found
    assert done.stderr == b""
    return found


def check_of(found, name):
    """The check of this name; there is one."""
    check, = (check for check in found["checks"] if check["name"] == name)
    return check


def test_nothing_is_wrong_here(smollm2):
    found = report(str(smollm2))
    assert found["ok"], found
    assert [check["name"] for check in found["checks"]] == [*MACHINE, "model"]
    assert check_of(found, "model")["found"].startswith(smollm2.name + ": llama")
    for name in ("planner", "worker"):
        assert check_of(found, name)["state"] == "skipped"


def test_the_table_has_what_the_json_has(smollm2):
    found = report(str(smollm2))
    done = plimsoll("doctor", str(smollm2))
    assert done.returncode == 0 and done.stderr == b""
    lines = done.stdout.decode().splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert lines[-1].strip().startswith("0 errors, ")
    states = [line.split()[0] for line in lines[:-1] if not line.startswith("   ")]
    assert states == [check["state"] for check in found["checks"]]


def test_the_path_is_that_of_version():
    path = parsed(plimsoll("version", "-o", "json"))["cpu_target"]
    found = check_of(report(), "cpu path")["found"]
    # Each process times the paths with the same vectors.
    assert found.split()[0].split("_")[0] == path.split("_")[0]


def test_without_names_every_model_of_the_cache_is_checked(
    smollm2, tmp_path, monkeypatch
):
    folder = tmp_path / "plimsoll" / "models"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = report()
    assert check_of(found, "model")["state"] == "skipped"
    assert str(folder) in check_of(found, "model")["found"]
    folder.mkdir(parents=True)
    (folder / "a.gguf").symlink_to(smollm2)
    (folder / "b.gguf").write_bytes(b"not a model")
    sound, broken = report()["checks"][-2:]
    assert sound["state"] == "ok" and sound["found"].startswith("a.gguf: llama")
    assert broken["state"] == "error" and "b.gguf" in broken["found"]


def test_a_file_that_lacks_its_last_byte_is_an_error(smollm2, tmp_path):
    path = tmp_path / "cut.gguf"
    with open(smollm2, "rb") as whole, open(path, "wb") as cut:
        cut.write(whole.read(16 << 20))
    os.truncate(path, smollm2.stat().st_size)
    assert check_of(report(str(path)), "model")["state"] == "ok"
    os.truncate(path, smollm2.stat().st_size - 1)
    check = check_of(report(str(path)), "model")
    assert check["state"] == "error"
    assert "truncated" in check["found"] and str(path) in check["found"]
    assert "get the file again" in check["fix"]
    done = plimsoll("doctor", str(path))
    assert done.returncode == 1
    assert b"fix: get the file again" in done.stdout
    assert done.stderr == b""


def test_a_model_that_is_not_there_is_an_error():
    check = check_of(report("./no-such-model.gguf"), "model")
    assert check["state"] == "error"
    assert "plimsoll models" in check["fix"]


def test_servers_that_nobody_started_are_errors():
    nobody = ("--planner", "127.0.0.1:1", "--address", "127.0.0.1:1")
    found = report(*nobody)
    for name in ("planner", "worker"):
        check = check_of(found, name)
        assert check["state"] == "error"
        assert "127.0.0.1:1" in check["found"]
        assert "start plimsoll-worker or plimsoll-planner" in check["fix"]


def test_servers_that_run_say_what_they_have(smollm2):
    with Planner() as planner:
        flags = (f"--planner={planner.address}", "--n-ctx=128")
        with Worker(model_flag("smollm2"), *flags) as worker:
            worker.await_ready()
            found = report("--planner", planner.address, "--address", worker.address)
    assert found["ok"], found
    assert "1 lease on 1 device" in check_of(found, "planner")["found"]
    assert "1 loaded model, 0 running calls" in check_of(found, "worker")["found"]


def test_a_planner_that_recovers_and_a_worker_that_drains_are_warnings(smollm2):
    flags = ("--lazy", model_flag("smollm2"))
    with Planner(first=False) as planner, Worker(*flags) as worker:
        assert at(worker, "drain").returncode == 0
        found = report("--planner", planner.address, "--address", worker.address)
    assert found["ok"], found
    planner, worker = check_of(found, "planner"), check_of(found, "worker")
    assert planner["state"] == worker["state"] == "warning"
    assert "grants nothing for" in planner["found"] and "--journal" in planner["fix"]
    assert "drains" in worker["found"]


def test_the_wrong_kind_of_server_is_named(planner):
    check = check_of(report("--address", planner.address), "worker")
    assert check["state"] == "error"
    assert "--planner is for plimsoll-planner" in check["fix"]


def test_a_planner_with_tokens_wants_one(tmp_path):
    tokens, token = tmp_path / "tokens.json", tmp_path / "token"
    flags = ("--name=ada", "--role=viewer", "--tokens", str(tokens))
    done = plimsoll("token", "new", *flags)
    assert done.returncode == 0, done.stderr
    token.write_bytes(done.stdout)
    with Planner(f"--tokens={tokens}") as server:
        address = ("--planner", server.address)
        check = check_of(report(*address), "planner")
        assert check["state"] == "error"
        assert "--token-file" in check["fix"]
        found = report(*address, "--token-file", str(token))
        assert check_of(found, "planner")["state"] == "ok"


def limited(shell):
    """Runs of the command after a line of shell."""

    def run(*arguments):
        command = ["sh", "-c", f'{shell}; exec "$@"', "sh", binary("plimsoll")]
        return subprocess.run(
            [*command, *arguments], capture_output=True, timeout=CALL_SECONDS
        )

    return run


@pytest.mark.parametrize("n, state", [(4176, "ok"), (4175, "warning"), (63, "error")])
def test_few_descriptors_are_found(n, state):
    check = check_of(report(run=limited(f"ulimit -n {n}")), "open files")
    assert check["state"] == state
    if state != "ok":
        assert "ulimit -n 4176" in check["fix"]


def test_threads_that_a_worker_does_not_get_are_an_error(
    failing_threads, monkeypatch
):
    monkeypatch.setenv("PLIMSOLL_TEST_THREADS", "5")
    check = check_of(report(), "threads")
    assert check["state"] == "error"
    assert "more threads and gets 5" in check["found"]
    assert "pids.max" in check["fix"]
