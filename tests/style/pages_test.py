"""The pages name every error reason and every page, and links of all pages lead
somewhere.

Usage: pages_test.py [-v]
"""

import pathlib
import re
import unittest

import check_tree

SOURCE_DIR = pathlib.Path(__file__).resolve().parents[2]
DOCS_DIR = SOURCE_DIR / "docs"


def anchors(text):
    """The anchors of a page's headings, as web sites make them."""
    found = set()
    for heading in re.findall(r"(?m)^#+ (.*)$", text):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        found.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return found


def links(text):
    """What a page's links lead to, but for other sites and what code shows."""
    text = re.sub(r"(?ms)^```.*?^```", "", text)
    return [target for target in re.findall(r"\]\(([^)\s]+)\)", text)
            if not re.match(r"[a-z]+:", target)]


class PagesTest(unittest.TestCase):
    def test_every_reason_says_what_to_do(self):
        proto = (SOURCE_DIR / "proto/plimsoll/v1/common.proto").read_text()
        reasons = set(re.findall(r"(?m)^  ERROR_REASON_(\w+) = ", proto))
        page = (DOCS_DIR / "troubleshooting.md").read_text()
        rows = re.findall(r"(?m)^\| `([A-Z_]+)` \| [^|]+ \| [^|]+ \| [^|]+ \|$", page)
        self.assertEqual(len(rows), len(set(rows)))
        self.assertEqual(set(rows), reasons - {"UNSPECIFIED"})

    def test_the_index_has_every_page(self):
        index = (DOCS_DIR / "README.md").read_text()
        for page in DOCS_DIR.glob("*.md"):
            if page.name != "README.md":
                self.assertIn(f"({page.name}", index)

    def test_links_lead_somewhere(self):
        names = check_tree.tracked_files(SOURCE_DIR)
        n_links = 0
        for page in [SOURCE_DIR / name for name in names if name.endswith(".md")]:
            for target in links(page.read_text()):
                path, _, anchor = target.partition("#")
                found = (page.parent / path).resolve() if path else page
                where = f"{page.relative_to(SOURCE_DIR)}: {target}"
                self.assertTrue(found.exists(), where)
                if anchor:
                    self.assertIn(anchor, anchors(found.read_text()), where)
                n_links += 1
        self.assertGreater(n_links, 0)

    def test_links_are_found(self):
        text = "[a](b.md#c) and [d](https://e.f)\n```\n[g](h.md)\n```\n[i](#j)\n"
        self.assertEqual(links(text), ["b.md#c", "#j"])


if __name__ == "__main__":
    unittest.main()
