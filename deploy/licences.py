"""Copies the licences of what our programs contain or bring along.

Usage: licences.py FOLDER [LIBRARY...]

For each library, and for the headers whose code the compiler puts into our
programs, FOLDER gets a file of the name of its Debian package: what that package
says of its copyright.
"""

import pathlib
import shutil
import sys

from system import SYSROOT, package_of

# A file of each package whose code is compiled in and is in no library.
COMPILED_IN = (
    "/usr/include/CLI/CLI.hpp",
    "/usr/include/boost/version.hpp",
    "/usr/include/nlohmann/json.hpp",
    "/usr/share/gocode/src/github.com/gogo/googleapis/google/rpc/status.proto",
)


def copy_licences(folder, libraries):
    """Writes the licence of each package into `folder`; returns their names."""
    folder.mkdir(parents=True, exist_ok=True)
    packages = {package_of(path) for path in (*COMPILED_IN, *libraries)}
    for package in packages:
        shutil.copyfile(f"{SYSROOT}/usr/share/doc/{package}/copyright", folder / package)
    return sorted(packages)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    copy_licences(pathlib.Path(sys.argv[1]), sys.argv[2:])
