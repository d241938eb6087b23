"""What a worker takes beside its plans is measured once and planned from then
on."""

import json
import os
import subprocess
import time

import grpc
import pytest

from asks import GREEDY, generate, stream, text
from conftest import model_file, model_flag
from mute_client import MuteClient
from servers import (CALL_SECONDS, Planner, Worker, binary, refused, until,
                     without_sanitizer)
from stubs import admin, common, generation as gen, model as v1, session, tokenizer as tok

MIB = 1 << 20
# An idle process takes some MiB more or less beside its plans, by the threads that
# gRPC has had. Requests and replies of calls take far more.
MAX_NOISE_BYTES = 8 * MIB


def memory(server):
    """What the only model takes."""
    return server.models.GetMemory(v1.GetMemoryRequest(), timeout=CALL_SECONDS)


def region_of(plan, name):
    """One of the plan's regions."""
    return next(region for region in plan.regions if region.name == name)


def runtime(plan):
    """The region of what is outside the arena."""
    return region_of(plan, "runtime")


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
        assert kept["version"] == 2 and kept["bytes"] > MIB
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
            # The plan is close to that, but for the room for messages, of which few came.
            messages = region_of(after.plan, "messages").bytes
            assert messages == 128 * MIB
            rest = after.plan.total_bytes - messages
            assert rest <= 1.05 * after.rss_bytes + 16 * MIB


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


@pytest.mark.parametrize(
    "content", ["{", '{"version": 2}', '{"version": 1, "bytes": 531000000}', ""]
)
def test_a_profile_that_makes_no_sense_is_not_used(smollm2, tmp_path, content):
    with Worker(model_flag("smollm2"), *flags(tmp_path)) as server:
        server.await_ready()
    path, = tmp_path.glob("*.json")
    path.write_text(content)
    with Worker(model_flag("smollm2"), *flags(tmp_path)) as server:
        server.await_ready()
        until(lambda: "the runtime profile is not used" in server.log())
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


def plan_bytes(server):
    """The plan of the only model, as it is sent."""
    return memory(server).plan.SerializeToString(deterministic=True)


def assert_alike(plan, other):
    """Both plans count the same for the process, but for its idle threads."""
    assert abs(plan.total_bytes - other.total_bytes) <= MAX_NOISE_BYTES


def longest_token(server):
    """One of the tokens with the longest texts."""

    def size(one):
        request = tok.DetokenizeRequest(ids=[one])
        return len(server.tokenizer.Detokenize(request, timeout=CALL_SECONDS).text)

    return max(range(300, 40_000, 40), key=size)


def ask_for_much(server):
    """The largest requests and replies that there are, and larger ones."""
    options = [("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(server.address, options=options) as channel:
        server.connect(channel)
        calls = server.tokenizer
        long_text = b"What did the ship carry? " * 120_000
        calls.Tokenize(tok.TokenizeRequest(raw_text=long_text), timeout=CALL_SECONDS)
        ids = [longest_token(server)] * (1 << 20)
        try:
            calls.Detokenize(tok.DetokenizeRequest(ids=ids), timeout=CALL_SECONDS)
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.INVALID_ARGUMENT, error
        say(server)
    server.connect(server.channel)


@without_sanitizer
def test_large_requests_change_no_plan(smollm2, tmp_path):
    # What is free on the machine is in a plan, too.
    arguments = (model_flag("smollm2"), *flags(tmp_path, "--device-memory=1GiB"))
    with Worker(*arguments) as server:
        work(server.await_ready())
    with Worker(*arguments) as server:
        plan = memory(server.await_ready()).plan
        ask_for_much(server)
        # The model's memory is looked at before it goes.
        server.models.UnloadModel(v1.UnloadModelRequest(), timeout=CALL_SECONDS)
        server.load()
        assert_alike(memory(server).plan, plan)
        ask_for_much(server)
    with Worker(*arguments) as server:
        assert_alike(memory(server.await_ready()).plan, plan)


def unread_calls(server):
    """Calls of every kind, by path, that are not meant to be read."""
    token = longest_token(server)
    many = [token] * ((3 << 20) // 41)
    words = "What did the ship carry? "
    service = "/plimsoll.v1."
    detokenize = tok.DetokenizeRequest(ids=many)
    yield from [(f"{service}TokenizerService/Detokenize", detokenize)] * 60
    tokenize = tok.TokenizeRequest(text=words * 20_000)
    yield from [(f"{service}TokenizerService/Tokenize", tokenize)] * 10
    short = generate(text=text(words), sampling=GREEDY, max_tokens=2)
    yield f"{service}GenerationService/Generate", short
    short = stream(text=text(words), sampling=GREEDY, max_tokens=2)
    yield f"{service}GenerationService/StreamGenerate", short
    long = stream(text=text(words), sampling=GREEDY, max_tokens=200)
    yield f"{service}GenerationService/StreamGenerate", long
    score = gen.ScoreRequest(text=text(words))
    score.continuations.add().text = "Gold."
    yield f"{service}GenerationService/Score", score
    chat = session.OpenSessionRequest(session_id="one")
    yield f"{service}SessionService/OpenSession", chat
    yield f"{service}ModelService/GetMemory", v1.GetMemoryRequest()
    yield f"{service}ModelService/LoadModel", v1.LoadModelRequest()
    yield f"{service}AdminService/GetLoad", admin.GetLoadRequest()


@without_sanitizer
def test_replies_that_nobody_reads_stay_in_the_plan_and_change_none(smollm2, tmp_path):
    arguments = (
        model_flag("smollm2"),
        *flags(tmp_path, "--device-memory=1GiB", "--reader-timeout=1.5"),
    )
    with Worker(*arguments) as server:
        work(server.await_ready())
    with Worker(*arguments) as server:
        plan = memory(server.await_ready()).plan
        with MuteClient(server.address) as mute:
            calls = {mute.call(*call) for call in unread_calls(server)}
            until(lambda: calls <= mute.ended, CALL_SECONDS, "the end of every call")
            after = memory(server)
            assert after.measured.peak_rss_bytes <= after.plan.total_bytes
            time.sleep(21)  # two measurements
        server.models.UnloadModel(v1.UnloadModelRequest(), timeout=CALL_SECONDS)
        server.load()
        assert_alike(memory(server).plan, plan)
    with Worker(*arguments) as server:
        assert_alike(memory(server.await_ready()).plan, plan)


@without_sanitizer  # with one the first idle worker takes more than the estimate
def test_a_load_that_was_refused_leaves_nothing_behind(smollm2, tmp_path):
    more = ("--lazy", "--device-memory=1GiB")
    with Worker(model_flag("smollm2"), *flags(tmp_path, *more)) as server:
        server.load()
        plan = plan_bytes(server)
        unload = v1.UnloadModelRequest()
        server.models.UnloadModel(unload, timeout=CALL_SECONDS)
        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED):
            server.load(n_slots=4_096)
        server.load()
        assert plan_bytes(server) == plan
        # Nor does one that was not refused.
        server.models.UnloadModel(unload, timeout=CALL_SECONDS)
        server.load(n_slots=16)
        assert plan_bytes(server) != plan
        server.models.UnloadModel(unload, timeout=CALL_SECONDS)
        server.load()
        assert plan_bytes(server) == plan


def test_what_runtime_is_can_be_read(smollm2, tmp_path):
    with Worker(model_flag("smollm2"), *flags(tmp_path)) as server:
        work(server.await_ready())
    with Worker(model_flag("smollm2"), *flags(tmp_path)) as server:
        server.await_ready()
        command = [binary("plimsoll"), "memory", "--address", server.address]
        result = subprocess.run(
            command, capture_output=True, check=True, timeout=CALL_SECONDS
        )
    words = " ".join(result.stdout.decode().split())
    assert "idle worker" in words and "measured on 20" in words, words
