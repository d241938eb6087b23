"""Every test that docs/reliability.md names is there, and no promise is left out.

The fault points are those of docs/development.md.

Usage: reliability_test.py [-v]
"""

import pathlib
import re
import unittest

SOURCE_DIR = pathlib.Path(__file__).resolve().parents[2]
N_PROMISES = 30


def is_there(name):
    """Whether `FILE::TEST` is a test below tests/."""
    path, _, test = name.partition("::")
    file = SOURCE_DIR / "tests" / path
    if not file.is_file():
        return False
    if file.suffix == ".py":
        pattern = rf"(?m)^ *def {re.escape(test)}\("
    else:
        suite, _, case = test.partition(".")
        pattern = (rf"(?m)^(TEST|TEST_F|TEST_P|RC_GTEST_PROP|RC_GTEST_FIXTURE_PROP)"
                   rf"\(\s*{re.escape(suite)},\s*{re.escape(case)}\s*[,)]")
    return re.search(pattern, file.read_text(encoding="utf-8")) is not None


class ReliabilityTest(unittest.TestCase):
    def setUp(self):
        self.page = (SOURCE_DIR / "docs/reliability.md").read_text(encoding="utf-8")
        self.rows = re.findall(r"(?m)^\| F(\d+) \|(.*)\|$", self.page)

    def test_every_promise_has_a_row_and_a_test(self):
        numbers = [int(number) for number, _ in self.rows]
        self.assertEqual(numbers, list(range(1, N_PROMISES + 1)))
        for number, row in self.rows:
            self.assertRegex(row, r"`[^`]+::[^`]+`", f"F{number}")

    def test_every_promise_has_a_test_that_bears_its_number(self):
        for number, row in self.rows:
            self.assertRegex(row, rf"::(test_f{number:0>2}_|\w+\.F{number}[A-Z])",
                             f"F{number}")

    def test_every_test_is_there(self):
        for line in self.page.splitlines():
            for name in re.findall(r"`([^`]+::[^`]+)`", line):
                self.assertTrue(is_there(name), f"no test {name}")

    def test_a_test_that_is_not_there_is_found(self):
        file = "e2e/faults/test_faults.py"
        self.assertTrue(is_there(f"{file}::test_f28_no_text_of_a_caller_is_logged"))
        self.assertFalse(is_there(f"{file}::test_f28"))
        self.assertFalse(is_there("e2e/test_no_such_file.py::test_f28"))
        file = "planner/lease/lease_book_test.cc"
        self.assertTrue(is_there(f"{file}::LeaseBookTest.ExpiryAloneFreesNothing"))
        self.assertFalse(is_there(f"{file}::LeaseBookTest.ExpiryAlone"))


class FaultPointsTest(unittest.TestCase):
    """The list of docs/development.md is that of the code."""

    def test_every_point_is_listed_once_and_every_listed_one_is_there(self):
        found = []
        for room in ("base", "kernels", "worker", "services"):
            for path in sorted((SOURCE_DIR / room).rglob("*.cc")):
                code = path.read_text(encoding="utf-8")
                found += re.findall(r'PLIMSOLL_FAULT\(\s*"([^"]+)"', code)
        page = (SOURCE_DIR / "docs/development.md").read_text(encoding="utf-8")
        table = page.partition("| point | what fails |")[2].partition("\n- **")[0]
        listed = re.findall(r"(?m)^ *\| `([a-z_.]+)` \|", table)
        self.assertEqual(listed, sorted(set(found)))
        self.assertEqual(len(found), len(set(found)), "a name stands in two places")

    def test_the_planners_rules_have_no_points(self):
        for path in (SOURCE_DIR / "planner").rglob("*.*"):
            self.assertNotIn("base/sync/fault.h", path.read_text(encoding="utf-8"), path)


if __name__ == "__main__":
    unittest.main()
