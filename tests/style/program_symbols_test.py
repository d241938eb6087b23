"""A planner's and a gateway's program have no engine and no kernels.

Usage: program_symbols_test.py WITH_ENGINE PROGRAM...

WITH_ENGINE is a program that has them, which shows that they would be found. Each name
is one that the linker keeps wherever its file is linked.
"""

import re
import subprocess
import sys

PARTS = {
    "the engine": r"plimsoll::worker::Engine::Submit\(",
    "the kernels for CPUs": r"plimsoll::kernels::NewCpuBackend\(",
}


def parts_of(program):
    """The parts of PARTS that a program has."""
    done = subprocess.run(
        ["nm", "--demangle", "--defined-only", program],
        capture_output=True, text=True, check=True,
    )
    return [name for name, pattern in PARTS.items() if re.search(pattern, done.stdout)]


def main():
    with_engine, *programs = sys.argv[1:]
    if parts_of(with_engine) != list(PARTS):
        raise SystemExit(f"{with_engine} lacks what this test looks for: correct PARTS")
    for program in programs:
        if found := parts_of(program):
            raise SystemExit(
                f"{program} has {' and '.join(found)}: a library that it links brings "
                "them; split that library (services/CMakeLists.txt)"
            )


if __name__ == "__main__":
    main()
