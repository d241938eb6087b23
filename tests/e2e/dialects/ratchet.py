"""Suites of others, and the lists of their cases that pass.

A list has the cases that pass below the line "[passes]", and the others below
lines such as "[no images are read]", which say why they do not. So a list only
grows: a case that fails and should pass, or that passes and should not, or that
the list lacks, is an error.
"""

import subprocess
import sys
import xml.etree.ElementTree as xml

PASSES = "passes"


def read_list(path):
    """Why each case does not pass, or PASSES, by name."""
    cases = {}
    reason = None
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        if line.startswith("["):
            reason = line.strip("[]")
            continue
        assert line not in cases, f"{path.name} has {line} twice"
        cases[line] = reason
    return cases


def run_pytest(arguments, report, seconds, **options):
    """Runs pytest and returns whether each case passed, by name."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
               f"--junitxml={report}", *arguments]
    ran = subprocess.run(
        command, capture_output=True, text=True, timeout=seconds, check=False, **options
    )
    assert ran.returncode in (0, 1), ran.stdout + ran.stderr
    passed = {}
    for case in xml.parse(report).iter("testcase"):
        module = case.get("classname").split(".")[-1]
        passed[f"{module}::{case.get('name')}"] = not any(
            case.find(kind) is not None for kind in ("failure", "error", "skipped")
        )
    return passed, ran.stdout


def check(passed, path, output=""):
    """Compares what passed with the list at `path`."""
    cases = read_list(path)
    listed = {name for name, reason in cases.items() if reason == PASSES}
    passing = {name for name, has_passed in passed.items() if has_passed}
    wrong = [f"{name} fails" for name in sorted(listed & set(passed) - passing)]
    wrong += [f"{name} passes now: add it" for name in sorted(passing - listed)]
    wrong += [f"{name} is new" for name in sorted(set(passed) - set(cases) - passing)]
    wrong += [f"{name} is gone" for name in sorted(set(cases) - set(passed))]
    assert not wrong, f"{path.name}:\n" + "\n".join(wrong) + f"\n{output[-20000:]}"
