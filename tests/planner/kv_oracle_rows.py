#!/usr/bin/env python3
"""Prints the rows of the shared KV oracle, and writes a header-only file of each
model into a folder.

usage: kv_oracle_rows.py SHARED_FOLDER OUT_FOLDER

One row a line: model architecture context beyond_model_max type full ring_exact ring_llama
"""
import contextlib
import functools
import json
import pathlib
import sys


def describe_phi3(describe, model, *types):
    """Metadata and tensors of a Phi 3, which the shared tool does not know: those
    of a Llama with one matrix for q, k and v, and one for gate and up."""
    metadata, tensors = describe(model | {"arch": "llama"}, *types)
    metadata = [(key.replace("llama.", "phi3."), kind,
                 "phi3" if key == "general.architecture" else value)
                for key, kind, value in metadata]
    fused = []
    for name, kind, dims in tensors:
        if name.endswith(("attn_k.weight", "attn_v.weight", "ffn_gate.weight")):
            continue
        if name.endswith("attn_q.weight"):
            heads = model["n_heads"] + 2 * model["n_kv_heads_global"]
            name = name.replace("attn_q", "attn_qkv")
            dims = (dims[0], heads * model["head_dim_global"])
        elif name.endswith("ffn_up.weight"):
            dims = (dims[0], 2 * dims[1])
        fused.append((name, kind, dims))
    return metadata, fused


def main() -> None:
    shared, out = map(pathlib.Path, sys.argv[1:3])
    sys.dont_write_bytecode = True  # nothing is left beside the shared tool
    sys.path.append(str(shared / "tools"))
    import mock_gguf  # pylint: disable=import-outside-toplevel
    describe = mock_gguf.describe
    models = json.loads((shared / "data/models.json").read_text())["models"]
    oracle = json.loads((shared / "data/kv_oracle.json").read_text())["models"]
    for model in models:
        name, architecture = model["name"], model["arch"].split()[0]
        if architecture == "phi3":
            mock_gguf.describe = functools.partial(describe_phi3, describe)
        else:
            mock_gguf.describe = describe
        with contextlib.redirect_stdout(None):
            mock_gguf.write(name, out / (name + ".gguf"), "q8_0", "q8_0")
        for context, row in oracle[name]["kv"].items():
            for kind in row:
                if kind == "beyond_model_max":
                    continue
                print(name, architecture, context,
                      int(row["beyond_model_max"]), kind, row[kind]["full"],
                      row[kind]["ring_exact"], row[kind]["ring_llama"])


if __name__ == "__main__":
    main()
