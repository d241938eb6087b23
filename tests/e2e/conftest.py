"""Fixtures: the models, the shared data and servers with them."""

import contextlib
import json
import os
import pathlib
import struct

import pytest

import stubs
from gguf_header import with_changed_vocabulary
from servers import BUILD_DIR, Front, Planner, Worker, nightly

CACHE_DIR = pathlib.Path(
    os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
)
MODEL_FILES = {
    "smollm2": "SmolLM2-135M-Instruct.Q4_1.gguf",
    "gemma3": "gemma-3-270m-q4_k_m.gguf",
}
GOLDEN_FILES = {
    "smollm2": "smollm2-135m.public.json",
    "gemma3": "gemma3-270m.public.json",
}
N_CTX = 512  # the tokens of a slot of `front`


def model_file(name):
    """The file of a real model; skips the test if it is not there."""
    path = CACHE_DIR / "plimsoll" / "models" / MODEL_FILES[name]
    if not path.is_file():
        pytest.skip(f"no {path.name}; scripts/fetch_model.sh gets it")
    return path


def model_flag(name):
    """NAME=FILE for --model."""
    return f"--model={name}={model_file(name)}"


@pytest.fixture(scope="session")
def smollm2():
    return model_file("smollm2")


@pytest.fixture(scope="session")
def gemma3():
    return model_file("gemma3")


@pytest.fixture(scope="module")
def own_template(gemma3, tmp_path_factory):
    """Makes copies of gemma3 with a chat template, and tokens changed by id."""
    paths = []

    def make(template, changes=None):
        path = tmp_path_factory.mktemp("own_template") / "model.gguf"
        with_changed_vocabulary(gemma3, path, changes or {}, template)
        paths.append(path)
        return path

    yield make
    for path in paths:
        path.unlink()


@pytest.fixture(params=list(MODEL_FILES))
def any_model(request):
    """The name of each model in turn."""
    return request.param


@pytest.fixture(params=["smollm2", pytest.param("gemma3", marks=nightly)])
def any_model_at_night(request):
    """SmolLM2, and at night each model in turn, for tests that take long."""
    return request.param


@pytest.fixture(scope="session")
def goldens():
    """The oracle's answers of a model, by name; skips without them."""

    def read(name):
        path = stubs.SOURCE_DIR.parent / "shared" / "golden" / GOLDEN_FILES[name]
        if not path.is_file():
            pytest.skip(f"no shared data: {path.name}")
        return json.loads(path.read_text(encoding="utf-8"))

    return read


@pytest.fixture
def failing_threads(monkeypatch):
    """Programs that start from here on can be refused threads."""
    library = BUILD_DIR / "lib" / "failing_threads.so"
    if os.environ.get("PLIMSOLL_SANITIZE") or not library.is_file():
        pytest.skip("needs failing_threads.so, and no sanitizer")
    monkeypatch.setenv("LD_PRELOAD", str(library))


class FailingCalls:
    """Calls of programs that can fail or hang."""

    KINDS = (
        "allocations", "mappings", "writes", "syncs", "reads", "reads_hang",
        "least_large", "opens", "accepts", "receipts", "sends", "threads",
        "syncs_hang",
    )

    def __init__(self, library, path):
        self.library = library
        self.path = path
        path.write_bytes(bytes(8 * len(self.KINDS)))

    @contextlib.contextmanager
    def preloaded(self):
        """Programs that start within it are those."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LD_PRELOAD", str(self.library))
            patch.setenv("PLIMSOLL_TEST_CALLS", str(self.path))
            yield

    def _set(self, kind, value):
        with self.path.open("r+b") as file:
            file.seek(8 * self.KINDS.index(kind))
            file.write(struct.pack("=q", value))

    def fail(self, kind, n):
        """The n-th call of this kind from now on fails; 0: none does."""
        self._set(kind, n)

    def left(self, kind):
        """How many calls are still to come until the one that `fail` named."""
        values = struct.unpack(f"={len(self.KINDS)}q", self.path.read_bytes())
        return values[self.KINDS.index(kind)]

    def refuse_large(self, least_bytes):
        """Allocations of at least so many bytes fail; 0: none does."""
        self._set("least_large", least_bytes)

    def hang_reads(self, hang):
        """Reads of a model's weights return only while this is False."""
        self._set("reads_hang", int(hang))

    def hang_syncs(self, hang):
        """Files are written to their disk only while this is False."""
        self._set("syncs_hang", int(hang))


@pytest.fixture
def failing_calls(tmp_path):
    """A FailingCalls of this test's programs."""
    library = BUILD_DIR / "lib" / "failing_calls.so"
    if os.environ.get("PLIMSOLL_SANITIZE") or not library.is_file():
        pytest.skip("needs failing_calls.so, and no sanitizer")
    return FailingCalls(library, tmp_path / "calls")


@pytest.fixture
def wall_clock(monkeypatch, tmp_path):
    """Programs that start from here on have a time of day that can jump.

    Call it with the seconds that it shall be ahead.
    """
    library = BUILD_DIR / "lib" / "shifted_clock.so"
    if os.environ.get("PLIMSOLL_SANITIZE") or not library.is_file():
        pytest.skip("needs shifted_clock.so, and no sanitizer")
    ahead = tmp_path / "ahead"

    def jump(seconds):
        with ahead.open("r+b" if ahead.exists() else "wb") as file:
            file.write(struct.pack("=q", seconds * 1_000_000_000))

    jump(0)
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("PLIMSOLL_TEST_CLOCK", str(ahead))
    return jump


@pytest.fixture
def planner():
    with Planner() as server:
        yield server


@pytest.fixture
def lazy_worker(smollm2):
    """A worker that has loaded nothing yet."""
    flags = ("--lazy", "--n-ctx=512", "--slots=2")
    with Worker(model_flag("smollm2"), *flags) as server:
        yield server


@pytest.fixture(scope="session")
def worker(smollm2, gemma3):
    """Both models, ready. Tests leave it as it was."""
    flags = ("--n-ctx=512", "--slots=2")
    with Worker(model_flag("smollm2"), model_flag("gemma3"), *flags) as server:
        yield server.await_ready()


@pytest.fixture(scope="module")
def front(smollm2):
    """`plimsoll serve` with SmolLM2. Modules with other needs have their own."""
    with Front(str(smollm2), f"--n-ctx={N_CTX}", "--slots=4") as server:
        yield server
