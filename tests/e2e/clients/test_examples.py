"""The examples in other languages say what the worker says."""

import os
import shutil
import subprocess

import pytest

import stubs
from asks import GREEDY, chat, generate
from conftest import model_flag
from servers import BUILD_DIR, CALL_SECONDS, Worker

CLIENTS_DIR = stubs.SOURCE_DIR / "clients"
BUILT_DIR = BUILD_DIR / "clients"  # kept, so that little is built again
BUILD_SECONDS = 600  # on a busy machine
SERVICE_CONFIG = stubs.SOURCE_DIR / "proto" / "plimsoll" / "v1" / "service_config.json"
WORDS = "Tell me of the sea."
N_TOKENS = 12


def need(*programs):
    """Skips the test if a program is not there."""
    for name in programs:
        if not shutil.which(name):
            pytest.skip(f"no {name}; scripts/install_deps.sh --clients gets it")


def build(*command):
    """Runs a command that builds an example."""
    subprocess.run(
        command, stdout=subprocess.DEVNULL, timeout=BUILD_SECONDS, check=True
    )


def cpp():
    """The command of the example in C++, built by itself."""
    folder = BUILT_DIR / "cpp"
    launcher = shutil.which("ccache")
    flags = [f"-DCMAKE_CXX_COMPILER_LAUNCHER={launcher}"] if launcher else []
    build("cmake", "-G", "Ninja", "-S", CLIENTS_DIR / "cpp", "-B", folder, *flags)
    build("cmake", "--build", folder)
    return [folder / "say"]


def go():
    """The command of the example in Go, built by its script."""
    need("go", "protoc-gen-go", "protoc-gen-go-grpc")
    build(CLIENTS_DIR / "go" / "build.sh", BUILT_DIR / "go")
    return [BUILT_DIR / "go" / "say"]


def java():
    """The command of the example in Java, built by its script."""
    need("javac", "grpc_java_plugin")
    build(CLIENTS_DIR / "java" / "build.sh", BUILT_DIR / "java")
    return [BUILT_DIR / "java" / "say"]


def ruby():
    """The command of the example in Ruby, which is not built."""
    need("ruby", "grpc_ruby_plugin")
    return ["ruby", CLIENTS_DIR / "ruby" / "say.rb"]


@pytest.fixture(scope="module")
def worker(smollm2):
    """A worker with one model, so that no call has to name it."""
    with Worker(model_flag("smollm2"), "--n-ctx=512", "--slots=2") as server:
        yield server.await_ready()


@pytest.fixture(scope="module", params=[cpp, go, java, ruby], ids=lambda f: f.__name__)
def example(request):
    """The command of each example in turn."""
    return request.param()


def run(example, *arguments):
    """The result of an example's run."""
    return subprocess.run(
        [*example, *arguments],
        env={**os.environ, "PLIMSOLL_SERVICE_CONFIG": str(SERVICE_CONFIG)},
        capture_output=True,
        text=True,
        timeout=CALL_SECONDS,
        check=False,
    )


def test_an_example_streams_a_reply(example, worker):
    request = generate(chat=chat(WORDS), sampling=GREEDY, max_tokens=N_TOKENS)
    expected = worker.generation.Generate(request, timeout=CALL_SECONDS).text
    done = run(example, worker.address, WORDS, str(N_TOKENS))
    assert (done.returncode, done.stdout) == (0, expected + "\n"), done.stderr


def test_an_example_says_why_a_call_fails(example, worker):
    done = run(example, worker.address, "word " * 1000)
    assert done.returncode == 1
    assert done.stderr.startswith("error: PROMPT_TOO_LONG: "), done.stderr


def test_an_example_says_that_nobody_listens(example):
    done = run(example, "127.0.0.1:1", WORDS)
    assert done.returncode == 1 and done.stderr.startswith("error: : "), done.stderr
