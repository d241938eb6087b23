"""The programs of Plimsoll, as commands of a Python environment."""

import os
import pathlib
import sys


def _become(program):
    """Turns this process into one of the package's programs."""
    path = pathlib.Path(__file__).resolve().parent / "bin" / program
    os.execv(path, [program, *sys.argv[1:]])


def plimsoll():
    """The command `plimsoll`."""
    _become("plimsoll")


def gateway():
    """The command `plimsoll-gateway`."""
    _become("plimsoll-gateway")


def planner():
    """The command `plimsoll-planner`."""
    _become("plimsoll-planner")


def worker():
    """The command `plimsoll-worker`."""
    _become("plimsoll-worker")
