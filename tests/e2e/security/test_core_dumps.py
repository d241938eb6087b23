"""No server leaves a core dump, unless it is told to for debugging."""

import contextlib
import pathlib
import resource

import pytest

from servers import Front, Gateway, Planner, Server, Worker, without_sanitizer

SOFT, HARD = resource.getrlimit(resource.RLIMIT_CORE)
# Linux takes a limit of one byte as an order to dump nowhere.
FORBIDDEN = [str(min(1, HARD) if HARD >= 0 else 1)] * 2


def core_limits(process):
    """The soft and the hard limit of the size of a core file, as /proc says."""
    for line in pathlib.Path(f"/proc/{process.pid}/limits").read_text().splitlines():
        if line.startswith("Max core file size"):
            return line.removeprefix("Max core file size").split()[:2]
    raise AssertionError("the process has no such limit")


@contextlib.contextmanager
def server_of(name, smollm2, *flags):
    """Each program that serves, started with these flags."""
    with contextlib.ExitStack() as stack:
        if name == "planner":
            yield stack.enter_context(Planner(*flags))
        elif name == "worker":
            model = f"--model=smollm2={smollm2}"
            yield stack.enter_context(Worker(model, "--lazy", *flags))
        elif name == "gateway":
            planner = stack.enter_context(Planner())
            yield stack.enter_context(Gateway(*flags, workers=[planner]))
        else:
            yield stack.enter_context(Front(str(smollm2), "--n-ctx=128", *flags))


SERVERS = ["planner", "worker", "gateway", "serve"]


@without_sanitizer
@pytest.mark.parametrize("name", SERVERS)
def test_a_server_dumps_no_core(name, smollm2):
    with server_of(name, smollm2) as server:
        assert core_limits(server.process) == FORBIDDEN


@without_sanitizer
@pytest.mark.parametrize("name", SERVERS)
def test_core_dumps_can_be_allowed_for_debugging(name, smollm2):
    with server_of(name, smollm2, "--core-dumps") as server:
        words = ["unlimited" if n == resource.RLIM_INFINITY else str(n)
                 for n in (SOFT, HARD)]
        assert core_limits(server.process) == words


def test_a_limit_that_is_lower_already_stays():
    with Server("plimsoll-planner", "--first", setup="ulimit -c 0") as server:
        assert core_limits(server.process) == ["0", "0"]
