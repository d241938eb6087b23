"""Runs of the plimsoll command."""

import json
import subprocess

from servers import CALL_SECONDS, binary


def plimsoll(*arguments, stdin=b""):
    """A finished run of the command."""
    return subprocess.run(
        [binary("plimsoll"), *arguments],
        input=stdin,
        capture_output=True,
        timeout=CALL_SECONDS,
    )


def parsed(done):
    """The JSON that a run printed."""
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def at(server, *arguments, **fields):
    """A run against a worker."""
    return plimsoll("--address", server.address, *arguments, **fields)
