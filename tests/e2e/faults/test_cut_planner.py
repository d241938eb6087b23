"""F3: a worker that is cut off from its planner, for less and for more than a lease."""

import json
import pathlib
import subprocess
import sys

import pytest

from conftest import model_flag
from servers import CALL_SECONDS, READY_SECONDS
from test_vanished_host import skip_reason

SCRIPT = pathlib.Path(__file__).with_name("cut_planner.py")


def found_while(doing):
    """What the script found."""
    if reason := skip_reason():
        pytest.skip(reason)
    done = subprocess.run(
        ["unshare", "--net", sys.executable, SCRIPT, doing, model_flag("smollm2")],
        capture_output=True,
        timeout=CALL_SECONDS + READY_SECONDS,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def found(smollm2):
    """What it found beside a stream."""
    found = found_while("serving")
    assert not found["is_watched"], "the planner sees the worker's process"
    return found


def test_f03_a_cut_shorter_than_the_time_to_live_is_not_noticed(found):
    assert found["short"]["states"] == ["CONFIRMED"], found
    assert found["short"]["is_the_same"], found


def test_f03_a_longer_cut_frees_nothing_and_the_lease_comes_back(found):
    assert found["long"]["states"] == ["CONFIRMED", "SUSPECT"], found
    assert len(found["long"]["held"]) == 1, found  # its bytes count all the while
    assert found["long"]["is_the_same"], found


def test_f03_a_cut_stops_new_loads_only(found):
    assert found["long"]["said"] == ["PLANNER_UNAVAILABLE", True], found
    assert not found["is_over"], found
    assert found["longest_gap"] < 5, found


def test_f03_a_cut_in_a_load_stops_it_before_its_lease_ends(smollm2):
    found = found_while("loading")
    assert found["said"] == ["LEASE_LOST", True], found
    assert found["states"] == ["SUSPECT"], found  # until the worker can release it
