"""Starts the real binaries on a free port and talks to them."""

import contextlib
import os
import pathlib
import re
import select
import signal
import socket
import subprocess
import tempfile
import time

import grpc
import httpx
import pytest
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc

import stubs

BUILD_DIR = pathlib.Path(
    os.environ.get("PLIMSOLL_BUILD", stubs.SOURCE_DIR / "build" / "release")
)
START_SECONDS = 30  # a slow machine, a sanitizer
READY_SECONDS = 120
CALL_SECONDS = 120  # bounds every call of a test; none comes near it

# Its redzones and quarantine are in no bound.
without_sanitizer = pytest.mark.skipif(
    bool(os.environ.get("PLIMSOLL_SANITIZE")),
    reason="a sanitizer takes memory of its own",
)

def is_nightly():
    """Whether tests may take long."""
    return os.environ.get("PLIMSOLL_LONG_TESTS", "OFF") != "OFF"


# What takes long and rarely finds anything.
nightly = pytest.mark.skipif(
    not is_nightly(),
    reason="PLIMSOLL_LONG_TESTS is off",
)


def binary(name):
    """The path of a binary of the build under test."""
    path = BUILD_DIR / "bin" / name
    if not path.is_file():
        pytest.fail(f"no {name} in {BUILD_DIR}: build it, or set PLIMSOLL_BUILD")
    return str(path)


def free_port():
    """A port of loopback that nobody listens at."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def processor_seconds(pid):
    """The processor time that a process has used so far."""
    words = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def until(condition, seconds=10, what="the condition"):
    """Polls until `condition()` is true and returns what it gave."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not come within {seconds} s")
        time.sleep(0.02)


def stop(process):
    """Stops a process and waits until all of its threads stand still."""
    process.send_signal(signal.SIGSTOP)
    flags = os.WSTOPPED | os.WNOHANG
    until(lambda: os.waitid(os.P_PID, process.pid, flags), what="the stop")


class Failure:
    """A refused call: its code, its message and its details."""

    def __init__(self, error):
        self.code = error.code()
        self.message = error.details()
        self.info = None
        self.retry = None
        for key, value in error.trailing_metadata() or ():
            if key == "grpc-status-details-bin":
                self._read(status_pb2.Status.FromString(value))

    def _read(self, status):
        assert status.message == self.message
        for detail in status.details:
            for field, kind in (
                ("info", error_details_pb2.ErrorInfo),
                ("retry", error_details_pb2.RetryInfo),
            ):
                if detail.Is(kind.DESCRIPTOR):
                    setattr(self, field, kind())
                    detail.Unpack(getattr(self, field))

    def __repr__(self):
        return f"{self.code}: {self.message} ({self.info})"


@contextlib.contextmanager
def refused(code, reason=None):
    """Expects the call in its body to fail; yields a list with the Failure."""
    failures = []
    with pytest.raises(grpc.RpcError) as caught:
        yield failures
    failure = Failure(caught.value)
    failures.append(failure)
    assert failure.code == code, failure
    if reason is not None:
        assert failure.info is not None, failure
        assert failure.info.domain == "plimsoll.dev"
        assert failure.info.reason == reason, failure


def small_channel(address):
    """A channel that takes little of a stream that its client does not read."""
    options = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 16384)]
    return grpc.insecure_channel(address, options=options)


class DidNotListen(AssertionError):
    """A server that ended before it said its address."""

    def __init__(self, code, log, line):
        super().__init__(f"said {line!r} on stdout, ended with {code}:\n{log}")
        self.code = code
        self.log = log


def after(setup, command):
    """`command` in a process in which a shell ran `setup` first.

    It takes the place of preexec_fn, whose process may hang or end where this one
    has threads, as those of gRPC.
    """
    return ["sh", "-c", f'{setup}; exec "$@"', "sh", *command] if setup else command


class Server:
    """A process of ours that listens; a context manager."""

    def __init__(self, name, *flags, setup="", state=None):
        self.errors = tempfile.TemporaryFile()
        # What it keeps is nobody else's, so that no test depends on another,
        # unless a test says where: those of one host share a folder.
        self.state = tempfile.TemporaryDirectory(prefix="plimsoll-state-")
        if not any(flag.startswith("--listen=") for flag in flags):
            flags += ("--listen=127.0.0.1:0",)
        command = after(setup, [binary(name), *flags])
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env={**os.environ, "XDG_STATE_HOME": str(state or self.state.name)},
        )
        try:
            self.address = self._await_address()
        except BaseException:
            self.close()
            raise
        self.channel = grpc.insecure_channel(self.address)
        self.health = health_pb2_grpc.HealthStub(self.channel)

    def _await_address(self):
        readable, _, _ = select.select([self.process.stdout], [], [], START_SECONDS)
        line = self.process.stdout.readline().decode() if readable else ""
        match = re.fullmatch(
            r"listening on (?:https?://)?(unix:/\S+|\S+:\d+)\n", line
        )
        if match is None:
            code = None if line else self.process.wait(START_SECONDS)
            raise DidNotListen(code, self.log(), line)
        return match[1]

    def log(self):
        """What it wrote on stderr so far."""
        # The process writes where this file's offset is, so that must not move.
        descriptor = self.errors.fileno()
        text = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
        return text.decode(errors="replace")

    def hang_up(self, expected):
        """Sends SIGHUP and returns what the log says from then on."""
        length = len(self.log())
        self.process.send_signal(signal.SIGHUP)
        until(lambda: expected in self.log()[length:], what=expected)
        return self.log()[length:]

    def serving(self, service=""):
        """Whether the health service says SERVING."""
        request = health_pb2.HealthCheckRequest(service=service)
        reply = self.health.Check(request, timeout=CALL_SECONDS)
        return reply.status == health_pb2.HealthCheckResponse.SERVING

    def terminate(self):
        """Sends SIGTERM; does not wait."""
        self.process.send_signal(signal.SIGTERM)

    def kill(self):
        """Ends it with SIGKILL."""
        self.process.kill()
        self.process.wait(timeout=START_SECONDS)

    def close(self):
        """Ends it, if it still runs."""
        if hasattr(self, "channel"):
            self.channel.close()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout=START_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
        self.process.stdout.close()
        self.errors.close()
        self.state.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()


class Front(Server):
    """plimsoll serve; its models are loaded once it says its address."""

    def __init__(self, *flags):
        super().__init__("plimsoll", "serve", *flags)
        self.url = f"http://{self.address}"


class Gateway(Server):
    """plimsoll-gateway before `workers`."""

    def __init__(self, *flags, workers=()):
        flags += tuple(f"--worker={worker.address}" for worker in workers)
        super().__init__("plimsoll-gateway", *flags)
        self.url = f"http://{self.address}"

    def word(self):
        """The status and the word of /health."""
        reply = httpx.get(f"{self.url}/health", timeout=CALL_SECONDS)
        return reply.status_code, reply.json()["status"]

    def await_ready(self):
        """Returns itself once a worker is ready."""
        until(lambda: self.word() == (200, "ok"), READY_SECONDS, "readiness")
        return self

    def metrics(self):
        """The values of /metrics by the name with its labels."""
        text = httpx.get(f"{self.url}/metrics", timeout=CALL_SECONDS).text
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, value in
                (line.rsplit(" ", 1) for line in lines)}


class Planner(Server):
    """plimsoll-planner; unless `first`, one that may have had a predecessor."""

    def __init__(self, *flags, first=True, **options):
        if first:
            flags += ("--first",)
        super().__init__("plimsoll-planner", *flags, **options)
        self.stub = stubs.PlannerStub(self.channel)

    def listed(self):
        """The whole answer of ListLeases."""
        return self.stub.ListLeases(stubs.planner.ListLeasesRequest())

    def leases(self):
        """All live leases."""
        return self.listed().leases

    def devices(self):
        """All devices."""
        return self.stub.ListDevices(stubs.planner.ListDevicesRequest()).devices


def device_profile(device_id, n_bytes):
    """A device of `n_bytes`, all of them free."""
    return stubs.planner.DeviceProfile(
        id=device_id,
        kind="cpu",
        name="a small device",
        total_bytes=n_bytes,
        free_bytes=n_bytes,
        allocation=stubs.common.ALLOCATION_RULE_EXACT,
        alignment=64,
        workspace=stubs.planner.WorkspaceParameters(
            activation_block=32,
            activation_block_bytes=36,
            min_logits_rows=1,
            max_candidates=64,
        ),
        runtime_bytes=0,
        runtime_basis=stubs.common.BASIS_ESTIMATED,
    )


class Worker(Server):
    """plimsoll-worker."""

    def __init__(self, *flags):
        super().__init__("plimsoll-worker", *flags)
        self.connect(self.channel)

    def connect(self, channel):
        """Makes the stubs on `channel`."""
        self.admin = stubs.AdminStub(channel)
        self.models = stubs.ModelStub(channel)
        self.generation = stubs.GenerationStub(channel)
        self.sessions = stubs.SessionStub(channel)
        self.tokenizer = stubs.TokenizerStub(channel)

    def await_ready(self):
        """Returns itself once its models are loaded."""
        until(self._is_ready, READY_SECONDS, "readiness")
        return self

    def _is_ready(self):
        assert self.process.poll() is None, self.log()
        return self.serving()

    def model(self, name=None):
        """The state of one model; without a name, of the first."""
        request = stubs.model.ListModelsRequest()
        models = self.models.ListModels(request, timeout=CALL_SECONDS).models
        return next(m for m in models if name in (None, m.name))

    def load(self, name="", **options):
        """All messages of a LoadModel call."""
        request = stubs.model.LoadModelRequest(
            model=name, options=stubs.common.LoadOptions(**options)
        )
        return list(self.models.LoadModel(request, timeout=CALL_SECONDS))


class FarWorker(Worker):
    """A worker whose process the planner cannot see, as in another container.

    Needs root."""

    def __init__(self, *flags):
        setup = 'set -- unshare --pid --fork --kill-child --mount-proc "$@"'
        Server.__init__(self, "plimsoll-worker", *flags, setup=setup)
        self.connect(self.channel)

    def pid(self):
        """The number of its process here."""
        parent = self.process.pid
        children = pathlib.Path(f"/proc/{parent}/task/{parent}/children")
        return int(children.read_text())

    def kill(self):
        """Ends it with SIGKILL, and waits until it has ended."""
        os.kill(self.pid(), signal.SIGKILL)
        self.process.wait(timeout=START_SECONDS)

    def close(self):
        # What started it heeds no other signal, and ends it, too.
        if self.process.poll() is None:
            super().kill()
        super().close()
