#!/usr/bin/env python3
"""Prints the rows of the shared KV oracle for models that can be mocked, and
writes a header-only file of each model into a folder.

usage: kv_oracle_rows.py SHARED_FOLDER OUT_FOLDER

One row a line: model architecture context beyond_model_max type full ring_exact ring_llama
"""
import json
import pathlib
import subprocess
import sys

NO_MOCK = ("phi3",)


def main() -> None:
    shared, out = map(pathlib.Path, sys.argv[1:3])
    models = json.loads((shared / "data/models.json").read_text())["models"]
    oracle = json.loads((shared / "data/kv_oracle.json").read_text())["models"]
    for model in models:
        name, architecture = model["name"], model["arch"].split()[0]
        if architecture in NO_MOCK:
            continue
        subprocess.run(
            [sys.executable, shared / "tools/mock_gguf.py", name,
             out / (name + ".gguf"), "q8_0", "q8_0"],
            check=True, stdout=subprocess.DEVNULL)
        for context, row in oracle[name]["kv"].items():
            for kind in row:
                if kind == "beyond_model_max":
                    continue
                print(name, architecture, context,
                      int(row["beyond_model_max"]), kind, row[kind]["full"],
                      row[kind]["ring_exact"], row[kind]["ring_llama"])


if __name__ == "__main__":
    main()
