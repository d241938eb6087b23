"""The cases of llama.cpp's own server tests that apply to `plimsoll serve`.

scripts/fetch_peer_suite.sh fetches them; without them this skips. cases.txt says
which cases pass, and why the others do not.
"""

import os
import pathlib

import pytest

from conftest import CACHE_DIR
from dialects import ratchet
from dialects.tool_template import TEMPLATE
from gguf_header import with_changed_vocabulary
from servers import binary, free_port, nightly

HERE = pathlib.Path(__file__).resolve().parent
SUITE = CACHE_DIR / "plimsoll" / "peer_suite"
# The others are about embeddings, ranking, images, adapters, slots on disk, a
# router of processes, tools that run in the server, and its own web page.
FILES = (
    "test_basic.py", "test_chat_completion.py", "test_compat_anthropic.py",
    "test_compat_oai_responses.py", "test_completion.py", "test_ctx_shift.py",
    "test_ignore_eos.py", "test_security.py", "test_tokenize.py",
)
SUITE_SECONDS = 1500


@pytest.fixture
def model(smollm2, tmp_path):
    path = tmp_path / "tools.gguf"
    with_changed_vocabulary(smollm2, path, {}, TEMPLATE)
    yield path
    path.unlink()


@nightly
def test_the_peers_suite_passes_what_it_passed(model, tmp_path):
    if not SUITE.is_dir():
        pytest.skip("no suite; scripts/fetch_peer_suite.sh gets it")
    passed, output = ratchet.run_pytest(
        ["-p", "peer_plugin", "-m", "not slow", *(f"unit/{name}" for name in FILES)],
        tmp_path / "report.xml", SUITE_SECONDS, cwd=SUITE,
        env={
            **os.environ,
            "LLAMA_SERVER_BIN_PATH": str(HERE / "as_peer.py"),
            "PLIMSOLL_BINARY": binary("plimsoll"),
            "PLIMSOLL_PEER_MODEL": str(model),
            "PORT": str(free_port()),
            "PYTHONPATH": f"{HERE}{os.pathsep}{SUITE}",
            "TMPDIR": str(tmp_path),
        },
    )
    ratchet.check(passed, HERE / "cases.txt", output)
