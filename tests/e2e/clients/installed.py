"""Builds clients/python as its users do, and imports it from an environment.

An sdist is made of the sources, a wheel of the sdist, and pip installs the wheel
in a new environment, where the packages of this one count as installed.
"""

import atexit
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv

import stubs

CLIENTS_DIR = stubs.SOURCE_DIR / "clients"
FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="plimsoll-client-"))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
ENVIRONMENT = FOLDER / "environment"

BUILD_SDIST = "import setuptools.build_meta as b; print(b.build_sdist('..'))"


def _run(*command, cwd=FOLDER):
    """What a command says; fails with that if the command does."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(done.args)}:\n{done.stdout}")
    return done.stdout


def _pip(*arguments):
    quiet = ("--quiet", "--disable-pip-version-check")
    _run(sys.executable, "-m", "pip", *quiet, *arguments)


def _install():
    """Puts the environment's packages on sys.path."""
    # The build writes beside its sources.
    sources = FOLDER / "clients" / "python"
    shutil.copytree(CLIENTS_DIR / "python", sources)
    shutil.copytree(stubs.SOURCE_DIR / "proto", FOLDER / "proto")
    _run(sys.executable, "-c", BUILD_SDIST, cwd=sources)
    (sdist,) = FOLDER.glob("clients/plimsoll_grpc-*.tar.gz")
    _pip("wheel", "--no-build-isolation", "--no-deps", "-w", FOLDER, sdist)
    (wheel,) = FOLDER.glob("plimsoll_grpc-*.whl")
    venv.create(ENVIRONMENT)
    bases = {"base": str(ENVIRONMENT), "platbase": str(ENVIRONMENT)}
    packages = pathlib.Path(sysconfig.get_path("purelib", "venv", bases))
    (packages / "tests.pth").write_text(sysconfig.get_path("purelib"))
    _pip("--python", ENVIRONMENT / "bin" / "python", "install", "--no-index", wheel)
    sys.path.insert(0, str(packages))
    return packages


PACKAGES = _install()
