"""Fault sweeps: the n-th call of the C library fails, for many n.

A process may end then, but not without a word; and whatever happens, no lease is
lost and none is granted twice. What a caller is told is an error, and the next
caller is served as if nothing had been.
"""

import http.client
import json
import re
import shutil
import signal

import grpc
import pytest

import stubs
from asks import GREEDY, stream, text
from servers import (
    CALL_SECONDS, START_SECONDS, DidNotListen, Front, Gateway, Planner, Worker,
    device_profile, is_nightly, until,
)
from stubs import generation as gv1, model as v1, planner as pv1, session as sv1
from test_convert import model_of, written
from test_leases import DEVICE, DEVICE_BYTES, register, reserve

KINDS = ("allocations", "mappings", "writes", "syncs", "reads")
NEVER = 1 << 40
# How many n of each kind are tried.
N_TRIES = 60 if is_nightly() else 6
SIZES = {"n_ctx": 64, "n_slots": 1}
# An error with its message, and what ends with the report of an abort.
GOOD_ENDS = (1, -signal.SIGABRT)
# The report of a crash whose last call is gRPC's. gRPC does not check everywhere
# that it got memory.
CRASH_OF_GRPC = re.compile(
    r"the process crashed \(SIGSEGV\).*\n\S*/lib(?:grpc|gpr|upb|address_sorting)[^/]*\("
)
HELD_BYTES = DEVICE_BYTES * 3 // 5  # so that there is no room for it twice


def spread(n_calls):
    """Numbers of calls from 1 on: half of them early, half all over."""
    n_half = N_TRIES // 2
    ratio = max(n_calls, 1) ** (1 / n_half)
    early = {max(i, round(ratio**i)) for i in range(1, n_half + 1)}
    evenly = {n_calls * (2 * i + 1) // (2 * n_half) for i in range(n_half)}
    return sorted(n for n in early | evenly if 1 <= n <= n_calls)


def check_end(code, log, kind):
    """Expects a process, some of whose calls failed, to have ended with a reason."""
    if code == -signal.SIGSEGV and kind in ("allocations", "mappings"):
        assert CRASH_OF_GRPC.search(log), log
        return
    assert code in GOOD_ENDS, f"{code}: {log}"
    assert log.strip(), code


def start_planner(journal):
    return Planner(f"--journal={journal}", first=False)


def check_door(planner):
    """Expects what is held not to be granted again."""
    register(planner)
    with pytest.raises(grpc.RpcError) as caught:
        reserve(planner, "again", HELD_BYTES)
    assert caught.value.code() in (
        grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE,
    )


def try_planner(journal, failing_calls, kind):
    """Starts a planner that may end, and expects it to say why."""
    try:
        with failing_calls.preloaded(), start_planner(journal) as planner:
            try:
                check_door(planner)
            except grpc.RpcError:  # it ended at its first call
                planner.process.wait(START_SECONDS)
            if planner.process.poll() is not None:
                check_end(planner.process.returncode, planner.log(), kind)
    except DidNotListen as end:
        check_end(end.code, end.log, kind)


@pytest.fixture(scope="module")
def held(tmp_path_factory):
    """A folder with the journal of a planner that granted a lease."""
    folder = tmp_path_factory.mktemp("journal")
    with Planner(f"--journal={folder / 'leases.db'}") as planner:
        register(planner)
        lease = reserve(planner, "held", HELD_BYTES)
    return folder, lease.id


@pytest.mark.parametrize("kind", KINDS)
def test_f05_a_planner_starts_or_says_why_not(kind, held, failing_calls, tmp_path):
    folder, lease_id = held
    failing_calls.fail(kind, NEVER)
    copy = tmp_path / "first"
    shutil.copytree(folder, copy)
    with failing_calls.preloaded(), start_planner(copy / "leases.db"):
        n_calls = NEVER - failing_calls.left(kind)
    for n in spread(n_calls):
        copy = tmp_path / str(n)
        shutil.copytree(folder, copy)
        failing_calls.fail(kind, n)
        try_planner(copy / "leases.db", failing_calls, kind)
        failing_calls.fail(kind, 0)
        with start_planner(copy / "leases.db") as second:
            check_door(second)
            # A journal that could not be read is put aside; its holders come back.
            aside = [path for path in copy.iterdir() if "leases.db." in path.name]
            assert aside or [lease.id for lease in second.leases()] == [lease_id]
        shutil.rmtree(copy)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """The file of a model of some KiB."""
    path = tmp_path_factory.mktemp("tiny") / "tiny.gguf"
    written(model_of("llama")[0], path)
    return path


STARTS = {
    "worker": lambda model: Worker(f"--model=tiny={model}", "--lazy", "--threads=1"),
    "gateway": lambda model: Gateway("--workers=localhost:1"),
    "serve": lambda model: Front(str(model), "--threads=1", "--n-ctx=64"),
}


@pytest.mark.parametrize("server", STARTS)
def test_f26_a_start_without_memory_serves_or_says_why_not(
    server, tiny, failing_calls
):
    failing_calls.fail("allocations", NEVER)
    with failing_calls.preloaded(), STARTS[server](tiny):
        n_calls = NEVER - failing_calls.left("allocations")
    for n in spread(n_calls):
        failing_calls.fail("allocations", n)
        try:
            with failing_calls.preloaded(), STARTS[server](tiny) as started:
                started.kill()
        except DidNotListen as end:
            check_end(end.code, end.log, "allocations")
        failing_calls.fail("allocations", 0)


class Loads:
    """Loads of a worker below a planner, some of whose calls fail."""

    def __init__(self, planner, model, calls):
        self.planner = planner
        self.flags = (
            f"--model=tiny={model}", "--lazy", "--threads=1",
            f"--planner={planner.address}",
        )
        self.calls = calls
        self.worker = None

    def start(self):
        with self.calls.preloaded():
            self.worker = Worker(*self.flags)

    def close(self):
        self.worker.close()

    def unload(self):
        request = v1.UnloadModelRequest()
        self.worker.models.UnloadModel(request, timeout=CALL_SECONDS)

    def count(self, kind):
        """How many calls a load and an unload make."""
        self.calls.fail(kind, NEVER)
        self.worker.load(**SIZES)
        self.unload()
        return NEVER - self.calls.left(kind)

    def attempt(self, kind, n):
        """A load and an unload whose n-th call fails."""
        self.calls.fail(kind, n)
        try:
            self.worker.load(**SIZES)
            self.unload()
        except grpc.RpcError as error:
            assert error.code() != grpc.StatusCode.DEADLINE_EXCEEDED, (kind, n)
            assert error.details(), error
            self.after(error)
        self.calls.fail(kind, 0)
        # A worker that lives gives back what it has, and so does its end.
        if self.worker.process.poll() is None and self.worker.model().state != (
            v1.MODEL_STATE_ABSENT
        ):
            self.unload()
        until(lambda: not self.planner.leases(), 30, f"the leases' end ({kind} {n})")
        (device,) = self.planner.devices()
        assert device.held_bytes == 0
        if self.worker.process.poll() is not None:
            check_end(self.worker.process.returncode, self.worker.log(), kind)
            self.worker.close()
            self.start()

    def after(self, error):
        """Waits for the end of a worker that ends."""
        if error.code() == grpc.StatusCode.UNAVAILABLE and not error_has_info(error):
            self.worker.process.wait(START_SECONDS)


def error_has_info(error):
    """Whether a server said it, and not gRPC because a connection broke."""
    keys = [key for key, _ in error.trailing_metadata() or ()]
    return "grpc-status-details-bin" in keys


@pytest.mark.parametrize("kind", KINDS)
def test_f06_a_load_ends_with_a_reason(kind, tiny, failing_calls):
    with Planner("--lease-ttl=3") as planner:
        loads = Loads(planner, tiny, failing_calls)
        loads.start()
        try:
            loads.count(kind)  # the first is not like the others
            for n in spread(loads.count(kind)):
                loads.attempt(kind, n)
            loads.worker.load(**SIZES)
            assert len(planner.leases()) == 1
        finally:
            loads.close()


# What can fail while calls run.
SOCKET_KINDS = ("accepts", "receipts", "sends")
CALL_KINDS = ("allocations", "mappings", "opens", *SOCKET_KINDS, "threads")
N_TOKENS = 8


class Calls:
    """A server that answers calls, some of whose calls of the C library fail."""

    def __init__(self, model, calls):
        self.model = model
        self.calls = calls
        self.server = None

    def restart(self):
        with self.calls.preloaded():
            self.server = self.start()
        self.expected = self.converse()

    def sweep(self):
        self.restart()
        try:
            for kind in CALL_KINDS:
                self.calls.fail(kind, NEVER)
                assert self.converse() == self.expected
                n_calls = NEVER - self.calls.left(kind)
                self.calls.fail(kind, 0)
                for n in spread(n_calls):
                    self.attempt(kind, n)
        finally:
            self.server.close()

    def attempt(self, kind, n):
        """A conversation whose n-th call fails, and one after it."""
        self.calls.fail(kind, n)
        self.fail_with_a_reason()
        self.calls.fail(kind, 0)
        try:
            self.recover(kind, n)
        except (grpc.RpcError, http.client.HTTPException, OSError):
            if kind in SOCKET_KINDS:  # what was reset was this test's own
                self.recover(kind, n)
            else:
                self.server.process.wait(START_SECONDS)
        if self.server.process.poll() is None:
            return
        check_end(self.server.process.returncode, self.server.log(), kind)
        assert kind in ("allocations", "mappings"), (kind, n, self.server.log())
        self.server.close()
        self.restart()

    def fail_with_a_reason(self):
        """A conversation that goes well, or ends with an error that says why."""
        try:
            assert self.converse() == self.expected
        except grpc.RpcError as error:
            assert error.code() in (
                grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE,
            ), error
            assert error.details(), error

    def recover(self, kind, n):
        """Expects the next conversation to go well, and nothing to be left."""
        self.tidy()
        assert self.converse() == self.expected, (kind, n)
        until(self.is_idle, what=f"the end of all calls ({kind} {n})")


class Talks(Calls):
    """Sessions and streams of a worker."""

    def start(self):
        flags = ("--threads=1", "--n-ctx=256", "--slots=2", "--chat-format=chatml")
        worker = Worker(f"--model=tiny={self.model}", *flags)
        worker.await_ready()
        return worker

    def converse(self):
        """What a stream says, and a session."""
        # Each conversation has a connection of its own, as accepts are to fail.
        with grpc.insecure_channel(
            self.server.address, [("grpc.use_local_subchannel_pool", 1)]
        ) as channel:
            generation = stubs.GenerationStub(channel)
            ask = stream(
                text=text("ab ab"), sampling=GREEDY, max_tokens=N_TOKENS,
                ignore_eos=True,
            )
            parts = generation.StreamGenerate(ask, timeout=CALL_SECONDS)
            said = [part.text for part in parts]
            return said, self.chat(stubs.SessionStub(channel))

    @staticmethod
    def chat(sessions):
        opened = sessions.OpenSession(sv1.OpenSessionRequest(), timeout=CALL_SECONDS)
        name = opened.session.session_id
        try:
            ask = sv1.ChatRequest(
                session_id=name, message="ab", sampling=GREEDY,
                stopping=gv1.StoppingOptions(max_tokens=N_TOKENS, ignore_eos=True),
            )
            return [part.text for part in sessions.Chat(ask, timeout=CALL_SECONDS)]
        finally:
            close = sv1.CloseSessionRequest(session_id=name)
            sessions.CloseSession(close, timeout=CALL_SECONDS)

    def tidy(self):
        """Closes the session of a caller whose call to close it has failed."""
        sessions = self.server.sessions
        for one in sessions.ListSessions(sv1.ListSessionsRequest()).sessions:
            close = sv1.CloseSessionRequest(session_id=one.session_id)
            sessions.CloseSession(close, timeout=CALL_SECONDS)

    def is_idle(self):
        model = self.server.model()
        return model.running == 0 and model.waiting == 0


class Requests(Calls):
    """Requests to a front, with and without a stream."""

    def start(self):
        front = Front(str(self.model), "--threads=1", "--n-ctx=256")
        self.server = front
        until(lambda: self.ask("GET", "/health")[0] == 200, what="readiness")
        return front

    def ask(self, method, path, body=None):
        """The status and the bytes of a reply, on a connection of its own."""
        connection = http.client.HTTPConnection(
            self.server.address, timeout=CALL_SECONDS
        )
        try:
            connection.request(method, path, body)
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()

    def complete(self, streams):
        body = {
            "prompt": "ab ab", "max_tokens": N_TOKENS, "temperature": 0,
            "ignore_eos": True, "stream": streams,
        }
        return self.ask("POST", "/v1/completions", json.dumps(body))

    def converse(self):
        """What is said at once, and as a stream."""
        status, whole = self.complete(False)
        assert status == 200, whole
        status, events = self.complete(True)
        assert status == 200, events
        parts = [line[6:] for line in events.split(b"\n") if line.startswith(b"data: ")]
        assert parts.pop() == b"[DONE]", events
        said = [json.loads(part)["choices"] for part in parts]
        return (
            json.loads(whole)["choices"][0]["text"],
            "".join(choice["text"] for choices in said for choice in choices),
        )

    def fail_with_a_reason(self):
        """Two requests, up to the first error, which says why unless it is the
        connection's."""
        for streams in (False, True):
            try:
                status, body = self.complete(streams)
            except (http.client.HTTPException, OSError):
                return
            if status != 200:
                assert status in (413, 429, 503), (status, body)
                assert json.loads(body)["error"]["message"], body
                return

    def tidy(self):
        pass

    def is_idle(self):
        reply = json.loads(self.ask("GET", "/plimsoll/status")[1])
        return all(model.get("running", 0) == 0 for model in reply["models"])


class Relays(Requests):
    """Requests to a gateway, whose worker gets all that it asks for."""

    def __init__(self, model, calls):
        super().__init__(model, calls)
        self.worker = Worker(f"--model=tiny={model}", "--threads=1", "--n-ctx=256")
        self.worker.await_ready()

    def start(self):
        gateway = Gateway(workers=[self.worker])
        gateway.await_ready()
        return gateway

    def sweep(self):
        try:
            super().sweep()
        finally:
            self.worker.close()

    def tidy(self):
        # A look at the worker that failed is repeated soon.
        until(lambda: self.ask("GET", "/health")[0] == 200, what="a ready worker")

    def is_idle(self):
        gauges = self.server.metrics()
        return not any(
            value
            for name, value in gauges.items()
            if name.startswith("plimsoll_gateway_worker_in_flight")
        )


class Grants(Calls):
    """Leases of a planner with a journal, from their grant to their release."""

    def __init__(self, model, calls):
        super().__init__(model, calls)
        self.journal = model.with_name("leases.db")
        self.n_requests = 0
        self.granted = set()  # the leases that a caller knows

    def start(self):
        # --first counts only beside a journal that does not say otherwise.
        return Planner(f"--journal={self.journal}")

    def restart(self):
        with self.calls.preloaded():
            self.server = self.start()
        self.tidy()
        self.expected = self.converse()

    def converse(self):
        """What became of a lease."""
        with grpc.insecure_channel(
            self.server.address, [("grpc.use_local_subchannel_pool", 1)]
        ) as channel:
            stub = stubs.PlannerStub(channel)
            profile = device_profile(DEVICE, DEVICE_BYTES)
            stub.RegisterDevice(
                pv1.RegisterDeviceRequest(profile=profile), timeout=CALL_SECONDS
            )
            self.n_requests += 1
            lease = stub.Reserve(
                pv1.ReserveRequest(
                    request_id=str(self.n_requests), device_id=DEVICE,
                    holder="a test", purpose="a model", bytes=HELD_BYTES,
                ),
                timeout=CALL_SECONDS,
            ).lease
            self.granted.add(lease.id)
            name = {"lease_id": lease.id, "epoch": lease.epoch}
            confirmed = stub.Confirm(
                pv1.ConfirmRequest(measured_bytes=HELD_BYTES, **name),
                timeout=CALL_SECONDS,
            ).lease
            renewed = stub.Renew(
                pv1.RenewRequest(**name), timeout=CALL_SECONDS
            ).lease
            self.granted.remove(lease.id)
            stub.Release(pv1.ReleaseRequest(**name), timeout=CALL_SECONDS)
            return [one.state for one in (lease, confirmed, renewed)]

    def tidy(self):
        """Expects that no lease is lost, and releases all."""
        leases = self.server.leases()
        assert self.granted <= {lease.id for lease in leases}
        for lease in leases:
            request = pv1.ReleaseRequest(lease_id=lease.id, epoch=lease.epoch)
            self.server.stub.Release(request, timeout=CALL_SECONDS)
        self.granted.clear()

    def is_idle(self):
        return not self.server.leases()


@pytest.mark.parametrize("kind", [Talks, Requests, Relays, Grants])
def test_f26_a_call_ends_with_a_reason_and_the_next_is_served(
    kind, tiny, failing_calls
):
    kind(tiny, failing_calls).sweep()
