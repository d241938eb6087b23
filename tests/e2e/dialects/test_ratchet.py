"""Lists of cases only grow."""

import pytest

from dialects import ratchet

LIST = """# A comment.
[passes]
a::one
a::two[x: y]

[no images are read]
a::three
"""
PASSED = {"a::one": True, "a::two[x: y]": True, "a::three": False}


@pytest.fixture
def cases(tmp_path):
    path = tmp_path / "cases.txt"
    path.write_text(LIST, encoding="utf-8")
    return path


def test_a_list_says_what_passes_and_why_the_rest_does_not(cases):
    assert ratchet.read_list(cases) == {
        "a::one": ratchet.PASSES,
        "a::two[x: y]": ratchet.PASSES,
        "a::three": "no images are read",
    }
    ratchet.check(PASSED, cases)


@pytest.mark.parametrize(
    "change, what",
    [
        ({"a::one": False}, "a::one fails"),
        ({"a::three": True}, "a::three passes now"),
        ({"a::four": False}, "a::four is new"),
        ({"a::four": True}, "a::four passes now"),
        ({"a::three": None}, "a::three is gone"),
    ],
)
def test_a_difference_is_an_error(cases, change, what):
    passed = {name: value for name, value in (PASSED | change).items()
              if value is not None}
    with pytest.raises(AssertionError, match=what):
        ratchet.check(passed, cases)


def test_outcomes_are_those_of_pytest(tmp_path):
    (tmp_path / "some_cases.py").write_text(
        "import pytest\n"
        "def test_good(): pass\n"
        "def test_bad(): assert False\n"
        "@pytest.mark.skip\ndef test_skipped(): pass\n",
        encoding="utf-8",
    )
    passed, output = ratchet.run_pytest(
        [str(tmp_path / "some_cases.py")], tmp_path / "report.xml", 60
    )
    assert passed == {
        "some_cases::test_good": True,
        "some_cases::test_bad": False,
        "some_cases::test_skipped": False,
    }
    assert "1 failed, 1 passed, 1 skipped" in output
