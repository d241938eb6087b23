"""F20 and F23: steps and loads that hang let liveness fall, on the CPU too."""

from concurrent.futures import ThreadPoolExecutor
import re

import httpx
import pytest

from asks import GREEDY, generate, text
from conftest import model_flag
from servers import CALL_SECONDS, Front, Planner, Worker, until
from stubs import model as model_v1, planner as v1
from supervisor import Supervisor, busy_thread, stopped_thread
from test_leases import DEVICE, register

METRICS = "--metrics-listen=127.0.0.1:0"
LOCK_SECONDS = 20  # a lock is not waited for longer than this
FLAGS = ("--n-ctx=4096", "--slots=1", "--threads=1", "--hang-timeout=1")
# Its steps take seconds, and their thread holds no lock meanwhile.
LONG_PROMPT = "once upon a time " * 400


@pytest.fixture
def supervisor(tmp_path, monkeypatch):
    found = Supervisor(tmp_path, monkeypatch)
    with found.socket:
        yield found


def livez(server):
    """The status of /livez at the address of the metrics."""
    (address,) = re.findall(r'metrics are served.*?address="?([\d.:]+)', server.log())
    return httpx.get(f"http://{address}/livez", timeout=CALL_SECONDS).status_code


def is_noticed(server, supervisor, what):
    """Expects every probe of `server` to tell of a hang."""
    until(lambda: not server.serving("liveness"), what="the fall of liveness")
    assert livez(server) == 503
    assert supervisor.watchdog_bites()
    until(lambda: what in server.log(), what="the line")
    assert "limit=1s" in server.log()


def is_over(server, supervisor):
    """Expects every probe of `server` to tell that nothing hangs any more."""
    until(lambda: server.serving("liveness"), what="liveness")
    assert livez(server) == 200
    assert supervisor.hears_a_sign_of_life()


def start(*flags):
    return Worker(
        model_flag("smollm2"), *FLAGS, METRICS, *flags
    )


def test_f23_a_load_from_a_hung_file_is_noticed(smollm2, failing_calls, supervisor):
    with failing_calls.preloaded(), start("--lazy") as worker:
        assert supervisor.hears_a_sign_of_life()
        failing_calls.hang_reads(True)
        load = worker.models.LoadModel(model_v1.LoadModelRequest(), timeout=CALL_SECONDS)
        is_noticed(worker, supervisor, "the load of model smollm2")
        failing_calls.hang_reads(False)
        assert list(load)  # to its end, which is good
        is_over(worker, supervisor)


def test_f23_a_step_of_a_cpu_that_hangs_is_noticed(smollm2, supervisor):
    with start() as worker:
        worker.await_ready()
        request = generate(text=text(LONG_PROMPT), sampling=GREEDY, max_tokens=1)
        call = worker.generation.Generate.future(request, timeout=CALL_SECONDS)
        with stopped_thread(busy_thread(worker.process.pid)):
            is_noticed(worker, supervisor, "a step of model smollm2")
        is_over(worker, supervisor)
        assert call.result().usage.generated_tokens == 1


def test_f23_a_step_that_hangs_is_noticed_over_http(smollm2):
    with Front(str(smollm2), *FLAGS) as front, ThreadPoolExecutor(1) as pool:
        def status():
            return httpx.get(f"{front.url}/livez", timeout=CALL_SECONDS).status_code

        body = {"prompt": LONG_PROMPT, "max_tokens": 1}
        url = f"{front.url}/v1/completions"
        assert status() == 200
        call = pool.submit(httpx.post, url, json=body, timeout=CALL_SECONDS)
        with stopped_thread(busy_thread(front.process.pid)):
            until(lambda: status() == 503, what="the fall of liveness")
        until(lambda: status() == 200, what="liveness")
        assert call.result().status_code == 200


def test_f23_a_lock_that_a_planner_does_not_get_is_noticed(failing_calls, tmp_path):
    flags = (f"--journal={tmp_path / 'journal'}", METRICS)
    with failing_calls.preloaded(), Planner(*flags) as planner:
        register(planner)
        assert planner.serving("liveness") and livez(planner) == 200
        failing_calls.hang_syncs(True)
        # The grant is written to the journal under the lock of the ledger.
        request = v1.ReserveRequest(
            request_id="1", device_id=DEVICE, holder="a test", purpose="a model",
            bytes=1,
        )
        call = planner.stub.Reserve.future(request, timeout=CALL_SECONDS)
        until(lambda: not planner.serving("liveness"), LOCK_SECONDS + 10, "the fall")
        assert livez(planner) == 503
        until(lambda: "the lock of the ledger" in planner.log(), what="the line")
        failing_calls.hang_syncs(False)
        until(lambda: planner.serving("liveness"), what="liveness")
        assert livez(planner) == 200
        assert call.result().lease.bytes == 1
