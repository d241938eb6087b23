"""Clients that stream over HTTP from the gateways of a rehearsal."""

import contextlib
import http.client
import json
import threading
import time

CALL_SECONDS = 120
LAG_SECONDS = 2  # a client's list of addresses may be as old as this
N_CLIENTS = 2
REQUEST = {
    "prompt": "Once upon a time",
    "max_tokens": 24,
    "temperature": 0,
    "ignore_eos": True,
    "stream": True,
}


class HttpClients:
    """Threads that stream from ready gateways, one stream after the other.

    `gateways` returns the pods that a Service lists. Every stream must have the text
    of the first one.
    """

    def __init__(self, gateways):
        self.gateways = gateways
        self.expected = None
        self.n_whole = 0
        self.n_broken = 0  # while they may break
        self.failures = []
        self.may_break = False  # a worker is killed
        self.is_ending = threading.Event()
        self.lock = threading.Lock()
        self.threads = [
            threading.Thread(target=self._stream_for_ever, args=(i,))
            for i in range(N_CLIENTS)
        ]

    def _text_of(self, gateway):
        """The text of a stream; raises ValueError if it is not whole."""
        connection = http.client.HTTPConnection(
            str(gateway.address), gateway.port, timeout=CALL_SECONDS
        )
        headers = {"Host": "plimsoll-gateway", "Content-Type": "application/json"}
        text = ""
        with contextlib.closing(connection):
            connection.request("POST", "/v1/completions", json.dumps(REQUEST), headers)
            reply = connection.getresponse()
            if reply.status != 200:
                raise ValueError(f"{reply.status} {reply.read().decode()}")
            for line in reply:
                data = line.removeprefix(b"data: ").strip()
                if data == b"[DONE]":
                    return text
                if not line.startswith(b"data: "):
                    continue
                part = json.loads(data)
                if "error" in part:
                    raise ValueError(str(part["error"]))
                text += part["choices"][0]["text"]
        raise ValueError(f"no end after {text!r}")

    def _stream(self, gateway):
        try:
            text = self._text_of(gateway)
        except (OSError, ValueError, http.client.HTTPException) as error:
            with self.lock:
                if self.may_break:
                    self.n_broken += 1
                else:
                    self.failures.append(f"{gateway.name}: {error!r}")
            return
        with self.lock:
            self.expected = self.expected or text
            if text == self.expected:
                self.n_whole += 1
            else:
                self.failures.append(f"{gateway.name}: another text: {text!r}")

    def _stream_for_ever(self, number):
        known, known_since, turn = [], 0, number
        while not self.is_ending.is_set():
            if time.monotonic() - known_since > LAG_SECONDS:
                known, known_since = self.gateways(), time.monotonic()
            if known:
                turn += 1
                self._stream(known[turn % len(known)])
            self.is_ending.wait(0.1)

    def start(self):
        for thread in self.threads:
            thread.start()

    def check(self, what):
        """Fails if a stream was lost or refused so far."""
        with self.lock:
            assert not self.failures, f"{what}: over HTTP: {self.failures}"

    def stop(self):
        self.is_ending.set()
        for thread in self.threads:
            if thread.ident is not None:
                thread.join()
