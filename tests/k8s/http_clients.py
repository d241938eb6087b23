"""Clients that stream over HTTP from the gateways of a rehearsal."""

import contextlib
import http.client
import json

from stream_threads import CALL_SECONDS, PROMPT, SHORT_TOKENS, StreamThreads

N_CLIENTS = 2
REQUEST = {
    "prompt": PROMPT,
    "max_tokens": SHORT_TOKENS,
    "temperature": 0,
    "ignore_eos": True,
    "stream": True,
}


class HttpClients(StreamThreads):
    """Every stream must have the text of the first one."""

    def __init__(self, gateways):
        super().__init__(gateways, N_CLIENTS)
        self.expected = None
        self.n_broken = 0  # while they may break
        self.failures = []
        self.may_break = False  # a worker is killed

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

    def stream(self, gateway):
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

    def check(self, what):
        """Fails if a stream was lost or refused so far."""
        with self.lock:
            assert not self.failures, f"{what}: over HTTP: {self.failures}"
