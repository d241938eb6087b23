#!/usr/bin/env python3
"""Starts `plimsoll serve` from the flags that the peer's suite starts its server
with. A flag that we have nothing like ends it, and so does the case that gave it.

PLIMSOLL_BINARY is the program, and PLIMSOLL_PEER_MODEL a model that has tools.
"""

import argparse
import hashlib
import json
import os
import pathlib
import sys
import tempfile

# How the peer draws, batches and finds its model, which changes no answer here.
WITHOUT_EFFECT = {
    "--temp": 1, "--seed": 1, "--batch-size": 1, "--ubatch-size": 1, "--hf-repo": 1,
    "--hf-file": 1, "--n-predict": 1, "--offline": 0, "--no-slots": 0, "--jinja": 0,
    "--no-jinja": 0, "--cont-batching": 0, "--metrics": 0, "--verbose": 0,
}


def arguments():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", required=True)
    parser.add_argument("--alias", default="model")
    parser.add_argument("--ctx-size", type=int, default=512)
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("--api-key")
    for flag, n_values in WITHOUT_EFFECT.items():
        if n_values:
            parser.add_argument(flag)
        else:
            parser.add_argument(flag, action="store_true")
    return parser.parse_args()


def tokens(folder, key):
    """The file of tokens that lets a caller with this key in."""
    path = folder / "tokens.json"
    token = {"name": "peer", "tenant": "peer", "role": "user",
             "sha256": hashlib.sha256(key.encode()).hexdigest()}
    path.write_text(json.dumps({"tokens": [token]}), encoding="utf-8")
    path.chmod(0o600)
    return path


def main():
    given = arguments()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="plimsoll-peer-"))
    model = folder / f"{given.alias}.gguf"
    model.symlink_to(os.environ["PLIMSOLL_PEER_MODEL"])
    # The peer's context is that of all slots together.
    command = [
        os.environ["PLIMSOLL_BINARY"], "serve", str(model),
        f"--listen={given.host}:{given.port}", f"--slots={given.parallel}",
        f"--n-ctx={max(given.ctx_size // given.parallel, 1)}",
    ]
    if given.api_key:
        command.append(f"--tokens={tokens(folder, given.api_key)}")
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    os.execv(command[0], command)


if __name__ == "__main__":
    sys.exit(main())
