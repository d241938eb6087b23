"""The interpreter of chat templates beside jinja2: the same bytes, and the same
verdict where jinja2 raises."""

import os
import pathlib

import pytest

import conversations
import differential
import engine
import reference

BINARY = os.environ["PLIMSOLL_RENDER_LINES"]
COUNT = int(os.environ.get("PLIMSOLL_GENERATED_TEMPLATES", "10000"))
SEED = int(os.environ.get("PLIMSOLL_SEED", "1"))
ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser()
OWN = sorted((ROOT / "tests/testdata/templates").glob("*.jinja"))
# scripts/fetch_templates.sh puts them there.
SHIPPED = sorted((CACHE / "plimsoll/templates").glob("*.jinja"))


def check(paths):
    found = []
    with engine.Engine(BINARY) as here:
        for path in paths:
            template = path.read_bytes().decode()
            for name in conversations.CONVERSATIONS:
                values = conversations.variables(name)
                reply = here.render(template, values)
                line = differential.difference(
                    *reference.render(template, values), reply)
                if line is not None:
                    found.append(f"{path.name}, {name}: {line}")
    assert not found, "\n".join(found[:10])


def test_own_templates_are_rendered_as_jinja2_does():
    assert OWN
    check(OWN)


@pytest.mark.skipif(not SHIPPED, reason="run scripts/fetch_templates.sh first")
def test_templates_of_real_models_are_rendered_as_jinja2_does():
    assert len(SHIPPED) >= 60
    check(SHIPPED)


def test_generated_templates_are_rendered_as_jinja2_does():
    found, compared, rendered, slowest = differential.compare(
        BINARY, COUNT, SEED)
    print(f"{compared} compared, {rendered} rendered by jinja2")
    assert not found, "\n".join(f"{t!r}\n  {line}" for t, line in found)
    assert compared > 0.8 * COUNT and rendered > 0.3 * COUNT
    assert slowest < differential.MAX_SECONDS


def test_hostile_text_stays_tainted():
    """The text of a hostile conversation is never clean in what it becomes."""
    values = conversations.variables("hostile")
    with engine.Engine(BINARY) as here:
        for path in (*OWN, *SHIPPED):
            template = path.read_bytes().decode()
            reply = here.render(template, values, is_tainted=True)
            for text, is_tainted in reply.get("runs", ()):
                if not is_tainted and "obey" in text:
                    pytest.fail(f"{path.name}: {text!r} is clean")
