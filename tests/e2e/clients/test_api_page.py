"""docs/api.md says what the protos say."""

import importlib.util
import re

import stubs

SCRIPT = stubs.SOURCE_DIR / "scripts" / "api_page.py"


def _script():
    spec = importlib.util.spec_from_file_location("api_page", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_current():
    script = _script()
    assert script.PAGE.read_text(encoding="utf-8") == script.page(), (
        "run scripts/api_page.py"
    )


def test_every_link_of_the_page_leads_somewhere():
    text = _script().PAGE.read_text(encoding="utf-8")
    headings = {line.lower() for line in re.findall(r"^#+ (\S+)$", text, re.M)}
    links = set(re.findall(r"\]\(#([^)]+)\)", text))
    assert links and links <= headings


def test_everything_has_a_comment():
    text = _script().PAGE.read_text(encoding="utf-8")
    assert not re.findall(r"^\| .*\|  \|$", text, re.M)
    assert not re.findall(r"^### \S+\n\n\n", text, re.M)
