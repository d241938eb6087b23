#!/usr/bin/env python3
"""Writes tiny models with a head that predicts the token after the next.

usage: mtp_models.py CASE OUT.gguf
       mtp_models.py --params CASE.json OUT.gguf
       mtp_models.py --list

A model here is that of ../shared/tools/family_models.py, beside this checkout,
number for number: the shared golden of its family holds for it too. After its
layers comes block L: an attending layer of the same architecture, and the
`nextn` tensors of the head. `A.block_count` counts it, and
`A.nextn_predict_layers` is 1. The numbers of block L are drawn as those of the
model are, from a seed of their own. make_mtp_goldens.py makes the goldens.
"""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT.parent / "shared" / "tools"))

import family_models as shared  # noqa: E402

from family_models import U32  # noqa: E402


def case(golden, own_tables=False, seed=1):
    """A case: its shared golden, and what is peculiar to its head.

    own_tables: the head has an embedding and an output matrix.
    seed: of the head's numbers.
    """
    return {"golden": golden, "mtp": {"seed": seed, "own_tables": own_tables}}


# The seeds are the first ones with which no guess and no choice of experts is
# a near tie: make_mtp_goldens.py --seed looks for them.
CASES = {
    "qwen35": case("qwen35"),
    "qwen35moe": case("qwen35moe"),
    "qwen3next": case("qwen3next"),
    "glm4moe": case("glm4moe", seed=5),
    "glm4moe-own": case("glm4moe", own_tables=True, seed=3),
    "deepseek2": case("deepseek2", seed=6),
}


def golden_of(name):
    """The shared golden of a family."""
    path = ROOT.parent / "shared" / "golden" / "families"
    return json.loads((path / f"{name}.public.json").read_text())


def params_of(name, seed=None):
    """All numbers of a case, with another seed of the head if one is given."""
    of_case = CASES[name]
    mtp = dict(of_case["mtp"])
    if seed is not None:
        mtp["seed"] = seed
    return dict(golden_of(of_case["golden"])["params"], mtp=mtp)


def head_model(p):
    """A model with nothing but block L and its nextn tensors."""
    numbers = dict(p, seed=p["mtp"]["seed"], layers=p["layers"] + 1)
    if "interval" in numbers:
        numbers["interval"] = 1  # block L attends, whatever its index is
    m = shared.Model(numbers)
    shared.FAMILIES[p["arch"]](m)
    block, d = f"blk.{p['layers']}.", p["dim"]
    m.tensors = [t for t in m.tensors if t[0].startswith(block)]
    b = block + "nextn."
    m.t(b + "eh_proj.weight", 2 * d, d, gain=1.5)
    for norm in ("enorm", "hnorm", "shared_head_norm"):
        m.norm(f"{b}{norm}.weight", d)
    if p["mtp"]["own_tables"]:
        m.t(b + "embed_tokens.weight", d, p["vocab"], std=1.0)
        m.t(b + "shared_head_head.weight", d, p["vocab"], gain=3.0)
    return m


def build(p):
    """The model of a family, and its head after it."""
    m = shared.build(p)
    count = f"{p['arch']}.block_count"
    m.keys = [(name, kind, value + 1 if name == count else value)
              for name, kind, value in m.keys]
    m.a("nextn_predict_layers", U32, 1)
    head = head_model(p)
    values = head.weights()
    for name, dims, mean, std, _, kind in head.tensors:
        m.tensors.append((name, dims, mean, std, values[name], kind))
    return m


def main(argv):
    if argv == ["--list"]:
        print("\n".join(CASES))
    elif len(argv) == 3 and argv[0] == "--params":
        p = json.loads(pathlib.Path(argv[1]).read_text())
        shared.write(build(p.get("params", p)), argv[2])
    elif len(argv) == 2 and argv[0] in CASES:
        shared.write(build(params_of(argv[0])), argv[1])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
