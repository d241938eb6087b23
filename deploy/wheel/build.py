"""Makes the wheel `plimsoll-llm`: our programs and the libraries that they need.

Usage: build.py PREFIX VERSION FOLDER

PREFIX is a folder into which `cmake --install --component programs` has put the
programs. The wheel is written into FOLDER, and its name on stdout; the folder
`wheel` beside PREFIX has its files. Needs patchelf, readelf, and libraries that
are Debian packages. The same programs and libraries make the same wheel.
"""

import base64
import hashlib
import pathlib
import re
import shutil
import sys
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import licences  # noqa: E402  (these lie in the folder above)
import parts  # noqa: E402
import system  # noqa: E402
from system import said  # noqa: E402

PROGRAMS = ("plimsoll", "plimsoll-gateway", "plimsoll-planner", "plimsoll-worker")
COMMANDS = {
    "plimsoll": "plimsoll",
    "plimsoll-gateway": "gateway",
    "plimsoll-planner": "planner",
    "plimsoll-worker": "worker",
}
# What `plimsoll pull` opens at run time. The system's own could need a newer OpenSSL
# than the one that goes along.
OPENED = ("libcurl.so.4",)
# What every system with the glibc of the tag has (PEP 600's policies agree).
OF_THE_SYSTEM = re.compile(
    r"(ld-linux-[\w-]+|lib(c|m|dl|rt|pthread|resolv|gcc_s|stdc\+\+))\.so\.\d+"
)
GLIBC = (2, 36)
TAG = f"py3-none-manylinux_{GLIBC[0]}_{GLIBC[1]}_{system.MACHINE}"
# The oldest time that a zip file can say.
TIME = (1980, 1, 1, 0, 0, 0)


def opened_libraries():
    """The paths of the libraries of OPENED, by name."""
    found = {name: pathlib.Path(system.LIBRARIES, name) for name in OPENED}
    for path in found.values():
        if not path.exists():
            raise SystemExit(f"error: there is no {path}")
    return found


def libraries_of(programs):
    """The paths of the libraries that the programs need and that go along."""
    opened = opened_libraries()
    found = opened | system.libraries_of([*programs, *opened.values()])
    return {
        name: path
        for name, path in sorted(found.items())
        if not OF_THE_SYSTEM.fullmatch(name)
    }


def check_glibc(files):
    """Refuses files that need a newer glibc than the tag says."""
    for file in files:
        for major, minor in re.findall(r"\bGLIBC_(\d+)\.(\d+)", said("readelf", "-V", file)):
            if (int(major), int(minor)) > GLIBC:
                raise SystemExit(
                    f"error: {file} needs glibc {major}.{minor}, the wheel is for "
                    f"{GLIBC[0]}.{GLIBC[1]}; make it on Debian 12"
                )


def fill(package, prefix):
    """Puts programs, data and libraries into the package; returns the latter."""
    shutil.copytree(HERE / "plimsoll_llm", package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(prefix / "bin", package / "bin")
    shutil.copytree(prefix / "share" / "plimsoll", package / "share" / "plimsoll")
    programs = [package / "bin" / name for name in PROGRAMS]
    libraries = libraries_of(programs)
    (package / "lib").mkdir()
    for name, path in libraries.items():
        shutil.copyfile(path, package / "lib" / name)
    for program in programs:
        # RPATH and not RUNPATH: it holds for libraries of libraries, too.
        said("patchelf", "--force-rpath", "--set-rpath", "$ORIGIN/../lib", program)
    check_glibc([*programs, *(package / "lib").iterdir()])
    return libraries


def write_info(info, version, libraries):
    """Writes the files that pip reads, all but the list of files."""
    named = licences.copy_licences(info / "licenses", libraries.values())
    shutil.copyfile(HERE.parents[1] / "LICENSE", info / "licenses" / "LICENSE")
    along = parts.needed(libraries.values(), parts.BROUGHT_ALONG)
    # The folder that PEP 770 names.
    path = info / "sboms" / "plimsoll.cdx.json"
    parts.write(path, "plimsoll-llm", version, parts.compiled_in() + along)
    lines = [
        "Metadata-Version: 2.4",
        "Name: plimsoll-llm",
        f"Version: {version}",
        "Summary: Plans the memory of language models, loads them and streams text",
        "License-Expression: Apache-2.0",
        *(f"License-File: {name}" for name in ("LICENSE", *named)),
        "Requires-Python: >=3.9",
        "Description-Content-Type: text/markdown",
        "",
        (HERE / "README.md").read_text(encoding="utf-8"),
    ]
    (info / "METADATA").write_text("\n".join(lines), encoding="utf-8")
    (info / "WHEEL").write_text(
        "Wheel-Version: 1.0\nGenerator: plimsoll\nRoot-Is-Purelib: false\n"
        f"Tag: {TAG}\n"
    )
    (info / "entry_points.txt").write_text(
        "[console_scripts]\n"
        + "".join(f"{name} = plimsoll_llm:{to}\n" for name, to in COMMANDS.items())
    )


def digest(data):
    """A file's hash, as RECORD has it."""
    coded = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
    return f"sha256={coded.decode().rstrip('=')}"


def pack(folder, info, wheel):
    """Writes all files of `folder` into the wheel, and the list of them."""
    record = info / "RECORD"
    rows = []
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for path in files:
        data = path.read_bytes()
        rows.append(f"{path.relative_to(folder)},{digest(data)},{len(data)}\n")
    record.write_text("".join(rows) + f"{record.relative_to(folder)},,\n")
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as out:
        for path in (*files, record):
            entry = zipfile.ZipInfo(str(path.relative_to(folder)), TIME)
            mode = 0o755 if path.parent.name == "bin" else 0o644
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            out.writestr(entry, path.read_bytes())


def main():
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    prefix, version, out = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
    tree = prefix.parent / "wheel"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    libraries = fill(tree / "plimsoll_llm", prefix)
    info = tree / f"plimsoll_llm-{version}.dist-info"
    info.mkdir()
    write_info(info, version, libraries)
    out.mkdir(parents=True, exist_ok=True)
    wheel = out / f"plimsoll_llm-{version}-{TAG}.whl"
    pack(tree, info, wheel)
    print(wheel)


if __name__ == "__main__":
    main()
