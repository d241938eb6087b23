"""Runs clang-tidy over every room: base, planner, kernels, worker, services.

Usage: tidy.py [--all-checks] BUILD. BUILD is a configured folder of the preset
`asan` with every instruction path, whose generated headers are there. Prints
the findings and exits 1 if there are any. Without --all-checks some checks that
take long are left out, and the static analyzer looks less deep.

Headers are what takes clang-tidy's time, so files are read as one where that
compiles. Files for Highway are read for one instruction set; the others are
instances of the same text. The text of CUDA's kernels is not read, only what
the host runs.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

ROOMS = ("base", "planner", "kernels", "worker", "services")
# A unit includes .cc files, which is what this check is about.
CHECKS = "-bugprone-suspicious-include"
# A third of the time, and they rarely find anything.
RARE_CHECKS = ("-bugprone-assert-side-effect,-bugprone-multiple-statement-macro,"
               "-bugprone-reserved-identifier,-bugprone-stringview-nullptr,"
               "-bugprone-suspicious-semicolon,-bugprone-suspicious-string-compare,"
               "-bugprone-undelegated-constructor")
# More than half of the time of what includes gRPC.
SLOW_CHECK = "-performance-unnecessary-value-param"
# Without these the static analyzer takes nine tenths of the time of some units,
# as it follows calls as deep as it can.
SHALLOW = [f"--extra-arg={word}" for setting in ("mode=shallow", "max-nodes=5000")
           for word in ("-Xclang", "-analyzer-config", "-Xclang", setting)]
# Products of a panel's, a tile's or a span's constants are far below 2^31, and
# a cast in each would hide the arithmetic.
SMALL_PRODUCTS = "-bugprone-implicit-widening-of-multiplication-result"
# A panel has low parts where its decoder reads them, which the analyzer does not
# know.
LOW_PARTS = "-clang-analyzer-core.NullDereference"
# One instruction set, the one with the most kernels of its own.
HIGHWAY = ["-DHWY_COMPILE_ONLY_STATIC", "-march=icelake-server"]
# What needs CUDA's headers, and is read where they are.
CUDA_HOST = ("runtime.cc", "kernel_graph.cc", "driver_memory.cc",
             "device_rates.cc")


# Targets whose files can be read as one.
READ_TOGETHER = {
    "planner": ("plimsoll_planner_fleet", "plimsoll_planner_gguf",
                "plimsoll_planner_lease", "plimsoll_planner_model"),
    "worker": ("plimsoll_worker_cache", "plimsoll_worker_device",
               "plimsoll_worker_engine", "plimsoll_worker_files",
               "plimsoll_worker_graph", "plimsoll_worker_sampling",
               "plimsoll_worker_scheduling"),
    "worker/text": ("plimsoll_text_base", "plimsoll_text_chat",
                    "plimsoll_text_grammar", "plimsoll_text_jinja",
                    "plimsoll_text_tokenizer"),
    "services/cli": ("plimsoll_cli_backends", "plimsoll_cli_chat",
                     "plimsoll_cli_flags", "plimsoll_cli_terminal",
                     "plimsoll_cli_views"),
    "services/server": ("plimsoll_host", "plimsoll_server", "plimsoll_settings",
                        "plimsoll_wire"),
    "services/http": ("plimsoll_http", "plimsoll_http_local",
                      "plimsoll_http_server"),
    "services/metrics": ("plimsoll_metrics", "plimsoll_planner_metrics",
                         "plimsoll_worker_metrics"),
    "services/worker": ("plimsoll_call_rules", "plimsoll_generation",
                        "plimsoll_generation_wire", "plimsoll_host_devices",
                        "plimsoll_sources", "plimsoll_worker_calls",
                        "plimsoll_worker_models", "plimsoll_worker_process"),
}
TOGETHER = {target: name
            for name, targets in READ_TOGETHER.items() for target in targets}


def arguments_of(entry):
    """The arguments of a compile command without its file and its output."""
    words = shlex.split(entry["command"].replace("-isystem ", "-isystem"))
    kept = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in ("-o", "-c", "-MF", "-MT", "-Xclang"):
            skip = True  # -Xclang brings compiled headers, which tidy can't read
        elif word != "-MD":
            kept.append(word)
    return kept


def target_of(entry):
    """The target that a compile command belongs to."""
    # Its output, as headers may be another target's.
    return re.search(r" -o \S*CMakeFiles/([\w-]+)\.dir/", entry["command"])[1]


def room_of(root, build, path):
    """The room of a source, or of a unit that CMake made; None of others."""
    for base in (build, root):
        if path.is_relative_to(base):
            room = path.relative_to(base).parts[0]
            return room if room in ROOMS else None
    return None


def sources_of(path):
    """The files that a source or a unit consists of."""
    if not path.name.startswith("unity_"):
        return [path]
    return [pathlib.Path(line.split('"')[1])
            for line in path.read_text().splitlines()
            if line.startswith("#include")]


def unit_of(root, room, target, entry):
    """The name of the unit that a compile command's files belong to."""
    path = pathlib.Path(entry["file"])
    if path.name.startswith("unity_"):
        alone = target if room == "services" else f"{target}_{path.stem}"
        return TOGETHER.get(target, alone)
    if room == "services" and "-DPLIMSOLL_VERSION" in entry["command"]:
        return TOGETHER.get(target, target)
    # Files whose private names are those of other files too.
    alone = (room == "services" or target.endswith("_emulated")
             or (path.parent.name == "mat_mul"
                 and "foreach_target" in path.read_text()))
    return str((path if alone else path.parent).relative_to(root))


def units(root, build):
    """Returns {name: (sources, arguments)} of what clang-tidy shall read."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["file"])
        room = room_of(root, build, path)
        if room is None or path.suffix == ".cu":
            continue
        target = target_of(entry)
        name = unit_of(root, room, target, entry)
        sources, arguments = found.setdefault(name, ([], []))
        sources += sources_of(path)
        arguments += [word for word in arguments_of(entry)
                      if word not in arguments]
        if target == "plimsoll_kernels_cpu" and HIGHWAY[0] not in arguments:
            arguments += HIGHWAY
    nvcc = shutil.which("nvcc")
    if nvcc:
        include = pathlib.Path(nvcc).resolve().parent.parent / "include"
        words = ["clang++-14", f"-I{root}", "-std=c++20", f"-isystem{include}"]
        for name in CUDA_HOST:
            path = root / "kernels/cuda" / name
            found[str(path.relative_to(root))] = ([path], words)
    return found


def write_units(folder, found):
    """Writes the units of `found` that have several files, and how each is
    compiled; returns {name: file to read}."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    files = {}
    database = []
    for name, (sources, arguments) in found.items():
        file = sources[0]
        if len(sources) > 1:
            file = folder / f"{name.replace('/', '_')}.cc"
            file.write_text("".join(f'#include "{s}"\n' for s in sources))
        files[name] = str(file)
        database.append({"directory": str(folder), "file": str(file),
                         "arguments": [*arguments, "-c", str(file)]})
    (folder / "compile_commands.json").write_text(json.dumps(database))
    return files


def check(folder, file, checks, options):
    """Returns the seconds that a unit took and what was found in it."""
    start = time.monotonic()
    done = subprocess.run(
        ["clang-tidy-14", "--quiet", "-p", str(folder), f"--checks={checks}",
         *options, file],
        capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr if done.returncode else ""
    return time.monotonic() - start, said


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    build = pathlib.Path(sys.argv[-1]).resolve()
    found = units(root, build)
    files = write_units(build / "tidy", found)
    # Units of many files first, so that no core waits for one at the end.
    names = sorted(files, key=lambda name: -len(found[name][0]))
    takes_long = "--all-checks" in sys.argv

    def run(name):
        checks = [CHECKS]
        room = room_of(root, build, found[name][0][0])
        if not takes_long:
            checks.append(RARE_CHECKS)
            if room == "services":
                checks.append(SLOW_CHECK)
        if room == "kernels":
            checks += [SMALL_PRODUCTS, LOW_PARTS]
        return check(build / "tidy", files[name], ",".join(checks),
                     [] if takes_long else SHALLOW)

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, (seconds, said) in zip(names, pool.map(run, names)):
            print(f"    {seconds:5.1f} s {name}", file=sys.stderr)
            if said:
                print(said)
                failed += 1
    print(f"{len(files)} units read, {failed} with findings")
    return 1 if failed or not files else 0


if __name__ == "__main__":
    sys.exit(main())
