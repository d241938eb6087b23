#!/usr/bin/env python3
"""What llama.cpp guesses with the models of mtp_models.py.

usage: compare_with_llama_cpp.py [CASE ...]

llama.cpp (package xllamacpp) drafts three tokens after each prompt with the
head of the file, and logs each draft's three likeliest ids with their
probabilities among the ten likeliest. They are compared with those of
mtp_forward.py, and `agreement` of CASE.json says how many ids are the same
and how far probabilities are: the log has three decimals. llama.cpp has one
row more than the goldens: before all others comes a row of the first id and
of zeros in place of a hidden row, so mtp_forward.py has it here too. A guess
after one that differs counts as different.
"""

import dataclasses
import json
import re
import subprocess
import sys
import tempfile

import numpy as np

import mtp_models
from make_mtp_goldens import GUESSES, HERE, Model, TOP

CANDIDATE = re.compile(
    r"draft candidate\s+(\d+), pos\s+(\d+):\s+(\d+) \(\s+([\d.]+)\)")
DRAFTED = re.compile(r"generate_draft: id=(\d+), #tokens=(\d+)")


def serve(path, ids):
    """Lets llama.cpp draft after ids; what it says goes to its log."""
    import xllamacpp
    f32 = xllamacpp.ggml_type.GGML_TYPE_F32
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_ctx, params.n_parallel = 1024, 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.warmup, params.verbosity, params.load_mtp = False, 5, True
    params.cache_type_k = params.cache_type_v = f32
    params.flash_attn_type = (
        xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED)
    params.speculative.types = [
        xllamacpp.common_speculative_type.COMMON_SPECULATIVE_TYPE_DRAFT_MTP]
    draft = params.speculative.draft
    draft.n_max, draft.p_min = GUESSES, 0.0
    draft.cache_type_k = draft.cache_type_v = f32
    xllamacpp.Server(params).handle_completions(
        {"prompt": ids, "n_predict": GUESSES + 2, "temperature": 0.0,
         "samplers": ["top_k"], "top_k": 1, "ignore_eos": True})


def drafts_of(path, ids):
    """The first draft after ids: the id before it, and of each guess the
    likeliest [id, probability]."""
    log = subprocess.run(
        [sys.executable, __file__, "--serve", path, json.dumps(ids)],
        capture_output=True, check=False)
    guesses = [[] for _ in range(GUESSES)]
    for line in (log.stdout + log.stderr).decode(errors="replace").split("\n"):
        found = CANDIDATE.search(line)
        if found:
            guesses[int(found[2])].append((int(found[3]), float(found[4])))
        found = DRAFTED.search(line)
        if found:
            assert int(found[2]) == len(ids), line
            return int(found[1]), guesses
    raise SystemExit(f"no drafts: {log.stderr[-2000:]}")


def compare(name):
    model = Model(name)
    rules = dataclasses.replace(model.rules, zeros_first=True)
    answers = model.answers(rules)
    same, worst = 0, 0.0
    with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
        mtp_models.shared.write(mtp_models.build(model.p), file.name)
        for ids, (token, _, _, chain) in zip(model.prompts, answers):
            before, guesses = drafts_of(file.name, ids)
            assert before == token, (name, before, token)
            for row, theirs in zip(chain, guesses):
                top = np.argsort(-row, kind="stable")[:TOP]
                if theirs[0][0] != top[0]:
                    break
                odds = np.exp(row - row.max())
                odds = odds / odds[top].sum()
                same += 1
                worst = max([worst] + [abs(odds[i] - p) for i, p in theirs])
    path = HERE / f"{name}.json"
    golden = json.loads(path.read_text())
    golden["agreement"] = {
        "llama.cpp's guesses, with a row of zeros first":
            f"{same}/{len(answers) * GUESSES}",
        "largest difference of a probability": round(float(worst), 4)}
    path.write_text(json.dumps(golden, separators=(",", ":")) + "\n")
    print(name, golden["agreement"], flush=True)


def main(argv):
    if argv[:1] == ["--serve"]:
        serve(argv[1], json.loads(argv[2]))
        return
    for name in argv or mtp_models.CASES:
        compare(name)


if __name__ == "__main__":
    main(sys.argv[1:])
