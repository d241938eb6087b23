"""Patterns of cases that sanitizers skip name something: a pattern that a renamed case
left behind would skip nothing, and nobody would notice.

Usage: skipped_cases_test.py [-v]
"""

import pathlib
import re
import unittest

TESTS_DIR = pathlib.Path(__file__).resolve().parents[1]


def skipped(text):
    """The patterns that a CMakeLists.txt gives to plimsoll_skip_if_sanitized."""
    text = re.sub(r"(?m)^\s*#.*$", "", text)
    found = []
    for arguments in re.findall(r"(?m)^ *plimsoll_skip_if_sanitized\(([^)]*)\)", text):
        found += arguments.split()[1:]
    return found


def names(pattern):
    """The parts of a pattern that tests or their parameters are called by. The type of
    a cache is a part: tests put `kv_` before it."""
    return re.findall(r"\w{3,}", pattern.replace("kv_", "*"))


class SkippedCasesTest(unittest.TestCase):
    def test_every_pattern_names_something(self):
        code = "\n".join(path.read_text(encoding="utf-8") for path in TESTS_DIR.rglob("*")
                         if path.suffix in (".cc", ".h"))
        n_patterns = 0
        for path in TESTS_DIR.rglob("CMakeLists.txt"):
            for pattern in skipped(path.read_text(encoding="utf-8")):
                for name in names(pattern):
                    self.assertIn(name, code, f"{path}: nothing is called {pattern}")
                n_patterns += 1
        self.assertGreater(n_patterns, 0)

    def test_patterns_are_read(self):
        text = """
plimsoll_skip_if_sanitized(a_test Suite.Case
  # a comment
  */reference *kv_q8_0)
"""
        self.assertEqual(skipped(text), ["Suite.Case", "*/reference", "*kv_q8_0"])
        self.assertEqual(names("Suite.Case/1"), ["Suite", "Case"])
        self.assertEqual(names("*kv_q8_0"), ["q8_0"])


if __name__ == "__main__":
    unittest.main()
