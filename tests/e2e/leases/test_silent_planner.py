"""Leases are given back beside a planner that does not answer."""

import signal
import time

import pytest

from servers import START_SECONDS, Planner, Worker, stop, until
from stubs import model as v1

DEADLINE_SECONDS = 5  # PlannerClient::kCallDeadline
SLACK_SECONDS = 4  # a busy machine; each further wait would take a deadline
MODELS = ("a", "b", "c")


@pytest.fixture
def pair(smollm2):
    """A planner, and a worker with a lease for each of three models."""
    with Planner() as planner:
        flags = [f"--model={name}={smollm2}" for name in MODELS]
        flags += ["--n-ctx=256", "--slots=1", f"--planner={planner.address}"]
        with Worker(*flags) as worker:
            worker.await_ready()
            assert len(planner.leases()) == len(MODELS)
            yield planner, worker
            planner.process.send_signal(signal.SIGCONT)


def test_f22_a_drain_waits_for_a_silent_planner_once(pair):
    planner, worker = pair
    stop(planner.process)
    begin = time.monotonic()
    worker.terminate()
    assert worker.process.wait(START_SECONDS) == 0
    assert time.monotonic() - begin < DEADLINE_SECONDS + SLACK_SECONDS
    planner.process.send_signal(signal.SIGCONT)
    until(lambda: not planner.leases(), what="the end of what a dead one held")


def test_leases_that_were_not_released_are_released_later(pair):
    planner, worker = pair
    stop(planner.process)
    begin = time.monotonic()
    for name in MODELS:
        worker.models.UnloadModel(v1.UnloadModelRequest(model=name))
    assert time.monotonic() - begin < DEADLINE_SECONDS + SLACK_SECONDS
    planner.process.send_signal(signal.SIGCONT)
    # The worker asks again within 2 s, and may wait for an answer then.
    until(lambda: not planner.leases(), 2 * DEADLINE_SECONDS + 2, "the releases")
    worker.load("b", n_ctx=256, n_slots=1)
    assert len(planner.leases()) == 1
