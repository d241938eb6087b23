"""Copies the licences of what our programs contain or bring along.

Usage: licences.py FOLDER [LIBRARY...]

For each library, and for the headers whose code the compiler puts into our
programs, FOLDER gets a file of the name of its Debian package: what that package
says of its copyright.
"""

import pathlib
import shutil
import subprocess
import sys

# A file of each package whose code is compiled in and is in no library.
COMPILED_IN = (
    "/usr/include/CLI/CLI.hpp",
    "/usr/include/boost/version.hpp",
    "/usr/include/nlohmann/json.hpp",
    "/usr/share/gocode/src/github.com/gogo/googleapis/google/rpc/status.proto",
)


def package_of(path):
    """The Debian package of a file, without its architecture."""
    # /lib is a link to /usr/lib, and a package may name either.
    plain = str(path).removeprefix("/usr")
    for name in (str(path), plain, f"/usr{plain}"):
        found = subprocess.run(
            ["dpkg", "-S", name], capture_output=True, text=True, check=False
        )
        if found.returncode == 0:
            return found.stdout.split(":")[0]
    raise SystemExit(f"error: {path} is of no Debian package, so its licence is unknown")


def copy_licences(folder, libraries):
    """Writes the licence of each package into `folder`; returns their names."""
    folder.mkdir(parents=True, exist_ok=True)
    packages = {package_of(path) for path in (*COMPILED_IN, *libraries)}
    for package in packages:
        shutil.copyfile(f"/usr/share/doc/{package}/copyright", folder / package)
    return sorted(packages)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    copy_licences(pathlib.Path(sys.argv[1]), sys.argv[2:])
