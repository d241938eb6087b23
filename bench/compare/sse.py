"""Many streams of server-sent events, read at once by one thread.

While they run it only takes bytes and notes the time, so that it costs the
servers little of the processor. What the bytes say is found out afterwards.
"""
import bisect
import re
import selectors
import socket
import time

EVENT = re.compile(rb"\ndata: (?=\{)")  # no newline stands in JSON
END = b"data: [DONE]\n"
SILENCE_SECONDS = 300
CHUNK_BYTES = 1 << 16


class Reply:
    """The bytes of a reply and the times at which they came."""

    def __init__(self):
        self.data = bytearray()
        self.times, self.sizes = [], []  # sizes: of the data, then

    def add(self, data, now):
        self.data += data
        self.times.append(now)
        self.sizes.append(len(self.data))

    def is_whole(self):
        return self.data.find(END, max(0, len(self.data) - 64)) >= 0

    def event_times(self):
        """When each event with JSON began to be there."""
        return [self.times[bisect.bisect_left(self.sizes, event.end())]
                for event in EVENT.finditer(self.data)]

    def count(self, name):
        """A number of the reply's usage."""
        found = re.findall(rb'"%s":\s*(\d+)' % name.encode(), self.data)
        return int(found[-1]) if found else 0


def request(address, path, body):
    return (f"POST {path} HTTP/1.1\r\nHost: {address}\r\n"
            "Content-Type: application/json\r\nConnection: close\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode() + body


def take(connection, reply):
    """Adds what came; returns whether the reply goes on."""
    data = connection.recv(CHUNK_BYTES)
    reply.add(data, time.monotonic())
    if reply.is_whole():
        return False
    if not data or not reply.data.startswith(b"HTTP/1.1 200 "[:len(reply.data)]):
        raise SystemExit(f"no stream: {bytes(reply.data[:2000])}")
    return True


def ask(address, path, bodies):
    """When all bodies were sent at once, and the replies to them."""
    host, port = address.rsplit(":", 1)
    selector = selectors.DefaultSelector()
    connections = [socket.create_connection((host, int(port))) for _ in bodies]
    replies = [Reply() for _ in bodies]
    try:
        begin = time.monotonic()
        for connection, reply, body in zip(connections, replies, bodies):
            connection.sendall(request(address, path, body))
            selector.register(connection, selectors.EVENT_READ, reply)
        while selector.get_map():
            ready = selector.select(SILENCE_SECONDS)
            if not ready:
                raise SystemExit(f"{address} is silent")
            for key, _ in ready:
                if not take(key.fileobj, key.data):
                    selector.unregister(key.fileobj)
        return begin, replies
    finally:
        selector.close()
        for connection in connections:
            connection.close()
