"""`plimsoll convert`: a checkpoint becomes the file that the same weights make,
and the model says what it should."""

import json
import subprocess
import sys

import numpy as np
import pytest

from checkpoints import (
    GEMMAS, checkpoint_tensors, family_models, golden, read_gguf, write_checkpoint,
    write_safetensors,
)
from servers import CALL_SECONDS, after, binary, without_sanitizer

CASES = (
    "llama", "llama31", "qwen2", "qwen3", "gemma", "gemma2", "gemma3",
    "gemma3-linear", "phi3", "phi3-longrope-short", "phi3-longrope-long", "granite",
    "olmo2", "olmo3", "smollm3", "glm4", "mistral3", "exaone4", "exaone4-windows",
    "seed_oss", "cohere2", "ernie4_5",
)
TOKENIZER_KEYS = (
    "model", "pre", "tokens", "token_type", "merges", "bos_token_id", "eos_token_id",
    "add_bos_token",
)
# What these say in a file of family_models() is so without them, too.
IDLE_KEYS = {
    "phi3.attention.sliding_window",
    "phi3.rope.scaling.original_context_length",
    "olmo2.rope.scaling.yarn_attn_factor",
}


def plimsoll(*arguments, setup=""):
    """A finished run of the command."""
    return subprocess.run(
        after(setup, [binary("plimsoll"), *map(str, arguments)]),
        capture_output=True,
        timeout=CALL_SECONDS,
    )


def model_of(case, **changes):
    """A model of family_models(), with its golden."""
    known = golden(case)
    return family_models().build(known["params"] | changes), known


def converted(folder, target, *flags):
    """The report of a conversion that works."""
    done = plimsoll("convert", folder, "--to", target, "-o", "json", *flags)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def written(model, path):
    """The file that family_models() writes."""
    family_models().write(model, path)
    return read_gguf(path)


def expected_bytes(model, name, raw):
    """The bytes of a tensor, after the checkpoint's float32."""
    if model.p["arch"] not in GEMMAS or not name.endswith("norm.weight"):
        return raw
    values = np.frombuffer(raw, "<f4")
    return ((values - np.float32(1)) + np.float32(1)).tobytes()


def assert_same(model, found, wanted):
    """Tensors, tokenizer and what the model computes with are another file's."""
    metadata, tensors = found
    their_metadata, their_tensors = wanted
    assert tensors.keys() == their_tensors.keys()
    for name, (dims, kind, raw) in their_tensors.items():
        assert tensors[name][:2] == (dims, kind), name
        assert tensors[name][2] == expected_bytes(model, name, raw), name
    keys = {f"tokenizer.ggml.{key}" for key in TOKENIZER_KEYS}
    keys |= {key for key in their_metadata if key.startswith(model.p["arch"] + ".")}
    for key in keys - IDLE_KEYS:
        assert metadata[key] == their_metadata[key], key


def greedy_ids(path, known, completion):
    """The ids that the model says after a golden's prompt."""
    done = plimsoll(
        "generate", "--model", path, "--raw", "--prompt", completion["prompt"],
        "--precision", "exact", "--kv-type", "f32", "--temperature", "0",
        "--max-tokens", len(completion["steps"]), "--ignore-eos",
        "--n-ctx", known["n_ctx"], "-o", "json",
    )
    assert done.returncode == 0, done.stderr.decode()
    return [token["id"] for token in json.loads(done.stdout)["tokens"]]


@pytest.mark.parametrize("case", CASES)
def test_a_checkpoint_becomes_the_file_of_the_same_weights(tmp_path, case):
    model, known = model_of(case)
    n_files = 3 if case == "qwen3" else 1
    folder = write_checkpoint(tmp_path / "checkpoint", model, case, n_files)
    target = tmp_path / "model.gguf"
    report = converted(folder, target, "--type", "f32")
    assert report["architecture"] == model.p["arch"]
    assert report["bytes"] == target.stat().st_size
    assert_same(model, read_gguf(target), written(model, tmp_path / "theirs.gguf"))
    completion = known["completions"][-1]
    ids = greedy_ids(target, known, completion)
    assert ids == [step["id"] for step in completion["steps"]]


@pytest.mark.parametrize("kind", ["F16", "BF16"])
def test_half_floats_are_kept_to_the_bit(tmp_path, kind):
    model, _ = model_of("llama", type=kind)
    folder = write_checkpoint(tmp_path / "checkpoint", model, "llama")
    target = tmp_path / "model.gguf"
    wanted = written(model, tmp_path / "theirs.gguf")
    for flag in ("keep", kind.lower()):
        converted(folder, target, "--type", flag, "--overwrite")
        assert_same(model, read_gguf(target), wanted)


# Rows of 128 values, which one matrix of a layer has, are no whole block of 256.
TYPES = {
    "q8_0": {"f32", "q8_0"},
    "q6_k": {"f32", "q8_0", "q6_K"},
    "q4_k": {"f32", "q8_0", "q6_K", "q4_K"},
    "q4_0": {"f32", "q6_K", "q4_0"},
}


@pytest.mark.parametrize("kind", TYPES)
def test_quantised_weights_are_sound(tmp_path, kind):
    model, _ = model_of("qwen3-q4_k", type="F32")
    folder = write_checkpoint(tmp_path / "checkpoint", model, "qwen3")
    target = tmp_path / "model.gguf"
    report = converted(folder, target, "--type", kind)
    assert report["tensors"].keys() == TYPES[kind]
    done = plimsoll("verify", target, "-o", "json")
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout)["ok"]


def left_in(folder):
    """What a conversion has left beside the checkpoint."""
    return sorted(path.name for path in folder.iterdir() if path.is_file())


@pytest.fixture
def checkpoint(tmp_path):
    """A folder that can be converted."""
    model, _ = model_of("qwen3")
    return write_checkpoint(tmp_path / "checkpoint", model, "qwen3")


def refused(folder, *flags, setup=""):
    """The message of a conversion that fails and leaves nothing behind."""
    parent = folder.parent
    before = left_in(parent)
    target = parent / "model.gguf"
    done = plimsoll("convert", folder, "--to", target, *flags, setup=setup)
    assert done.returncode == 1, done.stdout
    assert left_in(parent) == before
    return done.stderr.decode()


def test_a_file_is_replaced_only_if_told_so(checkpoint):
    target = checkpoint.parent / "model.gguf"
    target.write_text("mine")
    assert "--overwrite" in refused(checkpoint)
    assert target.read_text() == "mine"
    converted(checkpoint, target, "--overwrite")
    assert target.read_bytes()[:4] == b"GGUF"


def test_a_full_disk_leaves_nothing_behind(checkpoint):
    # Blocks of 512 bytes.
    assert "no room" in refused(checkpoint, setup="trap '' XFSZ; ulimit -f 200")


def test_what_is_missing_or_cut_off_is_named(checkpoint):
    weights = checkpoint / "model.safetensors"
    data = weights.read_bytes()
    weights.write_bytes(data[:-10])
    assert "cut off" in refused(checkpoint)
    weights.unlink()
    assert "model.safetensors" in refused(checkpoint)
    weights.write_bytes(data)
    (checkpoint / "tokenizer.json").unlink()
    assert "tokenizer.json" in refused(checkpoint)


def test_a_value_that_is_not_finite_is_named(checkpoint):
    model, _ = model_of("qwen3")
    tensors = list(checkpoint_tensors(model))
    name = "model.layers.2.mlp.up_proj.weight"
    values = next(tensor[2] for tensor in tensors if tensor[0] == name)
    values[5, 7] = np.nan
    write_safetensors(checkpoint / "model.safetensors", tensors)
    message = refused(checkpoint)
    assert name in message and "row 5" in message and "column 7" in message


# Prints the peak memory of a command in KiB. A process inherits the peak of the
# one that starts it, so this one is small.
PEAK = """
import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
print(usage.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status))
"""


@without_sanitizer
def test_memory_does_not_grow_with_the_model(tmp_path):
    model, _ = model_of("qwen3", layers=1, ff=1 << 17)
    folder = write_checkpoint(tmp_path / "checkpoint", model, "qwen3")
    target = tmp_path / "model.gguf"
    command = [binary("plimsoll"), "convert", folder, "--to", target, "--type", "f32"]
    done = subprocess.run(
        [sys.executable, "-c", PEAK, *map(str, command)],
        capture_output=True, timeout=CALL_SECONDS, check=True,
    )
    assert target.stat().st_size > 96 << 20
    assert int(done.stdout) << 10 < 64 << 20


def test_a_command_line_that_makes_no_sense_is_refused():
    for arguments, words in (
        ((), "name its folder"),
        (("model", "--type", "q5_k"), "q6_k"),
        (("model", "--address", "localhost:1"), "--address"),
    ):
        done = plimsoll("convert", *arguments)
        assert done.returncode == 2
        assert words in done.stderr.decode()
