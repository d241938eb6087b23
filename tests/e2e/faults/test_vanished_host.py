"""F8: the host of a worker, or of a client, that vanishes without a word."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from conftest import model_flag
from servers import CALL_SECONDS, READY_SECONDS

# services/server/access/keepalive.h promises 10 s, to which a busy machine adds.
NOTICED_SECONDS = 10 + 5
SCRIPT = pathlib.Path(__file__).with_name("vanished_host.py")


def skip_reason():
    """Why there can be no network of our own here; empty if there can be one."""
    if os.geteuid() != 0:
        return "it needs root"
    up = ["unshare", "--net", "ip", "link", "set", "lo", "up"]
    made = subprocess.run(up, capture_output=True)
    return "" if made.returncode == 0 else "no network namespaces here"


def test_f08_a_host_that_vanishes_is_noticed_by_both_sides(smollm2):
    if reason := skip_reason():
        pytest.skip(reason)
    done = subprocess.run(
        ["unshare", "--net", sys.executable, SCRIPT, model_flag("smollm2")],
        capture_output=True,
        timeout=CALL_SECONDS + READY_SECONDS,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["client_seconds"] < NOTICED_SECONDS, found
    assert found["worker_seconds"] < NOTICED_SECONDS, found
    assert found["code"] != 0
    assert "see whether that host is up" in found["said"], found
