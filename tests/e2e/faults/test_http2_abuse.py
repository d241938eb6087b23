"""Frames of HTTP/2 that no honest client sends: the server lives, and stays small.

Each test sends raw frames to a planner, whose server is that of a worker too. Then an
ordinary client is served, and what the frames cost is within a bound. Sources: CVE-2023-1428
(a long value behind some names), CVE-2023-33953 (references to one entry of the
table of headers), CVE-2023-44487 (streams that are reset at once).
"""

import contextlib
import functools
import pathlib
import socket
import ssl
import struct
import threading

import pytest

from mute_client import (
    ACK,
    END_HEADERS,
    GOAWAY,
    HEADERS,
    MAX_FRAME,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    frame,
    header,
    integer,
)
from faults.http2_bounds import (
    MAX_CPU_SECONDS,
    MAX_FLOOD_GROWTH_BYTES,
    MAX_GROWTH_BYTES,
    MIB,
)
from security.test_security import alive, channel_to, server_flags, tls  # noqa: F401
from servers import Planner, processor_seconds, without_sanitizer

CONTINUATION = 9
CANCEL = struct.pack(">I", 8)
MAX_FLOOD_BYTES = 4096 * MIB
MAX_STREAMS = 128  # kMaxStreamsPerConnection
# The first one, and GRPC_ARG_HTTP2_MAX_PING_STRIKES too early ones
# (kMinPingInterval).
MAX_PINGS = 3
N_RESETS = 10_000
FIRST_ENTRY = 62  # the newest entry of the dynamic table
NAMES = {
    ":method": "POST",
    ":scheme": "http",
    ":path": "/grpc.health.v1.Health/Watch",
    ":authority": "localhost",
    "te": "trailers",
    "content-type": "application/grpc",
}


def sends(connection, data):
    """Sends all of it; returns whether the server took it."""
    try:
        connection.sendall(data)
    except OSError:
        return False  # the server has closed the connection, as it may
    return True


class Frames:
    """A connection that sends frames and keeps what it reads."""

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=20)
        self._data = b""
        self._is_closed = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.send(PREFACE + frame(SETTINGS, 0, 0))

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._reader.join()
        self._socket.close()

    def send(self, data):
        return sends(self._socket, data)

    def _read(self):
        with contextlib.suppress(OSError):
            while data := self._socket.recv(1 << 16):
                self._data += data
        self._is_closed.set()

    def frames(self):
        """The whole frames so far: kind, stream and payload."""
        data, begin, found = self._data, 0, []
        while begin + 9 <= len(data):
            end = begin + 9 + int.from_bytes(data[begin : begin + 3], "big")
            if end > len(data):
                break
            stream = int.from_bytes(data[begin + 5 : begin + 9], "big") & 0x7FFFFFFF
            found.append((data[begin + 3], stream, data[begin + 9 : end]))
            begin = end
        return found

    def acknowledge(self):
        """Takes the server's settings, so that they count."""
        self.ping()
        self.send(frame(SETTINGS, ACK, 0))
        self.ping()

    def sees(self, kind, n=1):
        """Whether the server sends `n` frames of a kind before it closes."""
        for _ in range(3000):  # a minute
            if sum(found == kind for found, _, _ in self.frames()) >= n:
                return True
            if self._is_closed.wait(0.02):
                return False
        raise AssertionError(f"the server neither sends {n} of {kind} nor closes")

    def is_closed(self):
        """Whether the server closes the connection within some seconds."""
        return self._is_closed.wait(20)

    def ping(self):
        """Waits until the server has read all before it; or has closed."""
        before = sum(kind == PING for kind, _, _ in self.frames())
        if self.send(frame(PING, 0, 0, b"12345678")):
            self.sees(PING, before + 1)


def block(**changes):
    """The headers of a call; `changes` has other values by name."""
    values = {**NAMES, **changes}
    return b"".join(header(name, value) for name, value in values.items())


def headers(stream, data):
    """A block of headers as one HEADERS frame and what continues it."""
    parts = [data[i : i + MAX_FRAME] for i in range(0, len(data), MAX_FRAME)]
    out = b""
    for i, part in enumerate(parts):
        flags = END_HEADERS if i == len(parts) - 1 else 0
        out += frame(CONTINUATION if i else HEADERS, flags, stream, part)
    return out


class Cost:
    """The memory and the processor time of a server since its making."""

    def __init__(self, server):
        self._pid = server.process.pid
        self._begin = self._now()

    def _now(self):
        status = pathlib.Path(f"/proc/{self._pid}/status").read_text(encoding="ascii")
        peak = next(x for x in status.splitlines() if x.startswith("VmHWM:"))
        return int(peak.split()[1]) * 1024, processor_seconds(self._pid)

    def check(self, most_bytes=MAX_GROWTH_BYTES):
        """Fails if it is more than the bounds."""
        n_bytes, seconds = (b - a for a, b in zip(self._begin, self._now()))
        assert n_bytes <= most_bytes, f"{n_bytes / MIB:.0f} MiB more"
        assert seconds <= MAX_CPU_SECONDS, f"{seconds:.1f} s of processor time"


@pytest.fixture
def server():
    """A planner that must be alive and cheap at the end of the test."""
    with Planner() as started:
        assert started.serving()
        cost = Cost(started)
        yield started
        assert started.process.poll() is None, started.log()
        assert started.serving()
        cost.check()


@pytest.mark.parametrize(
    "name", ["te", ":scheme", ":method", "grpclb_client_stats", "lb-cost-bin", "x"]
)
def test_nine_kilobytes_behind_a_name(server, name):
    with Frames(server.address) as client:
        client.send(headers(1, block(**{name: "x" * 9216})))
        client.send(headers(3, block() + header(name, "y" * 9216)))
        client.ping()


@without_sanitizer
def test_one_entry_of_the_table_ten_thousand_times(server):
    entry = b"\x40" + integer(1) + b"x" + integer(3900) + b"y" * 3900
    with Frames(server.address) as client:
        client.send(headers(1, block() + entry))
        reference = bytes([0x80 | FIRST_ENTRY])
        for stream in range(3, 3 + 2 * 16, 2):
            client.send(headers(stream, block() + reference * 10_000))
        client.ping()


def flood(send):
    """Sends headers that never end; returns how many bytes of them were taken.

    The client does not acknowledge the server's settings, so gRPC 1.51 bounds nothing.
    """
    part = header("x", "y" * 1000) * 16
    send(frame(HEADERS, 0, 1, block()))
    n_sent = 0
    while n_sent < MAX_FLOOD_BYTES and send(frame(CONTINUATION, 0, 1, part)):
        n_sent += len(part)
    return n_sent


@without_sanitizer
def test_headers_that_never_end():
    with Planner() as server:
        assert server.serving()
        cost = Cost(server)
        with Frames(server.address) as client:
            assert flood(client.send) < MAX_FLOOD_BYTES
        assert server.process.poll() is None, server.log()
        assert server.serving()
        cost.check(MAX_FLOOD_GROWTH_BYTES)


@without_sanitizer
def test_headers_that_never_end_over_tls(tls):  # noqa: F811
    context = ssl.create_default_context(cafile=tls / "ca.pem")
    context.set_alpn_protocols(["h2"])
    with Planner(*server_flags(tls)) as server, channel_to(server, tls) as channel:
        assert alive(channel)
        cost = Cost(server)
        host, port = server.address.rsplit(":", 1)
        with (
            socket.create_connection((host, int(port)), timeout=20) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as client,
        ):
            assert sends(client, PREFACE + frame(SETTINGS, 0, 0))
            assert flood(functools.partial(sends, client)) < MAX_FLOOD_BYTES
        assert server.process.poll() is None, server.log()
        assert alive(channel)
        cost.check(MAX_FLOOD_GROWTH_BYTES)


@without_sanitizer
def test_ten_thousand_streams_that_are_reset_at_once(server):
    with Frames(server.address) as client:
        for i in range(N_RESETS):
            stream = 2 * i + 1
            data = headers(stream, block()) + frame(RST_STREAM, 0, stream, CANCEL)
            if not client.send(data):
                break
        client.ping()


def test_as_many_streams_as_a_connection_may_have_and_one_more(server):
    with Frames(server.address) as client:
        client.acknowledge()
        for i in range(MAX_STREAMS):
            client.send(headers(2 * i + 1, block()))
        client.ping()
        assert not any(kind in (RST_STREAM, GOAWAY) for kind, _, _ in client.frames())
        client.send(headers(2 * MAX_STREAMS + 1, block()))
        assert client.is_closed()


def test_streams_of_a_client_that_takes_no_settings(server):
    with Frames(server.address) as client:
        for i in range(10 * MAX_STREAMS):
            client.send(headers(2 * i + 1, block()))
        client.ping()


def test_as_many_early_pings_as_a_client_may_send_and_one_more(server):
    ping = frame(PING, 0, 0, b"12345678")
    # A machine that pauses between two pings would make the second one timely, so
    # they come at once.
    with Frames(server.address) as client:
        assert client.sees(SETTINGS)
        client.send(MAX_PINGS * ping)
        assert client.sees(PING, MAX_PINGS)
        assert not any(kind == GOAWAY for kind, _, _ in client.frames())
    with Frames(server.address) as client:
        assert client.sees(SETTINGS)
        client.send((MAX_PINGS + 1) * ping)
        assert client.is_closed()
        reasons = [data for kind, _, data in client.frames() if kind == GOAWAY]
        assert reasons and reasons[-1].endswith(b"too_many_pings"), client.frames()
