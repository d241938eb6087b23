"""A planner, a worker and clients of other versions pass over what they do not know.

PLIMSOLL_OLD_BUILD names the build of an older commit, whose programs then run beside
those under test.
"""

import os
import pathlib
from concurrent import futures

import grpc
import pytest
from google.protobuf import descriptor_pb2

import servers
from asks import GREEDY, generate, text
from command_line import at
from conftest import model_flag
from servers import CALL_SECONDS, Planner, Worker, until
from stubs import generation as gen, model as v1, planner as planner_v1
from test_leases import DEVICE, named, register, reserve

# What a later version might add to any message: field 20000 as a number, and
# field 20001 as a text. Protobuf's wire format names neither.
ADDED = b"\x80\xe2\x09\x01" + b"\x8a\xe2\x09\x05later"


class Later(grpc.GenericRpcHandler):
    """Hands each call to a planner, and adds fields to requests and replies."""

    def __init__(self, channel):
        file = descriptor_pb2.FileDescriptorProto.FromString(
            planner_v1.DESCRIPTOR.serialized_pb
        )
        (service,) = file.service
        self._prefix = f"/{file.package}.{service.name}/"
        self._streamed = {m.name for m in service.method if m.server_streaming}
        self._channel = channel
        self.called = set()

    def service(self, details):
        if not details.method.startswith(self._prefix):
            return None
        name = details.method[len(self._prefix) :]
        self.called.add(name)
        if name in self._streamed:
            call = self._channel.unary_stream(details.method)

            def streamed(request, context):
                replies = call(request + ADDED)
                context.add_callback(replies.cancel)
                try:
                    for reply in replies:
                        yield reply + ADDED
                except grpc.RpcError as error:
                    context.abort(error.code(), error.details())

            return grpc.unary_stream_rpc_method_handler(streamed)
        call = self._channel.unary_unary(details.method)

        def whole(request, context):
            try:
                return call(request + ADDED, timeout=CALL_SECONDS) + ADDED
            except grpc.RpcError as error:
                context.set_trailing_metadata(error.trailing_metadata())
                context.abort(error.code(), error.details())

        return grpc.unary_unary_rpc_method_handler(whole)


@pytest.fixture
def later():
    """A planner of a later version: its address, what it was asked, its leases."""
    with Planner() as planner:
        handler = Later(planner.channel)
        server = grpc.server(futures.ThreadPoolExecutor(8))
        server.add_generic_rpc_handlers((handler,))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        yield f"127.0.0.1:{port}", handler.called, planner
        server.stop(0).wait()


def test_f27_a_worker_and_a_planner_of_other_versions_hold_a_lease(smollm2, later):
    address, called, planner = later
    flags = ("--n-ctx=256", "--slots=1", f"--planner={address}")
    with Worker(model_flag("smollm2"), *flags) as worker:
        worker.await_ready()
        (lease,) = planner.leases()
        assert lease.state == planner_v1.LEASE_STATE_CONFIRMED
        worker.models.UnloadModel(v1.UnloadModelRequest(), timeout=CALL_SECONDS)
        until(lambda: not planner.leases(), what="the release")
    assert {"RegisterDevice", "Reserve", "Confirm", "Release"} <= called


def test_f27_fields_of_a_later_client_change_nothing(worker):
    request = generate("smollm2", text=text("Once"), sampling=GREEDY, max_tokens=4)
    call = worker.channel.unary_unary("/plimsoll.v1.GenerationService/Generate")
    plain = call(request.SerializeToString(), timeout=CALL_SECONDS)
    more = call(request.SerializeToString() + ADDED, timeout=CALL_SECONDS)
    texts = [gen.GenerateResponse.FromString(reply).text for reply in (plain, more)]
    assert texts[0] == texts[1] != ""


def test_f27_an_enum_of_a_later_client_is_refused(worker):
    request = generate("smollm2", text=text("Once"), context_policy=999)
    with pytest.raises(grpc.RpcError) as caught:
        worker.generation.Generate(request, timeout=CALL_SECONDS)
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT


@pytest.fixture
def build_of(monkeypatch):
    """Has what starts from then on come from the build of "old" or "new"."""
    old = os.environ.get("PLIMSOLL_OLD_BUILD")
    if not old:
        pytest.skip("needs PLIMSOLL_OLD_BUILD, the build of an older commit")
    builds = {"old": pathlib.Path(old), "new": servers.BUILD_DIR}
    return lambda age: monkeypatch.setattr(servers, "BUILD_DIR", builds[age])


@pytest.mark.parametrize(
    ("planner_age", "worker_age", "client_age"),
    [
        ("old", "new", "new"),
        ("new", "old", "new"),
        ("new", "new", "old"),
        ("old", "old", "new"),
    ],
)
def test_f27_programs_of_two_versions_work_together(
    smollm2, build_of, planner_age, worker_age, client_age
):
    build_of(planner_age)
    with Planner() as planner:
        build_of(worker_age)
        flags = ("--n-ctx=256", "--slots=1", f"--planner={planner.address}")
        with Worker(model_flag("smollm2"), *flags) as worker:
            worker.await_ready()
            build_of(client_age)
            (lease,) = planner.leases()
            assert lease.state == planner_v1.LEASE_STATE_CONFIRMED
            asked = ("--prompt=Once", "--max-tokens=4", "--temperature=0")
            reply = at(worker, "generate", *asked)
            assert reply.returncode == 0, reply.stderr
            assert reply.stdout.strip()
            listed = at(planner, "leases")
            assert listed.returncode == 0, listed.stderr
            assert b"confirmed" in listed.stdout
            worker.terminate()
            assert worker.process.wait(servers.START_SECONDS) == 0
        assert not planner.leases()


def test_f27_a_journal_goes_back_to_an_older_planner_and_forth(tmp_path, build_of):
    journal = f"--journal={tmp_path / 'leases.db'}"

    def held(planner):
        assert planner.listed().journal == planner_v1.JOURNAL_STATE_GOOD
        return {lease.id for lease in planner.leases()}

    secret = "x" * 16
    build_of("new")
    with Planner(journal) as planner:
        register(planner)
        request = planner_v1.ReserveRequest(
            request_id="r", device_id=DEVICE, holder="h", bytes=1, secret=secret
        )
        first = planner.stub.Reserve(request).lease
    build_of("old")
    with Planner(journal, first=False) as planner:
        assert held(planner) == {first.id}
        register(planner)
        second = reserve(planner, "of the older one", 1)
        # One that knows no secrets passes over it.
        planner.stub.Renew(planner_v1.RenewRequest(**named(first), secret=secret))
    build_of("new")
    with Planner(journal, first=False) as planner:
        assert held(planner) == {first.id, second.id}
        with servers.refused(grpc.StatusCode.PERMISSION_DENIED):
            planner.stub.Release(planner_v1.ReleaseRequest(**named(first)))
        planner.stub.Release(planner_v1.ReleaseRequest(**named(second)))
        assert held(planner) == {first.id}
