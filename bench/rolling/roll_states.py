#!/usr/bin/env python3
"""How far SHIFT is from RECOMPUTE in models whose layers keep a state: the
change of log-probabilities after an eviction, and how fast it fades.

The models are the tiny random ones of the shared goldens, because no published
model of this kind is small. A random model says nothing about the quality of
text. It does say how long a state remembers what attention has forgotten, for
the decay that its weights give. A model that attends in all layers is
measured too: its kept keys were computed with the evicted tokens in sight.

A text of random words, many times as long as the context, is a prompt that
rolls, and the log-probabilities of all its tokens are reported. The change is
the mean distance between those of SHIFT and of RECOMPUTE, by the number of
tokens since the last eviction. `what left` compares the text with one whose
first half is other words, both with SHIFT, over the first tokens after the
last of those words has left: it is what states and kept keys still know of
them.

usage: PLIMSOLL_BUILD=build/release roll_states.py [FAMILY...]
"""
import argparse
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

SOURCE_DIR = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(SOURCE_DIR / "tests" / "e2e"))

from asks import GREEDY, generate, text  # noqa: E402
from servers import CALL_SECONDS, Worker  # noqa: E402
from stubs import generation as v1  # noqa: E402

WRITER = SOURCE_DIR / "tests/testdata/families/golden_families.py"
GOLDENS = SOURCE_DIR.parent / "shared/golden/families"
FAMILIES = ("qwen35", "qwen3next", "lfm2", "granitehybrid", "nemotron_h", "llama")
N_CTX = 256
N_TOKENS = 1600
# Tokens since the last eviction: the first ones, and those before the next.
NEAR, FAR = range(0, 8), range(40, 64)
LEFT = 64  # tokens after the first half has left


def words(seed, n):
    """A text of n tokens: the tiny models' vocabulary has <tN> for each."""
    rng = random.Random(seed)
    return "".join(f"<t{rng.randrange(300, 380)}>" for _ in range(n))


def logprobs(worker, prompt, method):
    """The log-probabilities of a prompt's tokens, and where tokens left."""
    request = generate(
        text=text(prompt), sampling=GREEDY, max_tokens=1, ignore_eos=True,
        context_policy=v1.CONTEXT_POLICY_ROLL,
        roll=v1.RollOptions(method=method, pin_tokens=0),
        response=v1.ResponseOptions(prompt_logprobs=True))
    reply = worker.generation.Generate(request, timeout=CALL_SECONDS)
    return list(reply.prompt_logprobs), reply.evictions


def changes(worker, seed):
    """Mean distances: near an eviction, far from it, and by what left."""
    first, rest = words(seed, N_TOKENS // 2), words(seed + 1, N_TOKENS // 2)
    shift, evictions = logprobs(worker, first + rest, v1.ROLL_METHOD_SHIFT)
    again, _ = logprobs(worker, first + rest, v1.ROLL_METHOD_RECOMPUTE)
    other, _ = logprobs(worker, words(seed + 2, N_TOKENS // 2) + rest,
                        v1.ROLL_METHOD_SHIFT)
    # A context that is full evicts the same tokens each time.
    step = evictions[0].tokens
    apart = {"near": [], "far": []}
    for i in range(N_CTX, len(shift)):
        since = (i + 1 - N_CTX) % step
        for name, places in (("near", NEAR), ("far", FAR)):
            if since in places:
                apart[name].append(abs(shift[i] - again[i]))
    gone = N_TOKENS // 2 + N_CTX
    tail = slice(gone, gone + LEFT)
    old = [abs(a - b) for a, b in zip(shift[tail], other[tail])]
    spread = statistics.pstdev(shift)
    return [statistics.mean(apart["near"]), statistics.mean(apart["far"]),
            statistics.mean(old), spread]


def measure(family):
    golden = GOLDENS / f"{family}.public.json"
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/{family}.gguf"
        subprocess.run([sys.executable, str(WRITER), "--params", str(golden),
                        file], check=True)
        with Worker(f"--model=m={file}", f"--n-ctx={N_CTX}", "--slots=1",
                    "--precision=exact", "--kv-type=f32",
                    "--prefix-cache=0") as worker:
            worker.await_ready()
            rows = [changes(worker, seed) for seed in (1, 11, 21)]
    near, far, old, spread = (statistics.mean(column) for column in zip(*rows))
    print(f"| {family} | {near:.3f} | {far:.3f} | {old:.1e} | {spread:.1f} |",
          flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", default=FAMILIES,
                        metavar="FAMILY")
    args = parser.parse_args()
    print(f"n_ctx {N_CTX}, {N_TOKENS} tokens, mean distance of log-probabilities\n"
          f"\n| family | {NEAR.stop} tokens after an eviction | {FAR.start} to "
          f"{FAR.stop} after | what left | spread of all |\n|---|---|---|---|---|")
    for family in args.families:
        measure(family)


if __name__ == "__main__":
    main()
