"""The log of planner and worker: its forms, and readers that do not read it."""

import json
import os
import subprocess

import grpc
import pytest

from asks import GREEDY, endless, generate, text
from conftest import model_flag
from servers import (
    CALL_SECONDS,
    START_SECONDS,
    Planner,
    Worker,
    binary,
    refused,
    until,
)
from stubs import admin, common, model

MIB = 1 << 20


class Pipe:
    """A named pipe that a server has as its standard error."""

    def __init__(self, path):
        os.mkfifo(path)
        self.setup = f"exec 2>{path}"
        # Opened for both, so that neither end waits for the other.
        self.end = os.open(path, os.O_RDWR | os.O_NONBLOCK)

    def fill(self):
        """Leaves no room for another byte."""
        for size in (4096, 1):
            try:
                while True:
                    os.write(self.end, b"x" * size)
            except BlockingIOError:
                pass

    def close(self):
        """Ends what reads it."""
        os.close(self.end)


@pytest.fixture
def pipe(tmp_path):
    return Pipe(tmp_path / "stderr")


def ends_well(server):
    """Sends SIGTERM and returns whether it ends with status 0."""
    server.terminate()
    return server.process.wait(timeout=START_SECONDS) == 0


def test_f17_a_full_pipe_stops_nothing(pipe):
    pipe.fill()
    # It writes a line at once, and one when it ends.
    with Planner(setup=pipe.setup, first=False) as planner:
        assert planner.serving() and not planner.devices()
        assert ends_well(planner)
    pipe.close()


def test_a_reader_that_is_gone_ends_nothing(pipe):
    with Planner(setup=pipe.setup) as planner:
        pipe.close()
        assert planner.serving()
        assert ends_well(planner)


def test_lines_of_json_are_objects():
    flags = ("--log-format=json", "--log-requests", "--n-ctx=512")
    with Worker(model_flag("smollm2"), *flags) as worker:
        worker.await_ready()
        worker.generation.Generate(
            generate("smollm2", text=text("Hello"), sampling=GREEDY, max_tokens=3),
            timeout=CALL_SECONDS,
        )
        until(lambda: "a request has ended" in worker.log(), what="its line")
        lines = [json.loads(line) for line in worker.log().splitlines()]
    for line in lines:
        assert list(line)[:3] == ["time", "level", "message"]
        assert line["level"] in ("info", "warning", "error")
    ready = next(line for line in lines if line["message"] == "a model is ready")
    assert ready["model"] == "smollm2" and ready["bytes"] > 100 * MIB
    request = next(line for line in lines if "has ended" in line["message"])
    assert request["generated_tokens"] == 3 and request["request_id"]
    assert request["status"] == "OK"


def test_a_refusal_has_the_requests_id_without_log_requests():
    flags = ("--log-format=json", "--n-ctx=512", "--slots=1")
    request = generate("smollm2", text=text("Hello"), max_tokens=3)
    with Worker(model_flag("smollm2"), *flags) as worker:
        worker.await_ready()
        running = worker.generation.StreamGenerate(endless("smollm2"))
        next(running)
        worker.admin.Drain(
            admin.DrainRequest(), metadata=(("x-request-id", "drain-1"),)
        )
        with refused(grpc.StatusCode.UNAVAILABLE, "DRAINING"):
            worker.generation.Generate(
                request, metadata=(("x-request-id", "late-1"),), timeout=CALL_SECONDS
            )
        running.cancel()
        until(lambda: "was refused" in worker.log(), what="its line")
        lines = [json.loads(line) for line in worker.log().splitlines()]
    drain = next(line for line in lines if "draining" in line["message"])
    assert drain["request_id"] == "drain-1"
    late = next(line for line in lines if "was refused" in line["message"])
    assert (late["request_id"], late["status"]) == ("late-1", "UNAVAILABLE")
    assert late["reason"] == "ERROR_REASON_DRAINING"


@pytest.mark.parametrize("wait", [False, True])
def test_a_drain_without_an_id_has_the_one_of_its_reply(wait):
    with Worker(model_flag("smollm2"), "--log-format=json", "--n-ctx=512") as worker:
        worker.await_ready()
        _, call = worker.admin.Drain.with_call(
            admin.DrainRequest(wait=wait), timeout=CALL_SECONDS
        )
        sent = dict(call.initial_metadata())["x-request-id"]
        until(lambda: "draining" in worker.log(), what="its line")
        lines = [json.loads(line) for line in worker.log().splitlines()]
    drain = next(line for line in lines if "draining" in line["message"])
    assert drain["request_id"] == sent


def load_as(worker, request_id, **options):
    """Loads the only model by a call of this id."""
    request = model.LoadModelRequest(options=common.LoadOptions(**options))
    metadata = (("x-request-id", request_id),)
    return list(worker.models.LoadModel(request, metadata=metadata, timeout=60))


def ids_of(server, message):
    """The ids of the requests that the lines with this message are about."""
    lines = [json.loads(line) for line in server.log().splitlines()]
    return [line.get("request_id") for line in lines if line["message"] == message]


def test_lines_of_loads_and_unloads_have_the_ids_of_their_requests(smollm2):
    with Planner("--device-memory=1GiB") as planner:
        flags = ("--lazy", "--log-format=json", f"--planner={planner.address}")
        with Worker(model_flag("smollm2"), *flags) as worker:
            with refused(grpc.StatusCode.RESOURCE_EXHAUSTED):
                load_as(worker, "load-1", n_ctx=8192, n_slots=16)
            load_as(worker, "load-2", n_ctx=256)
            metadata = (("x-request-id", "unload-1"),)
            worker.models.UnloadModel(
                model.UnloadModelRequest(), metadata=metadata, timeout=CALL_SECONDS
            )
            released = until(
                lambda: ids_of(worker, "a lease is released"), what="the release"
            )
            assert ids_of(worker, "a model was not loaded") == ["load-1"]
            assert ids_of(worker, "a lease is granted") == ["load-2"]
            assert ids_of(worker, "a model is ready") == ["load-2"]
            assert ids_of(worker, "a model is unloaded") == ["unload-1"]
            assert released == ["unload-1"]


def test_a_load_on_demand_has_the_id_of_the_request_that_needs_it():
    flags = ("--on-demand", "--n-ctx=256", "--log-format=json")
    with Worker(model_flag("smollm2"), *flags) as worker:
        worker.await_ready()
        worker.generation.Generate(
            generate("smollm2", text=text("Hello"), max_tokens=2),
            metadata=(("x-request-id", "ask-1"),),
            timeout=CALL_SECONDS,
        )
        assert ids_of(worker, "a model is ready") == ["ask-1"]


def test_planner_and_worker_name_a_load_of_the_start_alike(smollm2):
    with Planner("--log-format=json", first=False) as planner:
        flags = ("--n-ctx=256", "--log-format=json", f"--planner={planner.address}")
        with Worker(model_flag("smollm2"), *flags) as worker:
            waiting, = until(lambda: ids_of(worker, "a load waits"), what="the load")
            assert waiting and waiting in ids_of(planner, "a request was refused")


def test_broken_messages_of_a_client_are_few_lines_of_the_log():
    # The field "purpose" with bytes that are no UTF-8.
    broken = b"\x7a\x03\xff\xfe\xfd"
    with Planner("--log-format=json") as planner:
        call = planner.channel.unary_unary("/plimsoll.v1.PlannerService/Plan")
        for _ in range(50):
            with pytest.raises(grpc.RpcError):
                call(broken, timeout=CALL_SECONDS)
        assert ends_well(planner)
        lines = [json.loads(line) for line in planner.log().splitlines()]
    told = [line for line in lines if "purpose" in line.get("error", "")]
    assert 1 <= len(told) < 25
    assert all(line["level"] == "warning" for line in told)


def test_less_important_lines_are_left_out():
    with Planner("--log-level=error", first=False) as planner:
        assert ends_well(planner)
        assert planner.log() == ""
    with Planner(first=False) as planner:
        assert ends_well(planner)
        assert " INFO draining\n" in planner.log()


@pytest.mark.parametrize("flag", ["--log-level=loud", "--log-format=xml"])
@pytest.mark.parametrize("program", ["plimsoll-planner", "plimsoll-worker"])
def test_another_word_is_refused(program, flag):
    done = subprocess.run(
        [binary(program), flag], capture_output=True, timeout=START_SECONDS
    )
    assert done.returncode == 2
    assert flag.split("=")[0] in done.stderr.decode()
