"""Threads of a rehearsal that stream from the pods of a Service."""

import threading
import time

PROMPT = "Once upon a time"
SHORT_TOKENS = 24
CALL_SECONDS = 120
LAG_SECONDS = 2  # a client's list of addresses may be as old as this


class StreamThreads:
    """Each thread streams from the ready pods in turn, one stream after the other.

    `ready_pods` returns those that the Service lists. A subclass has `stream(pod)`,
    which notes how the stream ended, under `lock`.
    """

    def __init__(self, ready_pods, n_threads):
        self.ready_pods = ready_pods
        self.n_whole = 0
        self.lock = threading.Lock()
        self.is_ending = threading.Event()
        self.threads = [
            threading.Thread(target=self._stream_for_ever, args=(i,))
            for i in range(n_threads)
        ]

    def _stream_for_ever(self, number):
        known, known_since, turn = [], 0, number
        while not self.is_ending.is_set():
            if time.monotonic() - known_since > LAG_SECONDS:
                known, known_since = self.ready_pods(), time.monotonic()
            if known:
                turn += 1
                self.stream(known[turn % len(known)])
            self.is_ending.wait(0.1)

    def start(self):
        for thread in self.threads:
            thread.start()

    def stop(self):
        self.is_ending.set()
        for thread in self.threads:
            if thread.ident is not None:
                thread.join()
