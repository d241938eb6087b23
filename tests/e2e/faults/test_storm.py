"""A planner, workers, a gateway and the command line while named points of them
fail (base/sync/fault.h).

No process ends; who is refused hears why; what succeeds is right; and afterwards
all memory is given back.
"""

import concurrent.futures
import contextlib
import json
import os
import random
import subprocess

import grpc
import httpx
import pytest

from asks import GREEDY, stream, text
from command_line import at
from faults.test_sweep import tiny  # noqa: F401 (a fixture)
from servers import (
    CALL_SECONDS, READY_SECONDS, START_SECONDS, Failure, Gateway, Planner, Worker,
    binary, is_nightly, until,
)
from stubs import model as v1

# A journal whose sync has failed grants nothing until the next start.
PLAN = "*=0.03,journal.sync=0;seed={}"
N_THREADS = 3
N_CALLS = 150 if is_nightly() else 40  # calls of each thread
N_TOKENS = 8
PROMPT = "ab ab"
CODES = {
    grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.DATA_LOSS, grpc.StatusCode.CANCELLED,
}
STATUSES = {200, 413, 429, 503}
LISTED = "/plimsoll.v1.PlannerService/ListDevices"


@contextlib.contextmanager
def failing(seed):
    """Programs that start within it have points that fail."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLIMSOLL_FAULTS", PLAN.format(seed))
        yield


@pytest.fixture(scope="module", autouse=True)
def points():
    """Skips where the programs have no points: these do not read the variable."""
    done = subprocess.run(
        [binary("plimsoll"), "version"], capture_output=True, timeout=START_SECONDS,
        env={**os.environ, "PLIMSOLL_FAULTS": "no plan"}, check=False,
    )
    if done.returncode != 2:
        pytest.skip("this build has no fault points (PLIMSOLL_FAULTS)")


def check_refusal(error):
    """Expects the end of a call to say whose turn it is, and why."""
    failure = Failure(error)
    assert failure.code in CODES, failure
    assert failure.message and failure.info is not None, failure


def surely(call):
    """What a call returns that is made until it succeeds."""

    def attempt():
        try:
            return [call()]
        except grpc.RpcError as error:
            check_refusal(error)
            return []

    return until(attempt, 60, "a call that succeeds")[0]


def ask_by_grpc(worker):
    """The text of a stream of a worker."""
    ask = stream(
        text=text(PROMPT), sampling=GREEDY, max_tokens=N_TOKENS, ignore_eos=True
    )
    parts = list(worker.generation.StreamGenerate(ask, timeout=CALL_SECONDS))
    assert parts[-1].HasField("finish")
    return "".join(part.text for part in parts)


def ask_by_http(gateway, streams):
    """The text of a reply of the gateway; None if it was refused or broke off."""
    body = {
        "prompt": PROMPT, "max_tokens": N_TOKENS, "temperature": 0,
        "ignore_eos": True, "stream": streams,
    }
    reply = httpx.post(
        f"{gateway.url}/v1/completions", json=body, timeout=CALL_SECONDS
    )
    check_reply(reply)
    if reply.status_code != 200:
        return None
    if not streams:
        return reply.json()["choices"][0]["text"]
    events = [line[6:] for line in reply.text.splitlines() if line.startswith("data: ")]
    if events[-1] != "[DONE]":
        assert json.loads(events[-1])["error"]["message"], events
        return None
    return "".join(json.loads(event)["choices"][0]["text"] for event in events[:-1])


def check_reply(reply):
    """Expects a reply by HTTP to be good, or to say why not."""
    assert reply.status_code in STATUSES, reply.text
    if reply.status_code != 200:
        assert reply.json()["error"]["message"], reply.text
        assert "127.0.0.1" not in reply.text


class Storm:
    """A planner, two workers of it and a gateway before them, all of which fail."""

    def __init__(self, model, expected, folder, stack):
        self.expected = expected
        flags = (f"--model=tiny={model}", "--lazy", "--threads=1", "--n-ctx=256")
        with failing(1):
            self.planner = stack.enter_context(
                Planner("--lease-ttl=5", f"--journal={folder / 'leases.db'}")
            )
        flags += (f"--planner={self.planner.address}",)
        self.workers = []
        for seed in (2, 3):
            with failing(seed):
                self.workers.append(stack.enter_context(Worker(*flags)))
        with failing(4):
            self.gateway = stack.enter_context(
                Gateway(f"--planner={self.planner.address}", workers=self.workers)
            )
        for worker in self.workers:
            surely(worker.load)
        until(self.is_ready, READY_SECONDS, "readiness")

    def is_ready(self):
        """Whether the gateway has a worker."""
        with contextlib.suppress(httpx.TransportError):
            return self.gateway.word() == (200, "ok")
        return False

    def servers(self):
        return [self.planner, *self.workers, self.gateway]

    def call_often(self, seed):
        """Makes many calls of one thread."""
        chance = random.Random(seed)
        kinds = [self.grpc] * 4 + [self.http] * 8 + [
            self.reload, self.devices, self.command,
        ]
        for _ in range(N_CALLS):
            chance.choice(kinds)(chance)

    def grpc(self, chance):
        try:
            assert ask_by_grpc(chance.choice(self.workers)) == self.expected
        except grpc.RpcError as error:
            check_refusal(error)

    def http(self, chance):
        # The gateway's own connections break, too.
        with contextlib.suppress(httpx.TransportError):
            found = ask_by_http(self.gateway, chance.random() < 0.5)
            assert found in (None, self.expected)

    def devices(self, _):
        with contextlib.suppress(httpx.TransportError):
            check_reply(httpx.post(
                self.gateway.url + LISTED, json={}, timeout=CALL_SECONDS
            ))

    def reload(self, _):
        """Unloads the model of the second worker, and loads it again."""
        try:
            self.unload(self.workers[1])
            self.workers[1].load()
        except grpc.RpcError as error:
            check_refusal(error)

    def command(self, chance):
        with failing(chance.randrange(1 << 30)):
            done = at(
                chance.choice(self.workers), "generate", "--model", "tiny", "--raw",
                "--prompt", PROMPT, "--max-tokens", str(N_TOKENS), "--temperature",
                "0", "--ignore-eos",
            )
        assert done.returncode in (0, 1), done.stderr
        assert b"plimsoll: " in done.stderr or done.returncode == 0
        if done.returncode == 0:
            assert done.stdout.decode().rstrip("\n") == self.expected.rstrip("\n")

    @staticmethod
    def unload(worker):
        request = v1.UnloadModelRequest(model="tiny")
        worker.models.UnloadModel(request, timeout=CALL_SECONDS)

    def held(self):
        """The bytes that devices and leases have."""
        devices = surely(self.planner.devices)
        leases = surely(self.planner.leases)
        return sum(d.held_bytes for d in devices), sum(one.bytes for one in leases)

    def check_memory(self):
        """Expects leases to add up, and to be given back."""
        for worker in self.workers:
            surely(worker.load)
        until(lambda: len(surely(self.planner.leases)) == 2, 60, "a lease each")
        devices, leases = self.held()
        assert devices == leases > 0
        for worker in self.workers:
            if worker.model().state != v1.MODEL_STATE_ABSENT:
                surely(lambda w=worker: self.unload(w))
        until(lambda: self.held() == (0, 0), 60, "the leases' end")


def test_processes_outlive_faults_and_give_everything_back(tiny, tmp_path):  # noqa: F811
    sizes = (f"--model=tiny={tiny}", "--threads=1", "--n-ctx=256")
    with Worker(*sizes) as worker, Gateway(workers=[worker]) as gateway:
        gateway.await_ready()
        expected = ask_by_grpc(worker)
        assert ask_by_http(gateway, False) == expected != ""
    with contextlib.ExitStack() as stack:
        storm = Storm(tiny, expected, tmp_path, stack)
        with concurrent.futures.ThreadPoolExecutor(N_THREADS) as threads:
            done = [threads.submit(storm.call_often, seed) for seed in range(N_THREADS)]
        for one in done:
            one.result()
        storm.check_memory()
        for server in storm.servers():
            assert server.process.poll() is None, server.log()
            assert "\nfault: " in "\n" + server.log()
            server.terminate()
        for server in storm.servers():
            assert server.process.wait(START_SECONDS) == 0, server.log()
