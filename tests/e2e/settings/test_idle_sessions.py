"""Bytes for idle sessions and snapshots: settings, plans, loads, and what they keep."""

import subprocess

import grpc

from asks import GREEDY, generate, text
from command_line import parsed, plimsoll
from servers import CALL_SECONDS, Planner, Worker, binary, refused
from stubs import model as models

# Fifteen rings of 512 cells, with a key and a value of 256 elements in f16.
PLACE = 15 * 512 * 2 * 256 * 2
PROMPT = "The lighthouse keeper wrote in his book every night. " * 20


def plan_of(server):
    request = models.GetMemoryRequest()
    return server.models.GetMemory(request, timeout=CALL_SECONDS).plan


def places(plan):
    """The number and the bytes that a plan says."""
    return plan.options.n_idle_sessions, plan.idle_session_bytes


def cached(server):
    """How many tokens of a prompt were known."""
    request = generate(text=text(PROMPT), sampling=GREEDY, max_tokens=4, ignore_eos=True)
    reply = server.generation.Generate(request, timeout=CALL_SECONDS)
    return reply.usage.cached_tokens


def test_bytes_of_a_file_become_places(gemma3, tmp_path):
    path = tmp_path / "plimsoll.toml"
    path.write_text(
        f'[worker]\nmodel = ["m={gemma3}"]\nn-ctx = 1024\n'
        'idle-session-bytes = "15MiB"\n', encoding="utf-8")
    assert 2 * PLACE == 15 << 20
    with Worker(f"--config={path}") as server:
        server.await_ready()
        assert places(plan_of(server)) == (2, 2 * PLACE)
        assert cached(server) == 0
        assert cached(server) > 100


def test_a_variable_and_a_request_say_bytes(gemma3, monkeypatch):
    monkeypatch.setenv("PLIMSOLL_WORKER_IDLE_SESSION_BYTES", str(2 * PLACE - 1))
    flags = (f"--model=m={gemma3}", "--n-ctx=1024", "--lazy")
    with Planner() as planner, Worker(*flags, f"--planner={planner.address}") as server:
        server.load()
        assert places(plan_of(server)) == (1, PLACE)
        assert planner.leases()[0].bytes == plan_of(server).total_bytes
        server.models.UnloadModel(models.UnloadModelRequest(), timeout=CALL_SECONDS)
        server.load(idle_session_bytes=3 * PLACE)
        assert places(plan_of(server)) == (3, 3 * PLACE)
        server.models.UnloadModel(models.UnloadModelRequest(), timeout=CALL_SECONDS)
        with refused(grpc.StatusCode.INVALID_ARGUMENT) as failures:
            server.load(idle_session_bytes=PLACE - 1)
        assert f"one idle session take {PLACE};" in failures[0].message


def test_the_command_plans_them_here_and_there(gemma3):
    flags = ("plan", "--n-ctx=1024", f"--idle-session-bytes={2 * PLACE}", "-o", "json")
    here = parsed(plimsoll(*flags, gemma3))
    with Planner(f"--model=m={gemma3}") as planner:
        there = parsed(plimsoll(*flags, "m", "--planner", planner.address))
    for plan in (here, there):
        assert plan["options"]["n_idle_sessions"] == 2
        assert plan["idle_session_bytes"] == str(2 * PLACE)
        assert "idle_session_bytes" not in plan["options"]


def run(*flags):
    """A worker that ends by itself."""
    return subprocess.run(
        [binary("plimsoll-worker"), *flags],
        capture_output=True, text=True, timeout=CALL_SECONDS, check=False)


def test_a_number_beside_bytes_is_refused(tmp_path):
    path = tmp_path / "plimsoll.toml"
    path.write_text("[worker]\nidle-sessions = 2\n", encoding="utf-8")
    for number in ("--idle-sessions=2", f"--config={path}"):
        done = run("--idle-session-bytes=15MiB", number)
        assert done.returncode == 2
        assert "stands beside --idle-sessions; leave one" in done.stderr


def test_settings_with_bytes_are_printed_as_a_file_that_says_the_same(tmp_path):
    printed = run("--idle-session-bytes=15MiB", "--print-config").stdout
    assert "idle-sessions = 0" in printed
    path = tmp_path / "plimsoll.toml"
    path.write_text(printed, encoding="utf-8")
    again = run(f"--config={path}", "--print-config")
    assert again.returncode == 0, again.stderr
    assert 'idle-session-bytes = "15MiB"' in again.stdout
