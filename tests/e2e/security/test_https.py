"""TLS at the HTTP door of plimsoll serve."""

import http.client
import json
import socket
import ssl
import subprocess
import urllib.error
import urllib.request

import openai
import pytest

from security.test_security import make_certificates, server_flags, tls, tokens  # noqa: F401
from servers import CALL_SECONDS, START_SECONDS, Front, binary, until

ASK = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}


class SecureFront(Front):
    """plimsoll serve with a certificate."""

    def __init__(self, *flags):
        super().__init__(*flags)
        self.url = f"https://{self.address}"


def trusting(folder, *, shows=False):
    """A client's context that trusts the CA of the folder."""
    context = ssl.create_default_context(cafile=folder / "ca.pem")
    if shows:
        context.load_cert_chain(folder / "client.pem", folder / "client-key.pem")
    return context


def ask(front, context, token=None):
    """A chat completion's reply."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(
        front.url + "/v1/chat/completions", json.dumps(ASK).encode(), headers
    )
    with urllib.request.urlopen(request, timeout=CALL_SECONDS, context=context) as got:
        return json.load(got)


def healthy(front, context):
    """Whether /health answers."""
    url = front.url + "/health"
    with urllib.request.urlopen(url, timeout=CALL_SECONDS, context=context) as got:
        return got.status == 200


@pytest.fixture
def front(smollm2, tls):  # noqa: F811
    with SecureFront(str(smollm2), *server_flags(tls), "--n-ctx=512") as server:
        yield server


def test_the_client_of_openai_streams_over_tls(front, tls, smollm2):  # noqa: F811
    client = openai.OpenAI(
        base_url=front.url + "/v1",
        api_key="none",
        http_client=openai.DefaultHttpxClient(verify=trusting(tls)),
    )
    model = smollm2.stem
    whole = client.chat.completions.create(model=model, temperature=0, **ASK)
    parts = client.chat.completions.create(
        model=model, temperature=0, stream=True, **ASK
    )
    text = "".join(part.choices[0].delta.content or "" for part in parts)
    assert text == whole.choices[0].message.content != ""


def test_who_trusts_another_ca_goes(front, tmp_path):
    make_certificates(tmp_path / "other")
    with pytest.raises(urllib.error.URLError, match="certificate verify failed"):
        healthy(front, trusting(tmp_path / "other"))


def test_plain_http_is_told_what_to_do(front, tls):  # noqa: F811
    connection = http.client.HTTPConnection(front.address, timeout=CALL_SECONDS)
    connection.request("GET", "/health")
    reply = connection.getresponse()
    assert reply.status == 400 and b"https://" in reply.read()
    assert healthy(front, trusting(tls))


def test_silent_and_senseless_clients_harm_nobody(front, tls):  # noqa: F811
    host, port = front.address.split(":")
    clients = [socket.create_connection((host, int(port))) for _ in range(50)]
    for client in clients[::2]:
        client.sendall(b"\x16\x03\x01" + b"\xff" * 200)
    assert healthy(front, trusting(tls))
    for client in clients:
        client.close()


def test_new_connections_get_the_new_certificate(front, tls):  # noqa: F811
    def certificate():
        host, port = front.address.split(":")
        with socket.create_connection((host, int(port))) as raw:
            with trusting(tls).wrap_socket(raw, server_hostname=host) as secure:
                return secure.getpeercert()["serialNumber"]

    before = certificate()
    make_certificates(tls)
    until(lambda: certificate() != before, what="the new certificate")
    assert healthy(front, trusting(tls))


def test_only_clients_with_a_certificate_are_taken(smollm2, tls):  # noqa: F811
    flags = (*server_flags(tls, asks=True), "--n-ctx=512")
    with SecureFront(str(smollm2), *flags) as front:
        assert ask(front, trusting(tls, shows=True))["choices"]
        with pytest.raises((urllib.error.URLError, ssl.SSLError, ConnectionError)):
            ask(front, trusting(tls))


def test_tokens_hold_within_tls(smollm2, tls, tokens):  # noqa: F811
    flags = (*server_flags(tls), *tokens.flag(), "--n-ctx=512")
    with SecureFront(str(smollm2), *flags, "--listen=0.0.0.0:0") as front:
        front.url = f"https://127.0.0.1:{front.address.rsplit(':', 1)[1]}"
        assert ask(front, trusting(tls), tokens.of["u"])["choices"]
        with pytest.raises(urllib.error.HTTPError) as caught:
            ask(front, trusting(tls))
        assert caught.value.code == 401


@pytest.mark.parametrize("has", ["nothing", "tls", "tokens"])
def test_other_machines_need_tls_and_an_identity(
    has, smollm2, tls, tokens  # noqa: F811
):
    flags = {"nothing": (), "tls": server_flags(tls), "tokens": tokens.flag()}[has]
    done = subprocess.run(
        [binary("plimsoll"), "serve", str(smollm2), "--listen=0.0.0.0:0", *flags],
        capture_output=True,
        timeout=START_SECONDS,
    )
    assert done.returncode == 2
    assert b"--insecure" in done.stderr
