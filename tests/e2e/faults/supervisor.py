"""Stands in for systemd, and stops single threads as a debugger does."""

import contextlib
import ctypes
import os
import pathlib
import socket
import time

import pytest

# From linux/ptrace.h and linux/wait.h.
PTRACE_DETACH = 17
PTRACE_SEIZE = 0x4206
PTRACE_INTERRUPT = 0x4207
WALL = 0x40000000


class Supervisor:
    """The manager of servers that start while it exists, with a watchdog."""

    def __init__(self, folder, monkeypatch, watchdog_seconds=1):
        self.watchdog_seconds = watchdog_seconds
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(folder / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(folder / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", str(watchdog_seconds * 1_000_000))

    def hears_a_sign_of_life(self, seconds=10):
        """Whether a beat of the watchdog comes within this time."""
        self.socket.settimeout(seconds)
        try:
            while b"WATCHDOG=1" not in self.socket.recv(4096):
                pass
        except TimeoutError:
            return False
        return True

    def watchdog_bites(self):
        """Whether nothing more comes for twice the watchdog's time."""
        self.socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while self.socket.recv(4096):
                pass  # what was said before
        return not self.hears_a_sign_of_life(2 * self.watchdog_seconds)


def busy_thread(pid):
    """The thread of a process that takes most processor time just now."""

    def ticks():
        times = {}
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                words = (task / "stat").read_text().rpartition(")")[2].split()
                times[int(task.name)] = int(words[11]) + int(words[12])
        return times

    before = ticks()
    time.sleep(0.5)
    after = ticks()
    return max(after, key=lambda task: after[task] - before.get(task, 0))


@contextlib.contextmanager
def stopped_thread(task):
    """One thread of another process stands still; the rest go on."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long] * 4
    libc.ptrace.restype = ctypes.c_long

    def trace(what):
        if libc.ptrace(what, task, 0, 0) != 0:
            pytest.skip(f"no ptrace: {os.strerror(ctypes.get_errno())}")

    trace(PTRACE_SEIZE)
    trace(PTRACE_INTERRUPT)
    os.waitpid(task, WALL)
    try:
        yield
    finally:
        trace(PTRACE_DETACH)
