"""The system whose libraries our programs use: this one, or 64-bit ARM's in a folder.

The variable PLIMSOLL_SYSROOT names that folder, which scripts/arm64_sysroot.sh makes.
Its database of dpkg has the paths of this machine.
"""

import os
import pathlib
import platform
import subprocess

SYSROOT = os.environ.get("PLIMSOLL_SYSROOT", "")
MACHINE = "aarch64" if SYSROOT else platform.machine()
LIBRARIES = f"{SYSROOT}/usr/lib/{MACHINE}-linux-gnu"


def said(*command):
    """What a command prints."""
    words = [str(word) for word in command]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def said_by_dpkg(*arguments):
    """What dpkg-query prints of the system's packages."""
    return said("dpkg-query", f"--admindir={SYSROOT}/var/lib/dpkg", *arguments)


def package_of(path):
    """The Debian package of a file, without its architecture."""
    # /lib is a link to /usr/lib, and a package may name either.
    plain = str(path).removeprefix(SYSROOT).removeprefix("/usr")
    for name in (f"{SYSROOT}/usr{plain}", f"{SYSROOT}{plain}"):
        try:
            return said_by_dpkg("-S", name).split(":")[0]
        except subprocess.CalledProcessError:
            continue
    raise SystemExit(f"error: {path} is of no Debian package, so its licence is unknown")


def version_of(package):
    """The version of a package."""
    return said_by_dpkg("-W", "-f", "${Version}\\n", package).split()[0]


def libraries_of(programs):
    """The paths of the libraries that programs need, by name."""
    ldd = ["ldd"]
    if SYSROOT:
        folders = f"{LIBRARIES}:{SYSROOT}/lib/{MACHINE}-linux-gnu"
        ldd = ["qemu-aarch64-static", f"{SYSROOT}/lib/ld-linux-aarch64.so.1"]
        ldd += ["--library-path", folders, "--list"]
    found = {}
    for program in programs:
        for line in said(*ldd, program).splitlines():
            words = line.split()
            if "not found" in line:
                raise SystemExit(f"error: {program}: {line.strip()}")
            if len(words) > 2 and words[1] == "=>":
                found[words[0]] = pathlib.Path(words[2])
    return dict(sorted(found.items()))
