"""Builds the package: makes the messages' code and the synchronous client.

Neither is in the repository. protoc makes `plimsoll_grpc/v1` from the protos.
`plimsoll_grpc/sync` is `plimsoll_grpc/aio` without its `async` and `await`.
"""

import importlib.metadata
import pathlib
import re
import shutil

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = pathlib.Path(__file__).resolve().parent
PROTOS = "plimsoll/v1"

# What turns a line of the asynchronous client into one of the synchronous one.
TO_SYNC = (
    (re.compile(r"\basync (?=def|for|with)"), ""),
    (re.compile(r"\bawait "), ""),
    (re.compile(r"\b__a(enter|exit|iter|next)__\b"), r"__\1__"),
    (re.compile(r"\bAsyncIterator\b"), "Iterator"),
    (re.compile(r"\bStopAsyncIteration\b"), "StopIteration"),
    (re.compile(r"\basyncio\.CancelledError\b"), "grpc.FutureCancelledError"),
    (re.compile(r"^import asyncio\n", re.MULTILINE), ""),
    (re.compile(r"\bgrpc\.aio\b"), "grpc"),
    (re.compile(r"\bplimsoll_grpc\.aio\b"), "plimsoll_grpc.sync"),
    (re.compile(r"\basynchronous\b"), "synchronous"),
)


def proto_folder():
    """The folder of the protos: an sdist has a copy, the repository has them."""
    copied = HERE / "proto"
    return copied if copied.is_dir() else HERE.parents[1] / "proto"


def make_messages(folder):
    """Writes the messages' code, its types and the service config."""
    # Only a build needs it, and `setup.py` is read for other reasons, too.
    from grpc_tools import protoc

    source = proto_folder()
    well_known = pathlib.Path(protoc.__file__).parent / "_proto"
    made = folder / "made"
    made.mkdir()
    files = sorted(str(path) for path in (source / PROTOS).glob("*.proto"))
    arguments = ["protoc", f"-I{source}", f"-I{well_known}"]
    arguments += [f"--python_out={made}", f"--pyi_out={made}"]
    if not files or protoc.main(arguments + files) != 0:
        raise RuntimeError(f"protoc made no code from {source}")
    for path in (made / PROTOS).iterdir():
        text = path.read_text(encoding="utf-8")
        text = text.replace("from plimsoll.v1", "from plimsoll_grpc.v1")
        # protoc leaves out what --strict asks for.
        text = text.replace(", _Mapping]", ", _Mapping[str, object]]")
        (folder / path.name).write_text(text, encoding="utf-8")
    shutil.rmtree(made)
    shutil.copy(source / PROTOS / "service_config.json", folder)


def make_sync(source, folder):
    """Writes the synchronous form of each module of `source`."""
    folder.mkdir(exist_ok=True)
    for path in source.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        for pattern, replacement in TO_SYNC:
            text = pattern.sub(replacement, text)
        (folder / path.name).write_text(text, encoding="utf-8")


def requirements():
    """What the code needs: code of a protoc runs with the protobuf that
    grpcio-tools, which has that protoc, names."""
    needed = importlib.metadata.requires("grpcio-tools") or []
    needed = [name for name in needed if not name.startswith("setuptools")]
    return needed + ["googleapis-common-protos", "grpcio-health-checking"]


class BuildPy(build_py):
    """Adds what is made to what is copied."""

    def get_package_dir(self, package):
        return super().get_package_dir(package.replace(".sync", ".aio"))

    def run(self):
        super().run()
        package = pathlib.Path(self.build_lib) / "plimsoll_grpc"
        make_messages(package / "v1")
        make_sync(HERE / "plimsoll_grpc" / "aio", package / "sync")


class Sdist(sdist):
    """Adds the protos, so that a wheel can be built from the sdist alone."""

    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        shutil.copytree(
            proto_folder() / PROTOS, pathlib.Path(base_dir) / "proto" / PROTOS
        )


setup(install_requires=requirements(), cmdclass={"build_py": BuildPy, "sdist": Sdist})
