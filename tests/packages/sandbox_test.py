"""The system calls that the units allow are enough for the programs.

Usage: sandbox_test.py BUILD [-v]   after a build of the programs

Runs each as its unit does: with the filter of calls, without memory that can be
both written and executed, and as another user than root. A call outside of the
filter ends the process here, while systemd only refuses it, so that the test
finds calls whose failure the programs would bear.
"""

import ctypes
import json
import os
import pathlib
import platform
import re
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import unittest
import urllib.request

from installed import ANALYZE, UNITS, install, run

MODEL = (
    pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    / "plimsoll/models/SmolLM2-135M-Instruct.Q4_1.gguf"
)
NUMBERS = pathlib.Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
NOBODY = 65534
SECONDS = 60

# <linux/filter.h>, <linux/seccomp.h>, <linux/prctl.h>, <linux/audit.h>
LOAD, AND, JUMP_EQUAL, RETURN = 0x20, 0x54, 0x15, 0x06
ALLOW, KILL, REFUSE = 0x7FFF0000, 0x80000000, 0x00050000 | 1  # EPERM
NUMBER_AT, THIRD_ARGUMENT_AT = 0, 32
PR_SET_SECCOMP, SECCOMP_MODE_FILTER, PR_SET_NO_NEW_PRIVS = 22, 2, 38
WRITE, EXECUTE = 2, 4
LIBC = ctypes.CDLL(None, use_errno=True)


def expand(group):
    """The calls of one of systemd's groups, with those of the groups in it."""
    calls = set()
    for line in run(ANALYZE, "syscall-filter", group).splitlines()[1:]:
        word = line.strip()
        if word.startswith("@"):
            calls |= expand(word)
        elif word and not word.startswith("#"):
            calls.add(word)
    return calls


def allowed_calls(unit):
    """The calls that a unit's text allows."""
    calls = set()
    for words in re.findall(r"^SystemCallFilter=(.*)$", unit, re.M):
        takes_away = words.startswith("~")
        for word in words.lstrip("~").split():
            named = expand(word) if word.startswith("@") else {word}
            calls = calls - named if takes_away else calls | named
    # systemd adds what a program needs to start and to end.
    return calls | expand("@default") | {"execve"}


def refuse_with_protection(number, bits):
    """Refuses the call `number` if its protection has all of the bits."""
    return [
        (JUMP_EQUAL, 0, 5, number),
        (LOAD, 0, 0, THIRD_ARGUMENT_AT),
        (AND, 0, 0, bits),
        (JUMP_EQUAL, 0, 1, bits),
        (RETURN, 0, 0, REFUSE),
        (LOAD, 0, 0, NUMBER_AT),
    ]


def filter_of(calls):
    """A filter of seccomp that allows the calls, as the kernel reads it."""
    numbers = dict(re.findall(r"#define __NR_(\w+) (\d+)", NUMBERS.read_text()))
    steps = [(LOAD, 0, 0, NUMBER_AT)]
    steps += refuse_with_protection(int(numbers["mmap"]), WRITE | EXECUTE)
    steps += refuse_with_protection(int(numbers["mprotect"]), EXECUTE)
    for name in sorted(calls & numbers.keys()):
        steps += [(JUMP_EQUAL, 0, 1, int(numbers[name])), (RETURN, 0, 0, ALLOW)]
    steps.append((RETURN, 0, 0, KILL))
    return len(steps), b"".join(struct.pack("=HBBI", *step) for step in steps)


class Sandbox:
    """What a process does before it becomes a program."""

    def __init__(self, calls):
        self.n_steps, code = filter_of(calls)
        self.code = ctypes.create_string_buffer(code)

    def __call__(self):
        if os.getuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        program = struct.pack("@HP", self.n_steps, ctypes.addressof(self.code))
        LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "no filter")


@unittest.skipUnless(ANALYZE, "there is no systemd-analyze")
@unittest.skipUnless(platform.machine() == "x86_64", "the numbers of calls are x86-64's")
@unittest.skipUnless(NUMBERS.is_file(), f"there is no {NUMBERS}")
class SandboxTest(unittest.TestCase):
    """Planner, worker and gateway below their filters."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="plimsoll-sandbox-")
        cls.addClassCleanup(folder.cleanup)
        cls.top = pathlib.Path(folder.name)
        cls.top.chmod(0o755)
        install("/usr", cls.top)
        cls.sandboxes = [Sandbox(allowed_calls(cls.unit(name))) for name in UNITS]
        cls.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        cls.addClassCleanup(cls.manager.close)
        cls.manager.bind(f"\0plimsoll-sandbox-{os.getpid()}")
        cls.manager.settimeout(SECONDS)

    def setUp(self):
        # A planner remembers that there was one before.
        self.state = self.top / f"state-{self.id()}"
        self.state.mkdir()
        if os.getuid() == 0:
            shutil.chown(self.state, NOBODY, NOBODY)

    @classmethod
    def unit(cls, name):
        return (cls.top / "usr/lib/systemd/system" / name).read_text()

    def start(self, sandbox, name, *flags):
        """Starts a program; returns where it listens."""
        process = subprocess.Popen(
            [self.top / "usr/bin" / name, "--listen=127.0.0.1:0", *flags],
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
            preexec_fn=sandbox,  # there is one thread
            env={
                "XDG_STATE_HOME": str(self.state),
                "NOTIFY_SOCKET": f"@plimsoll-sandbox-{os.getpid()}",
                "WATCHDOG_USEC": "2000000",
            },
        )
        self.addCleanup(process.stdout.close)
        self.addCleanup(self.stop, name, process)
        line = process.stdout.readline()
        self.assertRegex(line, r"^listening on ", f"{name}: {process.poll()}")
        return line.split()[-1]

    def await_ready(self):
        """Waits until a program has told its manager that it is ready."""
        while self.manager.recv(64) != b"READY=1":
            continue

    def await_models(self, gateway):
        """Waits until the gateway has asked its worker for the models."""
        end = time.monotonic() + SECONDS
        models = []
        while not models:
            self.assertLess(time.monotonic(), end, "the gateway has no model")
            time.sleep(0.1)
            with urllib.request.urlopen(f"{gateway}/v1/models", timeout=SECONDS) as reply:
                models = json.load(reply)["data"]

    @staticmethod
    def complete(gateway):
        """The gateway's reply to a request for eight tokens."""
        body = {"model": "small", "prompt": "Hello", "max_tokens": 8}
        request = urllib.request.Request(f"{gateway}/v1/completions", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=SECONDS) as reply:
            return json.load(reply)

    def stop(self, name, process):
        process.terminate()
        self.assertEqual(process.wait(timeout=SECONDS), 0, name)

    def test_the_programs_need_no_other_call(self):
        planner_sandbox, worker_sandbox, gateway_sandbox = self.sandboxes
        planner = self.start(
            planner_sandbox, "plimsoll-planner", f"--journal={self.state}/leases.db", "--first"
        )
        self.assertEqual(self.manager.recv(64), b"READY=1")
        self.assertEqual(self.manager.recv(64), b"WATCHDOG=1")
        flags = [f"--planner={planner}", "--n-ctx=512"]
        if MODEL.is_file():
            shutil.copyfile(MODEL, self.top / "model.gguf")
            flags.append(f"--model=small={self.top}/model.gguf")
        worker = self.start(worker_sandbox, "plimsoll-worker", *flags)
        self.await_ready()
        command = self.top / "usr/bin/plimsoll"
        if MODEL.is_file():
            script = f"until {command} models --address {worker} -o json"
            script += " | grep -q MODEL_STATE_READY; do sleep 0.1; done"
            run("timeout", SECONDS, "sh", "-c", script)
            run(command, "generate", "--address", worker, "--prompt", "Hello", "--max-tokens", 8)
            self.assertIn("small", run(command, "leases", "--planner", planner))
        run(command, "top", "--address", worker)
        gateway = self.start(
            gateway_sandbox, "plimsoll-gateway", f"--worker={worker}", f"--planner={planner}"
        )
        self.await_ready()
        if MODEL.is_file():
            self.await_models(gateway)
            self.assertIn("choices", self.complete(gateway))

    def test_a_call_that_is_not_allowed_ends_a_program(self):
        calls = allowed_calls(self.unit(UNITS[0])) - {"bind"}
        program = self.top / "usr/bin/plimsoll-planner"
        done = subprocess.run(
            [program, "--listen=127.0.0.1:0"],
            preexec_fn=Sandbox(calls),
            capture_output=True,
            check=False,
            cwd="/",
            env={"XDG_STATE_HOME": str(self.state)},
            timeout=SECONDS,
        )
        self.assertEqual(done.returncode, -31, done)  # SIGSYS


if __name__ == "__main__":
    unittest.main()
