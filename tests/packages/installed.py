"""Installs the build that the tests are given, and runs commands."""

import os
import pathlib
import shutil
import subprocess
import sys

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
PROGRAMS = ("plimsoll-planner", "plimsoll-worker", "plimsoll-gateway")
UNITS = tuple(f"{name}.service" for name in PROGRAMS)
ANALYZE = shutil.which("systemd-analyze")


def run(*command, **options):
    """What a command prints; fails with that if the command does."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        **options,
    )
    if done.returncode:
        raise AssertionError(f"{' '.join(words)}: {done.returncode}\n{done.stdout}")
    return done.stdout


def install(prefix, destdir=""):
    """Installs the build below a prefix, and that below a root."""
    environment = {**os.environ, "DESTDIR": str(destdir)}
    run("cmake", "--install", BUILD, "--prefix", prefix, env=environment)
