"""Faults F1 to F30 that need real processes: a test for each that had none.

docs/reliability.md says which promise each is for, and names the tests of the others.
"""

import contextlib
import os
import pathlib
import resource
import shutil

import grpc
import pytest

from asks import GREEDY, endless, generate, text
from conftest import model_flag
from servers import (
    CALL_SECONDS,
    Planner,
    Worker,
    refused,
    stop,
    until,
    without_sanitizer,
)
from stubs import GenerationStub, generation as gen, model as v1, planner as lease_v1
from supervisor import Supervisor
from test_lease_attacks import (
    descriptors_can_run_out,
    is_confirmed,
    without_descriptors,
)
from test_leases import SHORT, refuses, register, reserve

MIB = 1 << 20
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


def ask(server, prompt="Once upon a time", model="", n_tokens=8):
    """A greedy reply."""
    request = generate(model, text=text(prompt), sampling=GREEDY, max_tokens=n_tokens)
    return server.generation.Generate(request, timeout=CALL_SECONDS)


def test_f04_a_stream_outlives_its_planner(smollm2, gemma3, tmp_path):
    flags = (f"--journal={tmp_path / 'leases.db'}", *SHORT)
    planner = Planner(*flags)
    try:
        models = (model_flag("smollm2"), model_flag("gemma3"))
        more = ("--lazy", f"--planner={planner.address}")
        with Worker(*models, *more) as worker:
            worker.load("smollm2", n_ctx=4096, n_slots=1)
            stream = worker.generation.StreamGenerate(
                endless("smollm2"), timeout=CALL_SECONDS
            )
            next(stream)
            for _ in range(3):
                planner.kill()
                planner.close()
                for _ in range(4):
                    assert not next(stream).HasField("finish")
                with refused(UNAVAILABLE, "PLANNER_UNAVAILABLE") as failures:
                    worker.load("gemma3", n_ctx=256, n_slots=1)
                assert failures[0].retry is not None
                listen = f"--listen={planner.address}"
                planner = Planner(listen, *flags, first=False)
                until(lambda: is_confirmed(planner), 20, "a renewal")
            assert not next(stream).HasField("finish")
            stream.cancel()
    finally:
        planner.close()


@contextlib.contextmanager
def little_address_space(server, spare_bytes):
    """The server may map so many bytes more."""
    pid = server.process.pid
    pages = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + spare_bytes
    before = resource.prlimit(pid, resource.RLIMIT_AS)
    resource.prlimit(pid, resource.RLIMIT_AS, (limit, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_AS, before)


@without_sanitizer  # its shadow takes all address space
def test_f06_an_allocation_that_fails_harms_no_other_model(smollm2, gemma3):
    with Planner() as planner:
        models = (model_flag("smollm2"), model_flag("gemma3"))
        more = ("--lazy", f"--planner={planner.address}")
        with Worker(*models, *more) as worker:
            worker.load("smollm2", n_ctx=256, n_slots=1)
            expected = ask(worker, model="smollm2").text
            with little_address_space(worker, 256 * MIB):
                with refused(grpc.StatusCode.RESOURCE_EXHAUSTED) as failures:
                    worker.load("gemma3", n_ctx=8192, n_slots=8)
            assert any(letter.isdigit() for letter in failures[0].message)
            until(lambda: len(planner.leases()) == 1, what="the release")
            assert ask(worker, model="smollm2").text == expected
            worker.load("gemma3", n_ctx=256, n_slots=1)
            assert len(planner.leases()) == 2


def test_f07_memory_that_strangers_took_is_not_granted(planner):
    register(planner)
    profile = planner.devices()[0].profile
    profile.free_bytes = 300
    planner.stub.RegisterDevice(lease_v1.RegisterDeviceRequest(profile=profile))
    assert refuses(planner, 301)
    assert reserve(planner, "what is free", 300).bytes == 300


def test_f11_a_file_that_is_cut_or_removed_changes_no_token(smollm2, tmp_path):
    path = tmp_path / "copy.gguf"
    shutil.copyfile(smollm2, path)
    with Worker(f"--model=copy={path}", "--n-ctx=256", "--slots=1") as worker:
        expected = ask(worker.await_ready()).text
        os.truncate(path, 0)
        assert ask(worker).text == expected
        path.unlink()
        assert ask(worker).text == expected
        # What is read again is checked again.
        worker.models.UnloadModel(v1.UnloadModelRequest(), timeout=CALL_SECONDS)
        with pytest.raises(grpc.RpcError):
            worker.load()


def test_f23_a_worker_that_stalls_is_ended_and_only_then_robbed(
    smollm2, tmp_path, monkeypatch
):
    with Planner(*SHORT) as planner:
        supervisor = Supervisor(tmp_path, monkeypatch)
        more = ("--n-ctx=256", "--slots=1", f"--planner={planner.address}")
        with supervisor.socket, Worker(model_flag("smollm2"), *more) as worker:
            worker.await_ready()
            assert supervisor.hears_a_sign_of_life()
            stop(worker.process)
            assert supervisor.watchdog_bites()
            # Its time to live is over, its process is not.
            (lease,) = planner.leases()
            assert lease.state == lease_v1.LEASE_STATE_SUSPECT
            worker.kill()  # as the supervisor does now
            until(lambda: not planner.leases(), what="the dead one's bytes")


ONE_TOKEN = generate(text=text("Once"), sampling=GREEDY, max_tokens=1)


def new_channel(server):
    """A connection of its own."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    return grpc.insecure_channel(server.address, options=options)


@descriptors_can_run_out
def test_f26_after_a_lack_of_descriptors_callers_are_served(smollm2):
    flags = ("--n-ctx=256", "--slots=1")
    with Worker(model_flag("smollm2"), *flags) as worker:
        worker.await_ready()
        with without_descriptors(worker), new_channel(worker) as channel:
            with pytest.raises(grpc.RpcError):
                GenerationStub(channel).Generate(ONE_TOKEN, timeout=1)
        with new_channel(worker) as channel:
            reply = GenerationStub(channel).Generate(ONE_TOKEN, timeout=10)
            assert reply.usage.generated_tokens == 1


@descriptors_can_run_out
def test_f26_without_descriptors_streams_live(smollm2):
    flags = ("--n-ctx=4096", "--slots=2")
    with Worker(model_flag("smollm2"), *flags) as worker:
        worker.await_ready()
        stream = worker.generation.StreamGenerate(endless(), timeout=CALL_SECONDS)
        next(stream)
        with without_descriptors(worker), new_channel(worker) as channel:
            with pytest.raises(grpc.RpcError):
                GenerationStub(channel).Generate(ONE_TOKEN, timeout=1)
            for _ in range(8):
                assert not next(stream).HasField("finish")
        assert not next(stream).HasField("finish")
        stream.cancel()


CANARY = "a7c3-do-not-log-me"
FORGED = "\nE1128 12:00:00 forged.cc:1] " + CANARY


def calls_with_canary(worker, model):
    """Calls that have the canary in every text, well formed and not."""
    prompt = text(CANARY + FORGED)
    yield lambda: ask(worker, CANARY + FORGED, model)
    yield lambda: list(
        worker.generation.StreamGenerate(
            endless(model, text=prompt, max_tokens=4), timeout=CALL_SECONDS
        )
    )
    yield lambda: ask(worker, CANARY, "no such model " + FORGED)
    yield lambda: ask(worker, CANARY * 2000, model)  # longer than the context
    for fields in (
        {"stop_strings": [FORGED] * 17},
        {"constraint": gen.OutputConstraint(regex="(" + CANARY)},
        {"constraint": gen.OutputConstraint(json_schema=CANARY)},
        {"response": gen.ResponseOptions(top_logprobs=999)},
    ):
        request = generate(model, text=prompt, **fields)
        yield lambda request=request: worker.generation.Generate(
            request, timeout=CALL_SECONDS
        )


def test_f28_no_text_of_a_caller_is_logged(smollm2):
    flags = ("--n-ctx=512", "--slots=1", "--metrics-listen=127.0.0.1:0")
    with Worker(model_flag("smollm2"), *flags) as worker, Planner() as planner:
        worker.await_ready()
        n_refused = 0
        for call in calls_with_canary(worker, "smollm2"):
            try:
                call()
            except grpc.RpcError:
                n_refused += 1
        assert n_refused == 6
        register(planner, device_id="d" + FORGED)
        for log in (worker.log(), planner.log()):
            lines = [line for line in log.splitlines() if CANARY in line]
            # A device's name is no secret; it must not make a line of its own.
            assert not any(line.startswith("E1128 12:00:00") for line in lines)
        assert CANARY not in worker.log()


def test_f30_a_plan_of_nonsense_is_refused_and_the_planner_lives(planner):
    good = dict(
        architecture="llama", n_layers=32, model_dim=4096, n_heads=32,
        n_kv_heads=8, ffn_dim=14336, vocab_size=128256, n_ctx_train=131072,
    )
    bad = [{"n_layers": 0}, {"n_heads": 0}, {"n_kv_heads": 0}, {"model_dim": 0},
           {"n_layers": (1 << 31) - 1}]
    codes = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.OUT_OF_RANGE)
    for change in bad:
        numbers = lease_v1.Hyperparameters(**{**good, **change})
        request = lease_v1.PlanRequest(
            source=lease_v1.ModelSource(hyperparameters=numbers),
            budget_bytes=1 << 40,
        )
        with pytest.raises(grpc.RpcError) as caught:
            planner.stub.Plan(request, timeout=CALL_SECONDS)
        assert caught.value.code() in codes, change
    assert planner.serving()
