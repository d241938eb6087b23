"""Settings from a file, the environment and flags; what SIGHUP reads again."""

import json
import os
import signal
import subprocess
import urllib.request

import pytest

import stubs
from asks import GREEDY, generate, text
from conftest import model_file
from servers import CALL_SECONDS, Front, Planner, Worker, binary, until

PROGRAMS = {"planner": "plimsoll-planner", "worker": "plimsoll-worker"}
LONGEST_FILE = 1 << 20


def run(program, *flags, **variables):
    """Runs a program that is to end by itself."""
    return subprocess.run(
        [binary(program), *flags],
        capture_output=True,
        text=True,
        timeout=CALL_SECONDS,
        env={**os.environ, **variables},
        check=False,
    )


def printed(program, *flags, **variables):
    """The lines of --print-config: a dict from the key to (value, source)."""
    done = run(program, *flags, "--print-config", **variables)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    lines = {}
    for line in done.stdout.splitlines()[1:]:
        if line.startswith("#"):
            continue
        setting, source = line.split("  # ")
        key, value = setting.split(" = ")
        lines[key] = (value, source)
    return lines


@pytest.fixture
def config(tmp_path):
    """Writes plimsoll.toml and returns the flag that names it."""

    def write(content):
        path = tmp_path / "plimsoll.toml"
        path.write_text(content, encoding="utf-8")
        return f"--config={path}"

    return write


@pytest.mark.parametrize("section", PROGRAMS)
def test_flags_variables_and_files_in_their_order(config, section):
    program = PROGRAMS[section]
    name = f"PLIMSOLL_{section.upper()}_DRAIN_TIMEOUT"
    assert printed(program)["drain-timeout"] == ("30", "default")
    flag = config(f"[{section}]\n\ndrain-timeout = 1\n")
    path = flag.removeprefix("--config=")
    assert printed(program, flag)["drain-timeout"] == ("1", f"{path}:3")
    both = printed(program, PLIMSOLL_CONFIG=path, **{name: "2"})
    assert both["drain-timeout"] == ("2", f"${name}")
    all_three = printed(program, flag, "--drain-timeout=3", **{name: "2"})
    assert all_three["drain-timeout"] == ("3", "--drain-timeout")


@pytest.mark.parametrize("section", PROGRAMS)
def test_what_is_printed_is_a_file_that_says_the_same(config, section):
    program = PROGRAMS[section]
    flags = ("--model=a=a.gguf", "--model=b=b.gguf", "--reader-timeout=1.5")
    before = printed(program, *flags)
    assert before["model"] == ('["a=a.gguf", "b=b.gguf"]', "--model")
    text_of = run(program, *flags, "--print-config").stdout
    after = printed(program, config(text_of))
    assert {key: value for key, (value, _) in after.items()} == {
        key: value for key, (value, _) in before.items()
    }


def test_no_secret_is_printed():
    done = run(
        "plimsoll-worker",
        "--print-config",
        PLIMSOLL_TOKEN="a-secret",
        PLIMSOLL_WORKER_TOKEM_FILE="a-secret",
    )
    assert done.returncode == 0
    assert "a-secret" not in done.stdout + done.stderr
    assert "# no setting reads $PLIMSOLL_WORKER_TOKEM_FILE\n" in done.stdout


def test_one_file_serves_both_programs(config, smollm2):
    flag = config(
        "[planner]\nfirst = true\nlisten = '127.0.0.1:0'\n"
        f"model = ['m={smollm2}']\n"
        "[worker]\nlazy = true\nlisten = '127.0.0.1:0'\n"
        f"model = ['m={smollm2}']\n"
    )
    with Planner(flag, first=False) as planner, Worker(flag) as worker:
        request = stubs.planner.DescribeModelRequest()
        request.source.model = "m"
        assert planner.stub.DescribeModel(request, timeout=CALL_SECONDS)
        assert worker.model("m")


@pytest.mark.parametrize(
    "content, place, wrong",
    [
        ("[worker]\nslotz = 8\n", "2: ", "no key slotz; did you mean slots?"),
        ("[wrker]\nslots = 8\n", "1: ", "no section [wrker]; did you mean worker?"),
        ("slots = 8\n", "1: ", "outside of a section"),
        ("[worker]\nslots = 0\n", "2: ", "--slots: Value 0 not in range"),
        ("[worker]\nslots = true\n", "2: ", "slots takes one text or one number"),
        ("[worker]\nlazy = 'yes'\n", "2: ", "lazy takes true or false"),
        ("[worker]\nlisten = '7070'\n", "2: ", "--listen: it takes HOST:PORT"),
        ("[worker]\nslots =\n", "2: ", "slots must be a text in quotes, a number"),
        ("[worker]\nslots: 8\n", "2: ", "a line is [SECTION], KEY = VALUE"),
        ("[planner]\nfirst = 1979-05-27\n", "2: ", "first must be a text"),
        ("#" * (LONGEST_FILE + 1), " ", "has more than 1048576 bytes"),
    ],
)
def test_a_mistake_has_its_place(config, content, place, wrong):
    flag = config(content)
    done = run("plimsoll-worker", flag)
    assert done.returncode == 2
    assert done.stdout == ""
    first = done.stderr.splitlines()[0]
    assert first.startswith(flag.removeprefix("--config=") + ":" + place)
    assert wrong in first


def test_a_missing_file_is_named(tmp_path):
    done = run("plimsoll-planner", f"--config={tmp_path}/no.toml")
    assert done.returncode == 2
    assert f"{tmp_path}/no.toml: No such file or directory" in done.stderr


def test_serve_has_a_section(config, smollm2):
    flag = config(
        f"[serve]\nmodels = ['{smollm2}']\nn-ctx = 256\nslots = 2\n[worker]\nslots = 9\n"
    )
    done = run("plimsoll", "serve", flag, "--slots=1", "--print-config")
    assert done.returncode == 0, done.stderr
    assert "n-ctx = 256  # " in done.stdout
    assert "slots = 1  # --slots\n" in done.stdout
    with Front(flag) as front:
        until(lambda: "2 slots of 256 tokens" in front.log(), CALL_SECONDS)
    done = run("plimsoll", "serve", config("[serve]\nslotz = 2\n"))
    assert done.returncode == 2
    assert "[serve] has no key slotz; did you mean slots?" in done.stderr
    named = flag.removeprefix("--config=")
    done = run("plimsoll", "version", PLIMSOLL_CONFIG=named)
    assert done.returncode == 0, "other commands read no file"


def test_a_worker_reads_its_file_again(config, smollm2, gemma3):
    def write(lines):
        return config(
            "[worker]\non-demand = true\nn-ctx = 512\n"
            f"model = ['a={smollm2}', 'b={gemma3}']\n{lines}"
        )

    flag = write("")
    with Worker(flag, "--slots=2") as worker:
        call = generate("a", text=text("The sea"), sampling=GREEDY, max_tokens=4)
        worker.generation.Generate(call, timeout=CALL_SECONDS)
        assert "a request has ended" not in worker.log()

        write("log-requests = true\nslots = 9\nthreads = 1\n")
        said = worker.hang_up("new values of settings")
        assert "changed=log-requests\n" in said
        assert "keys=threads\n" in said, "--slots is the command line's"
        worker.generation.Generate(call, timeout=CALL_SECONDS)
        until(lambda: "a request has ended" in worker.log())

        write("keep-alive = 0\nslotz = 1\n")
        said = worker.hang_up("the settings are bad")
        assert "plimsoll.toml:6: [worker] has no key slotz" in said
        assert worker.serving()
        assert worker.model("a").state == stubs.model.MODEL_STATE_READY

        write("keep-alive = 0\nlog-requests = true\n")
        assert "changed=keep-alive\n" in worker.hang_up("were read again")
        absent = stubs.model.MODEL_STATE_ABSENT
        until(lambda: worker.model("a").state == absent)
        worker.generation.Generate(call, timeout=CALL_SECONDS)
        worker.terminate()
        assert worker.process.wait(timeout=CALL_SECONDS) == 0


def test_a_worker_gets_more_models(config, smollm2, gemma3):
    def write(*models):
        flags = ", ".join(f"'{model}'" for model in models)
        return config(f"[worker]\nlazy = true\nmodel = [{flags}]\n")

    flag = write(f"a={smollm2}")
    with Worker(flag, "--metrics-listen=127.0.0.1:0") as worker:
        write(f"a={smollm2}", f"b={gemma3}")
        assert "changed=model\n" in worker.hang_up("were read again")
        assert worker.load("b", n_ctx=256)[-1].state == stubs.model.MODEL_STATE_READY
        write(f"b={gemma3}")
        said = worker.hang_up("could not be changed")
        assert "a model is gone, which needs a restart" in said
        assert worker.model("a").name == "a"


def test_a_planner_reads_its_file_again(config):
    small, large = model_file("smollm2"), model_file("gemma3")
    flag = config(f"[planner]\nmodel = ['a={small}']\n")

    def describe(planner, name):
        request = stubs.planner.DescribeModelRequest()
        request.source.model = name
        return planner.stub.DescribeModel(request, timeout=CALL_SECONDS)

    with Planner(flag) as planner:
        first = describe(planner, "a")
        config(f"[planner]\nmodel = ['a={small}', 'b={large}']\nlease-ttl = 11\n")
        said = planner.hang_up("new values of settings")
        assert "changed=model\n" in said
        assert "keys=lease-ttl\n" in said
        assert describe(planner, "b") != first
        config("[planner\n")
        assert "plimsoll.toml:1:" in planner.hang_up("the settings are bad")
        assert describe(planner, "a") == first
        planner.terminate()
        assert planner.process.wait(timeout=CALL_SECONDS) == 0


@pytest.mark.parametrize("section", PROGRAMS)
def test_the_level_of_the_log_changes(config, section):
    server = {"planner": Planner, "worker": Worker}[section]
    flag = config(f"[{section}]\nlog-level = 'error'\n")
    with server(flag) as running:
        config(f"[{section}]\nlog-level = 'info'\n")
        assert "changed=log-level\n" in running.hang_up("were read again")
        # A pending SIGHUP comes before a pending SIGTERM.
        config(f"[{section}]\nlog-level = 'error'\n")
        running.process.send_signal(signal.SIGHUP)
        running.terminate()
        assert running.process.wait(timeout=CALL_SECONDS) == 0
        assert "draining" not in running.log()


def test_serve_reads_its_file_again(config, smollm2, gemma3):
    def write(models, lines=""):
        listed = ", ".join(f"'{model}'" for model in models)
        return config(f"[serve]\nn-ctx = 256\nmodels = [{listed}]\n{lines}")

    def names(front):
        with urllib.request.urlopen(
            f"{front.url}/v1/models", timeout=CALL_SECONDS
        ) as reply:
            return {model["id"] for model in json.load(reply)["data"]}

    flag = write([smollm2], "log-level = 'error'\n")
    with Front(flag) as front:
        (first,) = names(front)
        write([smollm2, gemma3], "keep-alive = 600\nslots = 3\n")
        said = front.hang_up("new values of settings")
        assert "changed=models,keep-alive,log-level\n" in said
        assert "keys=slots\n" in said
        assert len(names(front)) == 2

        write([smollm2, gemma3], "pin = 'nobody'\n")
        said = front.hang_up("were read again")
        assert "could not be changed key=pin" in said and "nobody" in said

        write([gemma3], f"pin = '{first}'\n")
        assert "a model is gone" in front.hang_up("were read again")
        assert first in names(front)

        write([smollm2, gemma3], f"pin = '{first}'\n")
        assert "changed=pin" in front.hang_up("were read again")
        config("[serve")
        said = front.hang_up("the settings are bad")
        assert "plimsoll.toml:1:" in said
        front.terminate()
        assert front.process.wait(timeout=CALL_SECONDS) == 0


def test_without_a_file_a_hangup_ends_a_server():
    with Planner() as planner:
        planner.process.send_signal(signal.SIGHUP)
        code = planner.process.wait(timeout=CALL_SECONDS)
        assert code == -signal.SIGHUP
