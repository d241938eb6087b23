"""What a worker takes beside its plans is measured once and planned from then
on."""

import json
import os
import subprocess

import pytest

from asks import GREEDY, generate, text
from conftest import model_file, model_flag
from servers import CALL_SECONDS, Planner, Worker, binary, until
from stubs import common, generation as gen, model as v1

MIB = 1 << 20

# Its redzones and quarantine are in no bound.
without_sanitizer = pytest.mark.skipif(
    bool(os.environ.get("PLIMSOLL_SANITIZE")),
    reason="a sanitizer takes memory of its own",
)


def memory(server):
    """What the only model takes."""
    return server.models.GetMemory(v1.GetMemoryRequest(), timeout=CALL_SECONDS)


def runtime(plan):
    """The region of what is outside the arena."""
    return next(region for region in plan.regions if region.name == "runtime")


def say(server, **sampling):
    sampling = gen.SamplingOptions(**sampling) if sampling else GREEDY
    request = generate(text=text("Once upon"), sampling=sampling, max_tokens=4)
    return server.generation.Generate(request, timeout=CALL_SECONDS)


def work(server):
    """Says something greedily, and something drawn from a whole row."""
    say(server)
    say(server, temperature=1, top_k=0, top_p=1, min_p=0)


def profiles(folder):
    """The kept profiles, parsed."""
    return [json.loads(path.read_text()) for path in folder.glob("*.json")]


def flags(folder, *more):
    return (f"--profile-dir={folder}", "--n-ctx=512", "--slots=2", *more)


@without_sanitizer
def test_the_second_worker_plans_with_what_the_first_measured(any_model, tmp_path):
    model = model_flag(any_model)
    with Planner() as planner:
        service = f"--planner={planner.address}"
        with Worker(model, *flags(tmp_path, service)) as first:
            first.await_ready()
            plan = memory(first).plan
            assert runtime(plan).basis == common.BASIS_ESTIMATED
            work(first)
            device, = planner.devices()
            assert device.profile.runtime_basis == common.BASIS_ESTIMATED
            first.terminate()
            first.process.wait(timeout=30)
        kept, = profiles(tmp_path)
        assert kept["version"] == 1 and kept["bytes"] > MIB
        with Worker(model, *flags(tmp_path, service)) as second:
            second.await_ready()
            region = runtime(memory(second).plan)
            assert region.basis == common.BASIS_MEASURED
            assert region.bytes >= kept["bytes"]
            assert str(int(kept["bytes"])) in region.formula
            # What the planner was told, and plans for others.
            device, = planner.devices()
            assert device.profile.runtime_basis == common.BASIS_MEASURED
            assert device.profile.runtime_bytes == region.bytes
            work(second)
            after = memory(second)
            assert after.rss_bytes <= after.plan.total_bytes
            assert after.measured.peak_rss_bytes <= after.plan.total_bytes
            # And not far off.
            assert after.plan.total_bytes <= 1.05 * after.rss_bytes + 16 * MIB


@without_sanitizer
def test_a_small_workers_figure_covers_a_larger_worker(smollm2, gemma3, tmp_path):
    small = (f"--profile-dir={tmp_path}", "--n-ctx=64", "--slots=1", "--threads=1")
    with Worker(model_flag("smollm2"), *small, "--n-ubatch=16") as server:
        say(server.await_ready())
    assert profiles(tmp_path)
    large = (f"--profile-dir={tmp_path}", "--n-ctx=512", "--slots=8", "--threads=8")
    with Worker(model_flag("gemma3"), *large) as server:
        server.await_ready()
        work(server)
        after = memory(server)
        assert runtime(after.plan).basis == common.BASIS_MEASURED
        assert after.measured.peak_rss_bytes <= after.plan.total_bytes


@pytest.mark.parametrize("content", ["{", '{"version": 2}', ""])
def test_a_profile_that_makes_no_sense_is_not_used(smollm2, tmp_path, content):
    with Worker(model_flag("smollm2"), *flags(tmp_path)) as server:
        server.await_ready()
    path, = tmp_path.glob("*.json")
    path.write_text(content)
    with Worker(model_flag("smollm2"), *flags(tmp_path)) as server:
        server.await_ready()
        assert "the runtime profile is not used" in server.log()
        assert path.name in server.log()
        assert runtime(memory(server).plan).basis == common.BASIS_ESTIMATED
    assert profiles(tmp_path)  # replaced


def test_a_worker_that_cannot_keep_its_profile_serves(smollm2, tmp_path):
    (tmp_path / "file").write_text("in the way")
    folder = tmp_path / "file" / "profiles"
    with Worker(model_flag("smollm2"), *flags(folder)) as server:
        server.await_ready()
        assert say(server).text
        until(lambda: "cannot be kept" in server.log(), what="the warning")


def test_the_local_plan_uses_what_the_worker_measured(smollm2, tmp_path):
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}

    def plan():
        command = [binary("plimsoll"), "plan", str(model_file("smollm2"))]
        result = subprocess.run(
            [*command, "--n-ctx=512", "-o", "json"],
            env=environment,
            capture_output=True,
            check=True,
            timeout=CALL_SECONDS,
        )
        regions = json.loads(result.stdout)["regions"]
        return next(r for r in regions if r["name"] == "runtime")

    assert plan()["basis"] == "BASIS_ESTIMATED"
    folder = tmp_path / "plimsoll" / "profiles"
    with Worker(model_flag("smollm2"), *flags(folder)) as server:
        work(server.await_ready())
    measured = plan()
    kept, = profiles(folder)
    assert measured["basis"] == "BASIS_MEASURED"
    assert int(measured["bytes"]) >= kept["bytes"]
