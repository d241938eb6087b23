"""A model's file is the one that the operator named, or it is not loaded."""

import hashlib
import os
import shutil
import subprocess

import grpc
import pytest

from servers import START_SECONDS, Worker, binary, refused, until

SIZES = {"n_ctx": 256, "n_slots": 1}


@pytest.fixture
def copy(smollm2, tmp_path):
    """A copy of a model in a folder that only its owner may write to."""
    folder = tmp_path / "models"
    folder.mkdir(mode=0o755)
    path = folder / "copy.gguf"
    shutil.copyfile(smollm2, path)
    path.chmod(0o644)
    return path


def digest(path):
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def test_a_file_with_its_digest_is_loaded_and_a_changed_one_is_not(copy):
    right = digest(copy)
    with Worker(f"--model=m={copy}@sha256:{right}", "--lazy") as worker:
        worker.load(**SIZES)
        assert "other users" not in worker.log()
    with copy.open("r+b") as file:  # the last bytes are weights
        file.seek(-1, os.SEEK_END)
        (last,) = file.read(1)
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last ^ 1]))
    with Worker(f"--model=m={copy}@sha256:{right}") as worker:
        until(lambda: worker.model().last_error, what="the error")
        for part in ("SHA-256", right, digest(copy), "--model"):
            assert part in worker.model().last_error
        assert not worker.serving()
        with refused(grpc.StatusCode.DATA_LOSS):
            worker.load(**SIZES)


@pytest.mark.parametrize(
    ("program", "value", "complaint"),
    [
        ("plimsoll-worker", "@sha256:" + "0" * 63, "64 digits"),
        ("plimsoll-worker", "@sha256:" + "0" * 65, "64 digits"),
        ("plimsoll-worker", "@sha256:" + "A" * 64, "lower case"),
        ("plimsoll-planner", "@sha256:" + "0" * 64, "headers only"),
    ],
)
def test_bad_digests_are_refused_at_the_start(program, value, complaint):
    command = [binary(program), "--model=m=m.gguf" + value]
    ended = subprocess.run(
        command, capture_output=True, timeout=START_SECONDS, check=False
    )
    assert ended.returncode == 2
    assert complaint in ended.stderr.decode()


def test_files_that_others_can_change_are_warned_of(copy):
    copy.chmod(0o666)
    copy.parent.chmod(0o777)
    with Worker(f"--model=m={copy}", "--lazy") as worker:
        worker.load(**SIZES)
        until(lambda: "other users" in worker.log(), what="the line")
        line = next(l for l in worker.log().splitlines() if "other users" in l)
        assert "copy.gguf, models" in line
        assert str(copy.parent) not in line
