"""TLS, client certificates, tokens, and the rule for addresses."""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import urllib.error
import urllib.request

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

import stubs
from command_line import parsed, plimsoll
from conftest import model_flag
from servers import CALL_SECONDS, Front, Planner, Worker, binary, refused, until

Code = grpc.StatusCode
SERVERS = {"plimsoll-planner": Planner, "plimsoll-worker": Worker}


def make_certificates(folder):
    """Has the command make certificates, or new ones of the same CA."""
    done = plimsoll("cert", "dev", str(folder))
    assert done.returncode == 0, done.stderr


@pytest.fixture
def tls(tmp_path):
    """A folder of certificates."""
    make_certificates(tmp_path / "tls")
    return tmp_path / "tls"


class Tokens:
    """A file of tokens, and the tokens themselves."""

    def __init__(self, folder):
        self.file = folder / "tokens.json"
        self.of = {}

    def add(self, name, role, *more):
        done = plimsoll(
            "token", "new", "--name", name, "--role", role, *more, *self.flag()
        )
        assert done.returncode == 0, done.stderr
        self.of[name] = done.stdout.decode().strip()

    def revoke(self, name):
        done = plimsoll("token", "revoke", name, *self.flag())
        assert done.returncode == 0, done.stderr

    def flag(self):
        return ("--tokens", str(self.file))

    def metadata(self, name):
        """What a client sends to be called `name`."""
        return (("authorization", f"Bearer {self.of[name]}"),)


@pytest.fixture
def tokens(tmp_path):
    made = Tokens(tmp_path)
    made.add("v", "viewer")
    made.add("u", "user", "--tenant", "team-a")
    made.add("w", "worker")
    made.add("a", "admin")
    return made


def server_flags(tls, *, asks=False):
    flags = (f"--tls-cert={tls / 'server.pem'}", f"--tls-key={tls / 'server-key.pem'}")
    return flags + ((f"--tls-client-ca={tls / 'ca.pem'}",) if asks else ())


def client_flags(tls, *, shows=False):
    flags = ("--tls-ca", str(tls / "ca.pem"))
    if shows:
        flags += ("--tls-client-cert", str(tls / "client.pem"))
        flags += ("--tls-client-key", str(tls / "client-key.pem"))
    return flags


@contextlib.contextmanager
def channel_to(server, tls, *, shows=False):
    """A channel by TLS."""

    def read(name):
        return (tls / name).read_bytes()

    pair = (read("client-key.pem"), read("client.pem")) if shows else (None, None)
    credentials = grpc.ssl_channel_credentials(read("ca.pem"), *pair)
    with grpc.secure_channel(server.address, credentials) as channel:
        yield channel


def alive(channel):
    """Whether the health service answers; raises what gRPC raises."""
    request = health_pb2.HealthCheckRequest(service="liveness")
    stub = health_pb2_grpc.HealthStub(channel)
    status = stub.Check(request, timeout=5).status
    return status == health_pb2.HealthCheckResponse.SERVING


@pytest.mark.parametrize("name", sorted(SERVERS))
def test_tls_is_spoken_and_plain_text_is_not(name, tls):
    with SERVERS[name](*server_flags(tls)) as server:
        with channel_to(server, tls) as channel:
            assert alive(channel)
        with refused(Code.UNAVAILABLE):
            alive(server.channel)


@pytest.mark.parametrize("name", sorted(SERVERS))
def test_a_client_without_a_certificate_is_refused(name, tls):
    with SERVERS[name](*server_flags(tls, asks=True)) as server:
        with channel_to(server, tls, shows=True) as channel:
            assert alive(channel)
        with channel_to(server, tls) as channel, refused(Code.UNAVAILABLE):
            alive(channel)


def test_a_certificate_of_another_ca_is_refused(tls, tmp_path):
    make_certificates(tmp_path / "other")
    shutil.copy(tls / "ca.pem", tmp_path / "other" / "ca.pem")
    with Planner(*server_flags(tls, asks=True)) as server:
        with channel_to(server, tmp_path / "other", shows=True) as channel:
            with refused(Code.UNAVAILABLE):
                alive(channel)


def served_certificate(server):
    """The certificate that a server shows, as text."""
    done = subprocess.run(
        ["openssl", "s_client", "-connect", server.address, "-alpn", "h2"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=30,
    )
    begin, end = b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----"
    text = done.stdout
    return text[text.find(begin) : text.find(end) + len(end)] if begin in text else b""


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl")
def test_a_new_certificate_is_served_without_a_restart(tls):
    def is_served():
        return served_certificate(server) == (tls / "server.pem").read_bytes().strip()

    with Planner(*server_flags(tls)) as server:
        until(is_served, what="the first certificate")
        with channel_to(server, tls) as channel:
            assert alive(channel)
            old = (tls / "server.pem").read_bytes()
            make_certificates(tls)
            assert (tls / "server.pem").read_bytes() != old
            until(is_served, what="the new certificate")
            assert alive(channel)  # connections from before go on
        with channel_to(server, tls) as channel:
            assert alive(channel)


def test_the_command_line_speaks_tls(tls):
    with Planner(*server_flags(tls, asks=True)) as server:
        call = ("devices", "--planner", server.address, "-o", "json")
        parsed(plimsoll(*call, *client_flags(tls, shows=True)))
        without = plimsoll(*call, *client_flags(tls))
        assert without.returncode == 1
        assert b"try: --tls-client-cert" in without.stderr
        plain = plimsoll(*call)
        assert plain.returncode == 1
        assert b"try: --tls-ca" in plain.stderr


def test_a_certificate_is_for_its_hosts(tls):
    with Planner("--listen=127.0.0.2:0", *server_flags(tls)) as server:
        call = ("devices", "--planner", server.address, *client_flags(tls))
        other = plimsoll(*call)
        assert other.returncode == 1
        assert b"a name that the server's certificate is for" in other.stderr
        done = plimsoll("cert", "dev", str(tls), "--host", "127.0.0.2")
        assert done.returncode == 0
        until(lambda: plimsoll(*call).returncode == 0, what="the new certificate")


def methods_of(channel, metadata):
    """The methods of all services, as reflection tells them."""
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)

    def ask(**fields):
        request = reflection_pb2.ServerReflectionRequest(**fields)
        return next(stub.ServerReflectionInfo(iter([request]), metadata=metadata))

    from google.protobuf import descriptor_pb2

    for service in ask(list_services="").list_services_response.service:
        found = ask(file_containing_symbol=service.name).file_descriptor_response
        for data in found.file_descriptor_proto:
            file = descriptor_pb2.FileDescriptorProto.FromString(data)
            for described in file.service:
                if f"{file.package}.{described.name}" == service.name:
                    for method in described.method:
                        yield f"/{service.name}/{method.name}"


def code_of(channel, path, metadata=()):
    """The code with which a call of any method with an empty request ends."""
    call = channel.unary_unary(path)
    try:
        call(b"", metadata=metadata, timeout=2)
    except grpc.RpcError as error:
        return error.code()
    return Code.OK


@pytest.mark.parametrize("name", sorted(SERVERS))
def test_every_method_wants_a_token_that_may_call_it(name, tokens):
    refusals = (Code.UNAUTHENTICATED, Code.PERMISSION_DENIED)
    with SERVERS[name](*tokens.flag()) as server:
        paths = sorted(set(methods_of(server.channel, tokens.metadata("v"))))
        assert len(paths) > 10
        for path in paths:
            is_open = path.startswith("/grpc.health.v1.")
            alone = code_of(server.channel, path)
            assert (alone != Code.UNAUTHENTICATED) == is_open, path
            # Drain would end the others.
            if not path.endswith("/Drain"):
                admin = code_of(server.channel, path, tokens.metadata("a"))
                assert admin not in refusals, path
        other = "/plimsoll.v1.AdminService/Restart"
        assert code_of(server.channel, other) == Code.UNAUTHENTICATED
        admin = tokens.metadata("a")
        assert code_of(server.channel, other, admin) == Code.PERMISSION_DENIED


def list_devices(server, metadata=()):
    request = stubs.planner.ListDevicesRequest()
    return server.stub.ListDevices(request, metadata=metadata, timeout=CALL_SECONDS)


def test_tokens_right_wrong_and_missing(tokens):
    with Planner(*tokens.flag()) as server:
        list_devices(server, tokens.metadata("v"))
        wrong = "sesame-open"
        with refused(Code.UNAUTHENTICATED) as failures:
            list_devices(server, (("authorization", f"Bearer {wrong}"),))
        assert wrong not in failures[0].message
        assert wrong not in server.log()
        with refused(Code.UNAUTHENTICATED):
            list_devices(server)
        assert server.serving("liveness")


def test_a_role_that_is_too_low(tokens):
    request = stubs.planner.ReserveRequest()
    with Planner(*tokens.flag()) as server:
        for name in ("v", "u"):
            with refused(Code.PERMISSION_DENIED) as failures:
                server.stub.Reserve(request, metadata=tokens.metadata(name))
            assert "worker" in failures[0].message
            assert tokens.of[name] not in failures[0].message
        with refused(Code.INVALID_ARGUMENT):
            server.stub.Reserve(request, metadata=tokens.metadata("w"))


def test_tokens_come_go_and_expire_while_it_runs(tokens):
    def is_refused(name):
        try:
            list_devices(server, tokens.metadata(name))
        except grpc.RpcError as error:
            assert error.code() == Code.UNAUTHENTICATED
            return True
        return False

    with Planner(*tokens.flag()) as server:
        assert not is_refused("v")
        tokens.add("late", "viewer")
        until(lambda: not is_refused("late"), what="the new token")
        tokens.revoke("v")
        until(lambda: is_refused("v"), what="the end of the token")
        assert not is_refused("late")
        listed = json.loads(tokens.file.read_text())
        for entry in listed["tokens"]:
            if entry["name"] == "late":
                entry["expires"] = "2020-01-01T00:00:00Z"
        tokens.file.write_text(json.dumps(listed))
        until(lambda: is_refused("late"), what="the end of its time")
        tokens.file.write_text("half of a fi")

        def is_logged():
            assert not is_refused("u")  # the file is looked at during calls
            return "file of tokens is bad" in server.log()

        until(is_logged, what="a line")


def test_the_command_line_sends_its_token(tokens, tmp_path, monkeypatch):
    monkeypatch.delenv("PLIMSOLL_TOKEN", raising=False)
    file = tmp_path / "token"
    file.write_text(tokens.of["v"] + "\n")
    with Planner(*tokens.flag()) as server:
        call = ("devices", "--planner", server.address, "-o", "json")
        parsed(plimsoll(*call, "--token-file", str(file)))
        without = plimsoll(*call)
        assert without.returncode == 1
        assert b"token" in without.stderr
        monkeypatch.setenv("PLIMSOLL_TOKEN", tokens.of["v"])
        parsed(plimsoll(*call))


def test_a_token_is_not_sent_in_plain_text_beyond_loopback(monkeypatch):
    monkeypatch.setenv("PLIMSOLL_TOKEN", "sesame")
    done = plimsoll("devices", "--planner", "192.0.2.1:7070")
    assert done.returncode == 2
    assert b"--tls-ca" in done.stderr
    assert b"sesame" not in done.stderr


def test_a_worker_shows_its_planner_who_it_is(tokens, tls, tmp_path, smollm2):
    file = tmp_path / "token"
    file.write_text(tokens.of["w"])
    with Planner(*server_flags(tls, asks=True), *tokens.flag()) as planner:
        flags = (f"--planner={planner.address}", "--n-ctx=128", model_flag("smollm2"))
        shown = (*client_flags(tls, shows=True), "--token-file", str(file))
        with Worker(*flags, *shown) as worker:
            worker.await_ready()
        with Worker(*flags, *client_flags(tls, shows=True)) as worker:
            until(lambda: "token" in worker.log(), what="the planner's answer")
            assert not worker.serving()


def test_a_tenant_is_the_tokens(tokens, smollm2):
    tokens.add("other", "user", "--tenant", "team-b")
    flags = ("--n-ctx=512", "--slots=2", model_flag("smollm2"))
    with Worker(*flags, *tokens.flag()) as worker:
        worker.await_ready()
        session = stubs.session
        request = session.OpenSessionRequest(model="smollm2")
        worker.sessions.OpenSession(request, metadata=tokens.metadata("u"))

        def listed(name, tenant):
            metadata = (*tokens.metadata(name), ("x-tenant", tenant))
            wanted = session.ListSessionsRequest(model="smollm2")
            reply = worker.sessions.ListSessions(wanted, metadata=metadata)
            return len(reply.sessions)

        assert listed("u", "team-b") == 1
        assert listed("other", "team-a") == 0
        assert listed("a", "team-a") == 1


@pytest.mark.parametrize("name", sorted(SERVERS))
def test_beyond_loopback_it_is_safe_or_refuses(name, tls, tokens):
    def code(*flags):
        command = [binary(name), "--listen=0.0.0.0:0", *flags]
        done = subprocess.run(command, capture_output=True, timeout=30)
        assert b"--tls-cert" in done.stderr and b"--insecure" in done.stderr
        return done.returncode

    assert code() == 2
    assert code(*tokens.flag()) == 2
    assert code(*server_flags(tls)) == 2
    for flags in (
        (*server_flags(tls), *tokens.flag()),
        server_flags(tls, asks=True),
        ("--insecure",),
    ):
        with SERVERS[name]("--listen=0.0.0.0:0", *flags):
            pass


@pytest.mark.parametrize("name", sorted(SERVERS))
def test_bad_files_are_usage_errors(name, tls, tmp_path):
    cert, key = server_flags(tls)
    (tmp_path / "bad").write_text("nonsense")
    for flags in (
        (cert,),
        (cert, f"--tls-key={tls / 'client-key.pem'}"),
        (f"--tls-client-ca={tls / 'ca.pem'}",),
        (f"--tokens={tmp_path / 'bad'}",),
        (f"--tokens={tmp_path / 'absent'}",),
    ):
        done = subprocess.run(
            [binary(name), *flags], capture_output=True, timeout=30
        )
        assert done.returncode == 2, (flags, done.stderr)
        assert done.stderr


def fetch(url, headers=None, body=None):
    """The status of a request by HTTP, and the reply's headers."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=CALL_SECONDS) as reply:
            return reply.status, reply.headers
    except urllib.error.HTTPError as error:
        return error.code, error.headers


def test_the_http_door_wants_tokens_too(tokens, smollm2):
    body = {"prompt": "a", "max_tokens": 1}
    with Front(str(smollm2), "--n-ctx=128", "--slots=1", *tokens.flag()) as front:
        assert fetch(f"{front.url}/health")[0] == 200
        assert fetch(f"{front.url}/")[0] == 200
        assert fetch(f"{front.url}/openapi.json")[0] == 200
        models = f"{front.url}/v1/models"
        status, headers = fetch(models)
        assert status == 401
        assert headers["WWW-Authenticate"] == "Bearer"
        viewer = {"Authorization": f"Bearer {tokens.of['v']}"}
        assert fetch(models, {"Authorization": "Bearer wrong"})[0] == 401
        assert fetch(models, viewer)[0] == 200
        text = f"{front.url}/v1/completions"
        assert fetch(text, viewer, body)[0] == 403
        assert fetch(text, {}, body)[0] == 401
        assert fetch(text, {"x-api-key": tokens.of["u"]}, body)[0] == 200


def test_files_of_keys_are_private(tls):
    for key in pathlib.Path(tls).glob("*-key.pem"):
        assert os.stat(key).st_mode & 0o777 == 0o600
