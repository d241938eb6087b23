"""A stream whose two ends can no longer reach each other: prints who noticed when.

    unshare --net python vanished_host.py MODEL_FLAG

The only network is a loopback device of our own. It is taken down, so that packets are lost
and neither side hears of it. Prints one line of JSON: the seconds until the client ended
and until the worker had ended the call, the client's exit code and what it said. Needs root.
"""

import json
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from servers import Worker, binary, processor_seconds, until  # noqa: E402

PATIENCE_SECONDS = 60
STREAM = (
    "--prompt=Once",
    "--ignore-eos",
    "--context-policy=roll",
    "--max-tokens=999999",
)


def loopback(state):
    """Takes the only network up or down."""
    subprocess.run(["ip", "link", "set", "lo", state], check=True)


def main():
    loopback("up")
    with Worker(sys.argv[1], "--n-ctx=4096", "--slots=1") as worker:
        worker.await_ready()
        print(json.dumps(cut(worker.address, worker.process.pid)))


def cut(address, worker):
    """Cuts the network in the midst of a stream, and waits for both ends."""
    client = subprocess.Popen(
        [binary("plimsoll"), "generate", f"--address={address}", *STREAM],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert client.stdout.read(10), client.stderr.read()
    reader = subprocess.Popen(["cat"], stdin=client.stdout, stdout=subprocess.DEVNULL)
    loopback("down")
    begin = time.monotonic()
    found = {}
    looked = (0, 0)  # at the time and at the worker's processor time

    def both_noticed():
        nonlocal looked
        now = time.monotonic() - begin
        if now > looked[0] + 0.5:
            # It computes all the time while it has a stream.
            used = processor_seconds(worker)
            if looked[0] and used - looked[1] < 0.05:
                found.setdefault("worker_seconds", now)
            looked = (now, used)
        if client.poll() is not None:
            found.setdefault("client_seconds", now)
        return len(found) == 2

    try:
        until(both_noticed, PATIENCE_SECONDS, "the end of both")
    finally:
        client.kill()
        reader.wait()
    said = client.stderr.read().decode()
    return {**found, "code": client.returncode, "said": said}


main()
