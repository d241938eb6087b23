"""The pages name every error reason and every page, and their links lead somewhere.

Usage: pages_test.py [-v]
"""

import pathlib
import re
import unittest

SOURCE_DIR = pathlib.Path(__file__).resolve().parents[2]
DOCS_DIR = SOURCE_DIR / "docs"


def anchors(text):
    """The anchors of a page's headings, as web sites make them."""
    found = set()
    for heading in re.findall(r"(?m)^#+ (.*)$", text):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        found.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return found


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
        n_links = 0
        for page in (DOCS_DIR / "README.md", DOCS_DIR / "troubleshooting.md"):
            for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
                path, _, anchor = target.partition("#")
                file = (DOCS_DIR / path).resolve() if path else page
                self.assertTrue(file.is_file(), target)
                if anchor:
                    self.assertIn(anchor, anchors(file.read_text()), target)
                n_links += 1
        self.assertGreater(n_links, 0)


if __name__ == "__main__":
    unittest.main()
