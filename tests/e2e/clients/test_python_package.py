"""The Python client's package: its types, its page, and that it lacks nothing."""

import inspect
import json
import pkgutil
import re
import subprocess
import sys
from concurrent import futures
from importlib import import_module

import grpc
import pytest
from google.protobuf import descriptor_pool

import installed  # this comes before what it installs
from conftest import model_flag
from servers import Planner, Worker
from test_leases import register

import plimsoll_grpc
from plimsoll_grpc import aio, requests, v1
from plimsoll_grpc.aio.client import SERVICE_CONFIG
from plimsoll_grpc.errors import REASONS

NEVER_REPEATED = {
    "plimsoll.v1.SessionService/OpenSession",
    "plimsoll.v1.SessionService/Chat",
    "plimsoll.v1.SessionService/CloseSession",
    "plimsoll.v1.AdminService/Abort",
}
README = installed.CLIENTS_DIR / "python" / "README.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.M | re.S)


def methods():
    """SERVICE/METHOD of every call of the protos."""
    pool = descriptor_pool.Default()
    for module in pkgutil.iter_modules(v1.__path__):
        file = pool.FindFileByName(f"plimsoll/v1/{module.name[:-4]}.proto")
        for service in file.services_by_name.values():
            for method in service.methods:
                yield f"{service.full_name}/{method.name}"


def test_types_are_strict(tmp_path):
    for i, example in enumerate(EXAMPLES):
        (tmp_path / f"example{i}.py").write_text(example)
    subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache"]
        + [installed.PACKAGES / "plimsoll_grpc", *tmp_path.glob("*.py")],
        env={"MYPYPATH": str(installed.PACKAGES)},
        cwd=tmp_path,
        check=True,
    )


@pytest.fixture(scope="module")
def roomy_planner():
    """A planner with a device."""
    with Planner() as server:
        register(server)
        yield server


@pytest.fixture(scope="module")
def sole_worker(smollm2):
    """A worker with one model, so that no call has to name it."""
    with Worker(model_flag("smollm2"), "--n-ctx=512", "--slots=2") as server:
        yield server.await_ready()


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_the_pages_examples_run(example, sole_worker, roomy_planner):
    example = example.replace("127.0.0.1:7071", sole_worker.address)
    example = example.replace("127.0.0.1:7070", roomy_planner.address)
    exec(compile(example, str(README), "exec"), {"__name__": "an example"})


def test_every_call_has_a_method():
    source = inspect.getsource(import_module("plimsoll_grpc.aio.worker"))
    source += inspect.getsource(import_module("plimsoll_grpc.aio.planner")).replace(
        "{_SERVICE}", "plimsoll.v1.PlannerService"
    )
    assert [name for name in methods() if f'"{name}"' not in source] == []


def test_every_reason_has_an_error_and_advice():
    names = {name.removeprefix("ERROR_REASON_") for name in v1.ErrorReason.keys()}
    assert set(REASONS) == names - {"UNSPECIFIED"}
    for kind, _ in REASONS.values():
        assert getattr(plimsoll_grpc, kind.__name__) is kind


def test_every_option_of_a_reply_is_typed():
    assert set(requests.ReplyOptions.__annotations__) == set(requests.FIELD_OF)
    shared = {"sampling", "stopping", "response", "constraint", "text", "tokens", "chat"}
    more = set(v1.GenerateRequest.DESCRIPTOR.fields_by_name) - shared
    typed = set(requests.GenerateOptions.__annotations__)
    assert typed - set(requests.FIELD_OF) == more
    said = {"model", "session_id", "message", "tool_responses"}
    more = set(v1.ChatRequest.DESCRIPTOR.fields_by_name) - shared - said
    typed = set(requests.SessionReplyOptions.__annotations__)
    assert typed - set(requests.FIELD_OF) == more


def test_both_clients_have_the_same_methods():
    for name in aio.__all__:
        both = (getattr(aio, name), getattr(plimsoll_grpc, name))
        public = [
            {key for key in vars(kind) if not key.startswith("_")} for kind in both
        ]
        assert public[0] == public[1] and public[0]


def test_what_may_be_repeated_is_said_of_every_call():
    repeated = set()
    for entry in json.loads(SERVICE_CONFIG)["methodConfig"]:
        assert entry["retryPolicy"]["retryableStatusCodes"] == ["UNAVAILABLE"]
        repeated |= {f"{n['service']}/{n.get('method', '')}" for n in entry["name"]}
    known = set(methods())
    kept = {
        name
        for name in known
        if {name, f"{name.split('/')[0]}/"}.isdisjoint(repeated)
    }
    assert kept == NEVER_REPEATED <= known
    services = {f"{name.split('/')[0]}/" for name in known}
    assert repeated <= known | services


class Refusing(grpc.GenericRpcHandler):
    """A server that refuses every call and counts them."""

    def __init__(self):
        self.calls = []

    def service(self, details):
        self.calls.append(details.method)

        def refuse(request, context):
            context.abort(grpc.StatusCode.UNAVAILABLE, "not now")

        return grpc.unary_unary_rpc_method_handler(refuse)


def test_a_refused_call_is_repeated_only_if_it_may_be():
    handler = Refusing()
    with futures.ThreadPoolExecutor() as pool:
        server = grpc.server(pool, handlers=[handler])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        with plimsoll_grpc.Worker(f"127.0.0.1:{port}") as client:
            for call in (client.list_models, lambda: client.abort(["an id"])):
                with pytest.raises(plimsoll_grpc.UnavailableError):
                    call()
        server.stop(None).wait()
    assert handler.calls.count("/plimsoll.v1.ModelService/ListModels") == 5
    assert handler.calls.count("/plimsoll.v1.AdminService/Abort") == 1


def test_a_channel_may_have_credentials():
    with futures.ThreadPoolExecutor() as pool:
        server = grpc.server(pool, handlers=[Refusing()])
        credentials = grpc.local_server_credentials()
        port = server.add_secure_port("127.0.0.1:0", credentials)
        server.start()
        with plimsoll_grpc.Worker(
            f"127.0.0.1:{port}", credentials=grpc.local_channel_credentials()
        ) as client:
            with pytest.raises(plimsoll_grpc.UnavailableError, match="not now"):
                client.abort(["an id"])
        server.stop(None).wait()
