"""A client made from the protos alone, and the binaries under test."""

import contextlib
import importlib
import os
import pathlib
import signal
import subprocess
import sys
import time
import types

import grpc
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROTO_DIR = ROOT / "proto"
GOOGLEAPIS = pathlib.Path("/usr/share/gocode/src/github.com/gogo/googleapis")
PROTOS = ("common", "planner", "generation", "tokenizer", "model")
# Seconds that anything may take on a slow machine; nothing waits for its end.
PATIENCE = 120


def binary(name):
    """The path of a built binary: PLIMSOLL_BIN, PLIMSOLL_BUILD/bin, release."""
    folders = [ROOT / "build" / "release" / "bin"]
    if "PLIMSOLL_BUILD" in os.environ:
        folders.insert(0, pathlib.Path(os.environ["PLIMSOLL_BUILD"]) / "bin")
    if "PLIMSOLL_BIN" in os.environ:
        folders.insert(0, pathlib.Path(os.environ["PLIMSOLL_BIN"]))
    for folder in folders:
        if (folder / name).exists():
            return folder / name
    pytest.fail(f"{name} is not built; looked in {[str(f) for f in folders]}")


def wait_for(what, condition):
    """Asks until it is true; fails when patience ends."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        result = condition()
        if result:
            return result
        time.sleep(0.01)
    pytest.fail(f"waited {PATIENCE} s for {what}")


class Process:
    """A server of ours, its address, and its end."""

    def __init__(self, name, *arguments):
        self.process = subprocess.Popen(
            [str(binary(name)), "--listen", "127.0.0.1:0", *map(str, arguments)],
            stdout=subprocess.PIPE,
            text=True,
        )
        line = self.process.stdout.readline()
        assert line.startswith("listening on "), (name, line)
        self.address = line.removeprefix("listening on ").strip()
        self.channel = grpc.insecure_channel(self.address)

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self):
        return self.process.wait(timeout=PATIENCE)

    def close(self):
        self.channel.close()
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
            try:
                self.wait()
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process.stdout.close()


@pytest.fixture(scope="session")
def api(tmp_path_factory):
    """The generated modules: api.common.ChatPrompt, api.model_grpc..., and
    api.error_details of google.rpc."""
    out = tmp_path_factory.mktemp("generated")
    files = [f"plimsoll/v1/{name}.proto" for name in PROTOS]
    google = ["google/rpc/status.proto", "google/rpc/error_details.proto"]
    subprocess.run(
        [
            sys.executable,
            "-m",
            "grpc_tools.protoc",
            f"-I{PROTO_DIR}",
            f"-I{GOOGLEAPIS}",
            f"--python_out={out}",
            f"--grpc_python_out={out}",
            *files,
            *google,
        ],
        check=True,
    )
    # Not "google": that package is protobuf's own.
    os.rename(out / "google" / "rpc", out / "google_rpc")
    details = out / "google_rpc" / "error_details_pb2.py"
    assert "google.rpc" in details.read_text(encoding="utf-8")
    sys.path.insert(0, str(out))
    modules = types.SimpleNamespace()
    for name in PROTOS:
        setattr(modules, name, importlib.import_module(f"plimsoll.v1.{name}_pb2"))
        setattr(
            modules,
            f"{name}_grpc",
            importlib.import_module(f"plimsoll.v1.{name}_pb2_grpc"),
        )
    for name in ("status", "error_details"):
        setattr(modules, name, importlib.import_module(f"google_rpc.{name}_pb2"))
    return modules


def error_info(api, error):
    """The google.rpc.ErrorInfo of a call's error: (reason, metadata)."""
    metadata = dict(error.trailing_metadata())
    status = api.status.Status.FromString(metadata["grpc-status-details-bin"])
    for detail in status.details:
        info = api.error_details.ErrorInfo()
        if detail.Unpack(info):
            assert info.domain == "plimsoll.dev"
            return info.reason, dict(info.metadata)
    pytest.fail("the error has no ErrorInfo")


def model_path(name):
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    path = pathlib.Path(cache) / "plimsoll" / "models" / name
    if not path.exists():
        pytest.skip(f"{name} is absent; scripts/fetch_model.sh fetches it")
    return path


@pytest.fixture(scope="session")
def smollm2():
    return model_path("SmolLM2-135M-Instruct.Q4_1.gguf")


@pytest.fixture
def start():
    """Starts servers that end with the test."""
    with contextlib.ExitStack() as stack:

        def run(name, *arguments):
            process = Process(name, *arguments)
            stack.callback(process.close)
            return process

        yield run


class Worker:
    """Stubs of a worker's services."""

    def __init__(self, api, process):
        self.api = api
        self.process = process
        channel = process.channel
        self.generation = api.generation_grpc.GenerationServiceStub(channel)
        self.tokenizer = api.tokenizer_grpc.TokenizerServiceStub(channel)
        self.models = api.model_grpc.ModelServiceStub(channel)

    def model(self):
        request = self.api.model.ListModelsRequest()
        return self.models.ListModels(request, timeout=PATIENCE).models[0]

    def load(self, **options):
        request = self.api.model.LoadModelRequest(
            options=self.api.common.LoadOptions(**options)
        )
        return list(self.models.LoadModel(request, timeout=PATIENCE))

    def stream(self, text="Once upon a time", max_tokens=0, **fields):
        request = self.api.generation.StreamGenerateRequest(
            text=self.api.common.TextPrompt(text=text),
            sampling=self.api.generation.SamplingOptions(temperature=0),
            stopping=self.api.generation.StoppingOptions(
                max_tokens=max_tokens, ignore_eos=True
            ),
            **fields,
        )
        return self.generation.StreamGenerate(request, timeout=PATIENCE)


@pytest.fixture(scope="module")
def pair(api, smollm2):
    """A planner, and a worker of it with SmolLM2 loaded: (planner's stub,
    worker)."""
    with contextlib.ExitStack() as stack:
        planner = Process("plimsoll-planner", "--model", f"smol={smollm2}")
        stack.callback(planner.close)
        process = Process(
            "plimsoll-worker",
            *("--model", f"smol={smollm2}", "--lazy", "--slots", 2),
            *("--n-ctx", 1024, "--planner", planner.address),
        )
        stack.callback(process.close)
        worker = Worker(api, process)
        worker.load()
        yield api.planner_grpc.PlannerServiceStub(planner.channel), worker
