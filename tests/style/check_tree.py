"""Holds the tree to its rules: who includes whom, sizes, no machine's paths.

Usage: check_tree.py [ROOT]. Prints one line a finding, `file:line: rule`, and
exits 1 if there is any. Looks at the files that git tracks.
"""

import collections
import pathlib
import re
import subprocess
import sys

from cpp_text import code_of, declared, functions

MAX_LINES = 600
# Files of one subject that would not be clearer in two, and why. A new one needs
# a reason as good as these.
MAX_LONG_LINES = 850
LONG_FILES = {
    "planner/lease/lease_book.cc":
        "one class whose methods all keep the same invariants: what a reading "
        "proves changes leases, processes and devices together",
    "services/planner/ledger.cc":
        "one class whose methods share a mutex: each changes the book, the journal "
        "and the devices that others see, or nothing",
}
MAX_FUNCTION_LINES = 60
MAX_PARAMETERS = 4
# Functions whose parameters a library dictates.
DICTATED = {
    "services/fetch/transport.cc": "OnPoll",
    "services/http/http_tls.cc": "ChooseProtocol",
    "services/server/credentials.cc": "AskGuard",
}
MAX_FILE_BYTES = 1 << 20
CODE = (".cc", ".h", ".cu", ".cuh", ".py", ".sh", ".proto", ".js", ".css", ".html")
CPP = (".cc", ".h", ".cu", ".cuh")

# What a room may include besides the standard library, by prefix.
ROOMS = {
    "base": ("base/", "absl/", "nlohmann/"),
    "planner": ("planner/", "base/", "absl/"),
    "kernels": ("kernels/", "base/", "absl/", "hwy/"),
    "worker": ("worker/", "planner/", "kernels/", "base/", "absl/", "pcre2.h"),
}

# The folders of each room, and what each may include of the same room. A folder
# below another one (kernels/cpu/attention) is not named here: it has that one's
# rights, and the two may include each other one way only (check_circles). Which
# way is theirs: either the upper folder has what the lower ones share, and one
# of these knows the others (worker/graph, where decoder/ does), or the lower ones
# are a base of the upper one (services/server/access). A folder may always
# include itself.
FOLDERS = {
    "base": (),
    "base/sync": (),
    "planner/gguf": (),
    "planner/model": ("planner/gguf",),
    "planner/layout": ("planner/model", "planner/gguf"),
    "planner/fleet": ("planner/layout", "planner/model"),
    "planner/lease": (),
    "kernels/quant": (),
    "kernels": ("kernels/quant",),
    "kernels/reference": ("kernels", "kernels/quant"),
    "kernels/cpu": ("kernels", "kernels/quant"),
    "kernels/cuda": ("kernels", "kernels/quant"),
    "worker/text": (),
    "worker/text/tokenizer": ("worker/text",),
    "worker/text/jinja": ("worker/text",),
    "worker/text/chat": (
        "worker/text", "worker/text/tokenizer", "worker/text/jinja",
    ),
    "worker/text/grammar": ("worker/text", "worker/text/tokenizer"),
    "worker/text/schema": ("worker/text", "worker/text/grammar"),
    "worker/device": (),
    "worker/cache": (),
    "worker/scheduling": (),
    "worker/graph": ("worker/device", "worker/cache"),
    "worker/sampling": ("worker/graph", "worker/text/grammar"),
    "worker/engine": (
        "worker/device", "worker/cache", "worker/scheduling", "worker/graph",
        "worker/sampling", "worker/text", "worker/text/tokenizer",
        "worker/text/chat", "worker/text/grammar", "worker/text/schema",
    ),
    "services/host": (),
    "services/wire": ("services/host",),
    "services/sources": ("services/host", "services/wire"),
    "services/convert": ("services/sources",),
    "services/server": ("services/host", "services/wire"),
    "services/tracing": ("services/host", "services/server"),
    "services/settings": ("services/host", "services/server"),
    "services/fetch": ("services/server",),
    "services/generation": (
        "services/host", "services/wire", "services/server", "services/tracing",
    ),
    "services/planner": (
        "services/host", "services/wire", "services/sources", "services/server",
        "services/settings", "services/tracing",
    ),
    "services/worker/models": (
        "services/host", "services/wire", "services/sources", "services/server",
        "services/generation", "services/tracing", "services/fetch",
    ),
    "services/http": (
        "services/host", "services/wire", "services/sources", "services/server",
        "services/tracing", "services/generation", "services/planner",
        "services/worker/models",
    ),
    "services/metrics": (
        "services/host", "services/wire", "services/server", "services/tracing",
        "services/generation", "services/http",
        "services/planner", "services/worker/models",
    ),
    "services/gateway": (
        "services/host", "services/wire", "services/server",
        "services/settings", "services/generation", "services/http",
        "services/metrics", "services/worker/models", "services/tracing",
    ),
    "services/worker/calls": (
        "services/host", "services/wire", "services/server", "services/tracing",
        "services/generation", "services/worker/models",
    ),
    "services/worker/process": (
        "services/host", "services/wire", "services/server",
        "services/settings", "services/generation", "services/http",
        "services/metrics", "services/worker/models", "services/worker/calls",
        "services/tracing",
    ),
    "services/cli/terminal": ("services/wire",),
    "services/cli/views": ("services/cli/terminal",),
    "services/cli/flags": (
        "services/host", "services/wire", "services/sources",
        "services/server", "services/cli/terminal",
    ),
    "services/cli/backends": (
        "services/host", "services/wire", "services/sources",
        "services/server", "services/generation", "services/planner",
        "services/cli/terminal", "services/cli/flags",
    ),
    "services/cli/doctor": (
        "services/host", "services/wire", "services/server", "services/http",
        "services/worker/models", "services/worker/process",
        "services/cli/terminal", "services/cli/flags",
        "services/cli/backends",
    ),
    "services/cli/chat": (
        "services/host", "services/wire", "services/cli/terminal", "services/cli/flags",
        "services/cli/views", "services/cli/backends",
    ),
    "services/cli/commands": (
        "services/host", "services/wire", "services/sources",
        "services/generation",
        "services/convert", "services/fetch", "services/planner",
        "services/http", "services/metrics", "services/server", "services/settings",
        "services/worker/models", "services/worker/process", "services/tracing",
        "services/cli/terminal", "services/cli/flags", "services/cli/views",
        "services/cli/backends", "services/cli/chat", "services/cli/doctor",
    ),
    # The programs.
    "services": (
        "services/host", "services/sources", "services/server",
        "services/settings", "services/http", "services/metrics",
        "services/planner", "services/gateway", "services/worker/models",
        "services/worker/process", "services/tracing",
    ),
}
MAX_FILES = 40  # code files in a folder

# Headers that a room, or a folder of one, may not include, and why.
CLOCK = r"absl/time/clock\.h|chrono|ctime|time\.h|sys/time\.h"
THREAD = r"thread|mutex|shared_mutex|atomic|condition_variable|future|pthread\.h"
THREAD += r"|absl/synchronization/.*|semaphore|barrier|latch|stop_token"
DISK = r"fstream|filesystem|fcntl\.h|unistd\.h|sys/stat\.h|sys/mman\.h|dirent\.h"
STREAM = r"iostream|cstdio|stdio\.h"
FORBIDDEN = {
    "base": ((CLOCK, "base reads no clock"), (THREAD, "base knows no thread")),
    "base/sync": ((CLOCK, "base/sync reads no clock"),),
    "planner": (
        (CLOCK, "planner reads no clock; time is an argument"),
        (THREAD, "planner knows no thread"),
        (f"{DISK}|{STREAM}", "planner does no input or output"),
    ),
    "worker": ((CLOCK, "worker reads no clock; a Clock is injected"),),
}

# A header that only one room's folder may include.
ONLY_IN = (
    (r"base/sync/.*", ("base/sync/", "worker/", "services/", "tests/")),
    (r"grpc.*|.*\.pb\.h|google/.*", ("services/", "clients/", "tests/")),
    (r"cuda.*|cublas.*", ("kernels/cuda/", "tests/kernels/")),
    (r"nlohmann/.*", ("base/json",)),
    (r"boost/.*", ("services/http/http_",)),
    (r"curl/.*", ("services/fetch/curl_library",)),
    (r"prometheus/.*", ("services/metrics/", "tests/services/metrics/")),
    (r"(spdlog|fmt)/.*", ("services/host/log.cc",)),
    (r"histedit\.h", ("services/cli/chat/line_editor",)),
    (r"tests/.*", ("tests/",)),
    (r"absl/log/.*", ()),
)

# Put together here, so that this file holds no such path itself.
MACHINE_PATH = re.compile(
    r"(?<![\w.$}/-])/(" + "|".join(("work", "farm", "root", "tmp")) + r")(/|\b)"
    r"|(?<![\w.$}/-])/home/\w"
)
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')
OPEN_ENDED = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b(?!\(#\d+\))")
# A comment beside code that begins with "of" is half a sentence: it says neither
# what it is about nor anything that can be read alone. A line without code goes
# on with the comment above it.
HALF_SENTENCE = re.compile(r"^\s*(?!//|/\*)\S.*(//|/\*) ?of\b")
HALF_SENTENCE_HASH = re.compile(r"^\s*[^\s#].*\s# ?of\b")
# Abseil's timed waits follow the time of day in Debian 12: base/sync has others.
TIMED_WAIT = re.compile(
    r"\b(AwaitWith|WaitWith|LockWhenWith|WaitForNotificationWith)(Timeout|Deadline)\b"
)
# gRPC swallows what these throw. Then a call has no end, or one that says that
# there is no such method.
REACTION = re.compile(
    r"\bOn(WriteDone|ReadDone|Cancel|Done)\([^)]*\) (?!noexcept\b)(override|final|\{)"
)
METHOD = re.compile(
    r"Reactor(<[^;{}()]*>)?\s*\*\s*\w+\([^(){};]*\)\s+(override|final)\b"
)
THREAD_MADE = re.compile(r"\bstd::j?thread\b(?!::)")
THREAD_FILES = {
    "worker/engine/engine_impl.cc",
    "worker/engine/engine_impl.h",
    "worker/graph/model_pipeline.cc",
    "worker/graph/model_pipeline.h",
    "worker/device/read_ahead.cc",
    "worker/device/read_ahead.h",
    "kernels/start_thread.h",
    "kernels/cpu/thread_pool.cc",
    "kernels/cpu/thread_pool.h",
    "services/host/background.h",
}


# Which tests cover the product files that have none of their own.
COVERED_BY = "tests/style/covered_by.txt"
NO_TEST = re.compile(r"none: \w.{20,}")
MACRO = re.compile(r"^[ \t]*#[ \t]*define \w+\(.*\\$", re.MULTILINE)
PRODUCT = ("base/", "planner/", "kernels/", "worker/", "services/")

# Sources without a header of their name: the folder or file, and the headers that
# declare what is in it. All others have their own: a file is split by subject.
SHARED_HEADERS = {
    # One operation a file.
    "kernels/cpu/": ("kernels/cpu/ops.h", "kernels/cpu/pack_weights.h"),
    "kernels/reference/": ("kernels/reference/ops.h",),
    # The backend, and what a build without CUDA has instead of a source.
    "kernels/cuda/backend.cc": ("kernels/backend.h",),
    "kernels/cuda/backend_stub.cc": ("kernels/backend.h",),
    "kernels/cuda/emulated_graph.cc": ("kernels/cuda/kernel_graph.h",),
    "kernels/cuda/emulated_runtime.cc": ("kernels/cuda/runtime.h",),
    # One architecture a file.
    "planner/model/architectures/": ("planner/model/architecture.h",),
    # One command a file.
    "services/cli/commands/": ("services/cli/commands/commands.h",
                               "services/cli/commands/generate.h"),
}
PROGRAM = re.compile(r"/(\w+_)?main\.cc$")


# A parameter with a default, in code without texts. What `<` opens may hold two more.
ARGUMENTS = r"<[^<>;{}=]*>"
for _ in range(2):
    ARGUMENTS = rf"<(?:[^<>;{{}}=]|{ARGUMENTS})*>"
DEFAULT_ARGUMENT = re.compile(
    r"((?<!for )(?<!if )(?<!while )(?<!switch )(?<!constexpr )\(|,)\s*"
    rf"(const |unsigned )*[\w:]+({ARGUMENTS})?[\s*&]+\w+\s*=(?!=)"
)


def check_parameters(path, text):
    """Yields (line, what is wrong) for functions of too many parameters."""
    for number, name, parameters in declared(text):
        if len(parameters) > MAX_PARAMETERS and DICTATED.get(path) != name:
            yield number, (f"{name} has {len(parameters)} parameters; "
                           f"at most {MAX_PARAMETERS}")


def folder_of(path):
    """The folder of FOLDERS that a file belongs to; None outside the rooms."""
    for parent in pathlib.PurePosixPath(path).parents:
        if str(parent) in FOLDERS:
            return str(parent)
    return None


def check_folder(path, header):
    """Yields what is wrong with `path` including `header` of its own room."""
    if path.split("/")[0] != header.split("/")[0]:
        return
    mine, other = folder_of(path), folder_of(header)
    if mine and other and mine != other and other not in FOLDERS[mine]:
        yield f"{mine} may not include {other}"


def check_include(path, quote, header):
    """Yields what is wrong with `path` including `header`."""
    yield from check_folder(path, header)
    room = path.split("/")[0]
    if room in ROOMS and ("/" in header or header.endswith(".h")):
        system = quote == "<" and re.fullmatch(
            r"(sys|linux|sanitizer)/.*|[a-z0-9_]+\.h", header
        )
        allowed = ROOMS[room]
        if room == "kernels" and path.startswith("kernels/cuda/"):
            allowed += ("cuda", "cublas")
        if not header.startswith(allowed) and not system:
            yield f"{room} may not include {header}"
    own = folder_of(path) if folder_of(path) in FORBIDDEN else room
    for pattern, why in FORBIDDEN.get(own, ()):
        if re.fullmatch(pattern, header):
            yield f"{why}, but includes {header}"
    for pattern, folders in ONLY_IN:
        if re.fullmatch(pattern, header) and not path.startswith(folders):
            yield f"{header} is only for {' and '.join(folders) or 'no one'}"


def check_line(path, line):
    """Yields what is wrong with one line of a text file."""
    if MACHINE_PATH.search(line):
        yield "the path of one machine"
    if not path.endswith(CODE):
        return
    if OPEN_ENDED.search(line):
        yield "left open without an issue's number"
    half = HALF_SENTENCE_HASH if path.endswith((".py", ".sh")) else HALF_SENTENCE
    if half.search(line):
        yield "a comment that begins with 'of': it has no subject"
    if not path.endswith(CPP):
        return
    include = INCLUDE.match(line)
    if include:
        yield from check_include(path, *include.groups())
    if path.startswith(PRODUCT) and TIMED_WAIT.search(line):
        yield "a wait that follows the time of day; base/sync has others"
    if path.startswith("services/") and REACTION.search(line):
        yield "a reaction of gRPC that is not noexcept"
    if (path.startswith(PRODUCT) and path not in THREAD_FILES
            and THREAD_MADE.search(line)):
        yield "a thread outside the places named for threads"


def check_file(path, text):
    """Yields (line, what is wrong) for a text file of the tree."""
    lines = text.splitlines()
    limit = MAX_LONG_LINES if path in LONG_FILES else MAX_LINES
    if path.endswith(CODE) and len(lines) > limit:
        yield limit + 1, f"longer than {limit} lines"
    # A .cc that opens with its own header, or a test that opens with the header
    # it tests, has its purpose there.
    own = pathlib.PurePath(path).stem.removesuffix("_test")
    opening = re.compile(rf'//|#include "([\w/]+/)?{re.escape(own)}\.h"')
    if path.endswith(CPP) and not opening.match(text):
        yield 1, "no sentence of purpose at the top"
    if path.endswith(CPP) and not path.startswith("tests/"):
        for number, size in functions(text):
            if size > MAX_FUNCTION_LINES:
                yield number, (f"a function of {size} lines; "
                               f"at most {MAX_FUNCTION_LINES}")
    if path.endswith(CPP) and not path.startswith(("tests/", "kernels/")):
        yield from check_parameters(path, text)
    if path.endswith(CPP) and path.startswith("tests/"):
        code = code_of(text)
        for argument in DEFAULT_ARGUMENT.finditer(code):
            number = code.count("\n", 0, argument.end()) + 1
            yield number, "a default argument of a test's helper"
    if path.endswith(CPP) and path.startswith("services/"):
        for method in METHOD.finditer(text):
            number = text.count("\n", 0, method.start()) + 1
            yield number, "a method of a service that is not noexcept"
    for number, line in enumerate(lines, 1):
        for finding in check_line(path, line):
            yield number, finding


def check_folders(paths):
    """Yields (folder, what is wrong) for the folders that `paths` lie in."""
    sizes = collections.Counter(
        str(pathlib.PurePosixPath(path).parent)
        for path in paths if path.endswith(CODE))
    for folder, size in sorted(sizes.items()):
        if size > MAX_FILES:
            yield folder, f"{size} files of code; at most {MAX_FILES}"
    for folder in sorted(sizes):
        if f"{folder}/".startswith(PRODUCT) and not folder_of(f"{folder}/a"):
            yield folder, "a folder that FOLDERS does not name"


def includes(path, text):
    """Yields (line number, header) for each header of ours that a file includes."""
    for number, line in enumerate(text.splitlines(), 1):
        include = INCLUDE.match(line)
        if include and include[2].startswith(PRODUCT):
            yield number, include[2]


def shortest_circle(arrows, start):
    """The folders of a shortest way from `start` to itself; [] if there is none."""
    ways = collections.deque([[start]])
    seen = set()
    while ways:
        way = ways.popleft()
        for folder in sorted(arrows.get(way[-1], ())):
            if folder == start:
                return [*way, start]
            if folder not in seen:
                seen.add(folder)
                ways.append([*way, folder])
    return []


def check_circles(files):
    """Yields (place, what is wrong) for circles among all product folders.

    `files` are paths and texts. A folder's arrows are those of all of its files,
    sources and headers alike: a source that includes what includes its folder is
    a circle too, and hides which of the two is to be read first.
    """
    arrows = collections.defaultdict(dict)  # folder -> folder -> a place
    for path, text in files:
        folder = str(pathlib.PurePosixPath(path).parent)
        for number, header in includes(path, text):
            other = str(pathlib.PurePosixPath(header).parent)
            if other != folder:
                arrows[folder].setdefault(other, f"{path}:{number}")
    found = set()
    for start in sorted(arrows):
        circle = shortest_circle(arrows, start)
        if circle and frozenset(circle) not in found:
            found.add(frozenset(circle))
            places = [arrows[a][b] for a, b in zip(circle, circle[1:])]
            yield places[0], (f"a circle: {' -> '.join(circle)}, by "
                              f"{', '.join(places)}")


def check_tour(text, paths):
    """Yields the folders that docs/tour.md, whose `text` is given, leaves out.

    A folder of FOLDERS has a line. One in it with code has its name in a line.
    """
    folders = {path.rpartition("/")[0] for path in paths}
    for folder in sorted(folders | set(FOLDERS) - {"services"}):
        has_line = f"| `{folder}/` |" in text
        if folder not in FOLDERS:
            has_line = has_line or f"`{folder.rpartition('/')[2]}/`" in text
        if not has_line:
            yield "docs/tour.md", f"says nothing of {folder}/"


def read_covered(text):
    """Yields (line number, test, product file or folder) of covered_by.txt."""
    test = None
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        if line.startswith(" "):
            yield number, test, line.strip()
        else:
            test = line


def code_headers(files):
    """Yields the headers with code and without a source of their name.

    `files` are paths and texts. Types, constants, interfaces, and functions of one
    line are no code; longer functions and macros are.
    """
    tree = set(path for path, _ in files)
    for path, text in files:
        if (path.endswith((".h", ".cuh"))
                and not {f"{path[:path.rindex('.')]}{end}"
                         for end in (".cc", ".cu")} & tree
                and (MACRO.search(text)
                     or any(lines > 1 for _, lines in functions(text)))):
            yield path


def check_tests(paths, headers, text):
    """Yields (place, what is wrong) with the tests of the product files.

    `paths` are the files of the tree, `headers` those of code_headers, `text` is
    the table covered_by.txt.
    """
    tree = set(paths)
    uncovered = {}  # product file -> the test of its name, which is not there
    for path in paths:
        if path in headers or (path.startswith(PRODUCT)
                               and path.endswith((".cc", ".cu"))):
            test = f"tests/{path[:path.rindex('.')]}_test.cc"
            if test not in tree:
                uncovered[path] = test
    for number, test, name in read_covered(text):
        place = f"{COVERED_BY}:{number}"
        found = [path for path in uncovered if path == name or
                 (name.endswith("/") and path.startswith(name))]
        if not found:
            yield place, f"{name} is gone, is covered above or has its own test"
        if test is None or (test not in tree and not NO_TEST.match(test)):
            yield place, f"there is no test {test}"
        for path in found:
            del uncovered[path]
    for path, test in uncovered.items():
        yield path, f"neither {test} nor {COVERED_BY} covers it"


def check_headers(files):
    """Yields (source, what is wrong) for product sources without their header.

    `files` are paths and texts.
    """
    tree = set(path for path, _ in files)
    for path, text in files:
        if (not path.startswith(PRODUCT) or not path.endswith(".cc")
                or f"{path[:-3]}.h" in tree or PROGRAM.search(path)):
            continue
        declared = {header for place, headers in SHARED_HEADERS.items()
                    if path.startswith(place) for header in headers}
        if not declared & {header for _, header in includes(path, text)}:
            yield path, "no header of its name: a file is split by subject"
    for place in SHARED_HEADERS:
        if not any(path.startswith(place) for path in tree):
            yield place, "it shares a header, and there is no such place"


def tracked_files(root):
    """The paths of the files below `root` that git tracks, in order."""
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={root}", "ls-files", "-z"],
        cwd=root, check=True, capture_output=True, text=True,
    ).stdout.split("\0")
    return sorted(filter(None, listed))


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    paths = tracked_files(root)
    found = 0
    checked = 0
    files = {path: (root / path).read_bytes() for path in paths
             if (root / path).is_file()}
    product = {path: data.decode() for path, data in files.items()
               if path.startswith(PRODUCT) and path.endswith(CPP)}
    headers = set(code_headers(product.items()))
    tour = (root / "docs/tour.md").read_text()
    covered = (root / COVERED_BY).read_text()
    for where, finding in (*check_folders(paths), *check_tour(tour, product),
                           *check_circles(product.items()),
                           *check_headers(product.items()),
                           *check_tests(paths, headers, covered)):
        print(f"{where}: {finding}")
        found += 1
    for path, data in files.items():
        checked += 1
        findings = []
        if len(data) > MAX_FILE_BYTES:
            findings.append((1, f"larger than {MAX_FILE_BYTES} bytes"))
        try:
            findings += check_file(path, data.decode())
        except UnicodeDecodeError:
            pass  # not text: only its size is checked
        for number, finding in findings:
            print(f"{path}:{number}: {finding}")
        found += len(findings)
    for path in sorted((LONG_FILES.keys() | DICTATED.keys()) - set(paths)):
        print(f"{path}: it has a limit of its own, and there is no such file")
        found += 1
    print(f"{checked} files checked, {found} findings")
    return 1 if found or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
