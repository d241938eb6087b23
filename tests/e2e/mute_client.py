"""A client of gRPC, by frames of HTTP/2 alone, that takes no byte of a reply.

It opens no window for data, and answers what keeps the connection alive.
"""

import socket
import struct
import threading

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM = ACK = 1
END_HEADERS = 4
INITIAL_WINDOW_SIZE = 4  # a setting
FIRST_WINDOW = 65_535
MAX_FRAME = 16_384
PATIENCE_SECONDS = 60
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind, flags, stream, payload=b""):
    """One frame."""
    length = struct.pack(">I", len(payload))[1:]
    return length + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def integer(value, bits=7):
    """An integer of HPACK with a prefix of so many bits."""
    most = (1 << bits) - 1
    if value < most:
        return bytes([value])
    out = [most]
    value -= most
    while value >= 128:
        out.append(value % 128 + 128)
        value //= 128
    return bytes([*out, value])


def header(name, value):
    """A literal header that nobody is to remember."""
    name, value = name.encode(), value.encode()
    return b"\0" + integer(len(name)) + name + integer(len(value)) + value


class MuteClient:
    """One connection; a context manager. `ended` has the streams that did."""

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)))
        self._lock = threading.Lock()  # one frame at a time
        self._changed = threading.Condition()
        self._window = FIRST_WINDOW  # the connection's window
        self._windows = {}  # each stream's window
        self._first_window = FIRST_WINDOW
        self._next = 1
        self._is_open = True
        self.ended = set()
        settings = struct.pack(">HI", INITIAL_WINDOW_SIZE, 0)
        self._socket.sendall(PREFACE + frame(SETTINGS, 0, 0, settings))
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._reader.join()
        self._socket.close()

    def call(self, path, message):
        """Sends a request and returns its stream; nothing is read of it."""
        stream = self._next
        self._next += 2
        names = {
            ":method": "POST",
            ":scheme": "http",
            ":path": path,
            ":authority": "localhost",
            "te": "trailers",
            "content-type": "application/grpc",
        }
        block = b"".join(header(name, value) for name, value in names.items())
        with self._changed:
            self._windows[stream] = self._first_window
        self._send(frame(HEADERS, END_HEADERS, stream, block))
        body = message.SerializeToString()
        self._send_body(stream, b"\0" + struct.pack(">I", len(body)) + body)
        return stream

    def _send(self, data):
        with self._lock:
            self._socket.sendall(data)

    def _send_body(self, stream, body):
        while body:
            with self._changed:
                self._changed.wait_for(
                    lambda: not self._is_open or self._room(stream) > 0,
                    PATIENCE_SECONDS,
                )
                n_bytes = min(self._room(stream), MAX_FRAME, len(body))
                if n_bytes <= 0 or not self._is_open or stream in self.ended:
                    return  # refused before it was read
                self._window -= n_bytes
                self._windows[stream] -= n_bytes
            part, body = body[:n_bytes], body[n_bytes:]
            self._send(frame(DATA, 0 if body else END_STREAM, stream, part))

    def _room(self, stream):
        return min(self._window, self._windows[stream])

    def _receive(self, n_bytes):
        data = b""
        while len(data) < n_bytes:
            part = self._socket.recv(n_bytes - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def _read(self):
        try:
            while True:
                head = self._receive(9)
                length = int.from_bytes(head[:3], "big")
                stream = int.from_bytes(head[5:], "big") & 0x7FFFFFFF
                payload = self._receive(length)
                with self._changed:
                    self._take(head[3], head[4], stream, payload)
                    self._changed.notify_all()
        except (EOFError, OSError):
            with self._changed:
                self._is_open = False
                self._changed.notify_all()

    def _take(self, kind, flags, stream, payload):
        if kind == SETTINGS and not flags & ACK:
            for key, value in struct.iter_unpack(">HI", payload):
                if key == INITIAL_WINDOW_SIZE:
                    for one in self._windows:
                        self._windows[one] += value - self._first_window
                    self._first_window = value
            self._send(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            self._send(frame(PING, ACK, 0, payload))
        elif kind == WINDOW_UPDATE:
            more = int.from_bytes(payload, "big") & 0x7FFFFFFF
            if stream == 0:
                self._window += more
            else:
                self._windows[stream] = self._windows.get(stream, 0) + more
        elif kind == RST_STREAM or kind in (DATA, HEADERS) and flags & END_STREAM:
            self.ended.add(stream)
