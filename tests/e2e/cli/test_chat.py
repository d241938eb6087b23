"""The terminal chat: at a terminal, and through a pipe against a worker."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import stat
import struct
import subprocess
import termios
import time

import pytest

from conftest import model_flag
from servers import CALL_SECONDS, Worker, binary
from stubs import session as sv1

ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
GREEDY = ("--temperature", "0", "--max-tokens", "12")


class Terminal:
    """The command at a terminal of its own, as its user sees it."""

    def __init__(self, *arguments, columns=80, **environment):
        self.shown = b""
        self.seen = 0
        try:
            pid, self.fd = pty.fork()
        except OSError as error:  # a bare chroot has no /dev/pts
            pytest.skip(f"this system gives no terminal: {error}")
        if pid == 0:
            os.environ.update(TERM="xterm", LC_ALL="C.UTF-8", **environment)
            os.environ.pop("NO_COLOR", None)
            os.execv(binary("plimsoll"), ["plimsoll", *arguments])
        self.pid = pid
        size = struct.pack("HHHH", 24, columns, 0, 0)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, size)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.fd)  # this hangs up
        if not self.pid:
            return
        end = time.monotonic() + CALL_SECONDS
        while os.waitpid(self.pid, os.WNOHANG) == (0, 0):
            if time.monotonic() > end:
                os.kill(self.pid, signal.SIGKILL)
            time.sleep(0.02)

    def type(self, keys, at_prompt=True):
        """Presses these keys, once the prompt takes keys and not lines."""
        end = time.monotonic() + CALL_SECONDS
        while at_prompt and termios.tcgetattr(self.fd)[3] & termios.ICANON:
            assert time.monotonic() < end, self.shown[self.seen :]
            time.sleep(0.01)
        os.write(self.fd, keys.encode() if isinstance(keys, str) else keys)

    def _read(self):
        """Reads what is shown; returns False at the end."""
        if not select.select([self.fd], [], [], 0.1)[0]:
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # the other end is closed
            return False
        self.shown += data
        return bool(data)

    def await_text(self, text):
        """Waits for text behind what was awaited before; returns all up to it."""
        end = time.monotonic() + CALL_SECONDS
        wanted = text.encode()
        while True:
            at = self.shown.find(wanted, self.seen)
            if at >= 0:
                found = self.shown[self.seen : at + len(wanted)]
                self.seen = at + len(wanted)
                return found.decode(errors="replace")
            assert time.monotonic() < end, (text, self.shown[self.seen :])
            assert self._read(), (text, self.shown[self.seen :])

    def say(self, line):
        """Types a line at the prompt and returns what is shown up to the next."""
        self.type(line + "\r")
        self.await_text("\n")
        shown = self.await_text(PROMPT)
        return plain(shown[: -len(PROMPT)])

    def exit_code(self):
        """Waits for the end."""
        end = time.monotonic() + CALL_SECONDS
        while self._read():
            assert time.monotonic() < end, self.shown[self.seen :]
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        return os.waitstatus_to_exitcode(status)


PROMPT = "\x1b[1m>\x1b[0m "


def plain(text):
    """Text without colours, with line feeds alone."""
    return ESCAPES.sub(b"", text.encode()).decode().replace("\r", "")


@pytest.fixture(scope="module")
def keeper():
    """A worker with room for a chat and its neighbour."""
    with Worker(model_flag("smollm2"), "--n-ctx=1024", "--slots=3") as server:
        yield server.await_ready()


@pytest.fixture
def chat(keeper, tmp_path):
    """A chat at a terminal, at its first prompt."""
    arguments = ("--address", keeper.address, "chat", *GREEDY)
    with Terminal(*arguments, XDG_STATE_HOME=str(tmp_path)) as terminal:
        terminal.await_text("(/help lists the commands)")
        terminal.await_text(PROMPT)
        yield terminal


def piped(server, lines, *flags):
    """A finished chat through a pipe."""
    return subprocess.run(
        [binary("plimsoll"), "--address", server.address, "chat", *GREEDY, *flags],
        input=lines.encode(),
        capture_output=True,
        timeout=CALL_SECONDS,
        check=False,
    )


def replies(done):
    """What a chat without line feeds in its replies answered."""
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().splitlines()


def test_commands_are_no_messages(chat):
    shown = chat.say("/help")
    assert "/regenerate" in shown and "/set [NAME VALUE]" in shown
    assert "the nearest is /help" in chat.say("/hlep")
    assert "session" in chat.say("/info") and "0 turns" in chat.say("/info")
    assert "temperature: was 0, is 0.5" in chat.say("/set temperature 0.5")
    assert "planned - measured" in chat.say("/memory")
    chat.type("/exit\r")
    assert chat.exit_code() == 0


def test_a_reply_has_a_line_of_speed_and_context(chat):
    shown = chat.say("What do ships need at night?")
    assert re.search(r"\(12 tokens, [\d.]+ tokens/s, the first after [\d.]+ s; "
                     r"[\d,]+ of 984 tokens of context left\)", shown)
    first = shown.split("\n(")[0]
    assert chat.say("/regenerate").split("\n(")[1].startswith("12 tokens")
    assert "forgot 1 message: What do ships" in chat.say("/undo")
    again = chat.say("What do ships need at night?")
    assert again.split("\n(")[0] == first
    chat.type(b"\x04")
    assert chat.exit_code() == 0


def test_ctrl_c_stops_the_reply_and_not_the_chat(chat):
    chat.say("/set max_tokens 0")
    chat.say("/set temperature 5")
    chat.say("/set top_k 0")
    chat.say("/set top_p 1")
    chat.say("/set min_p 0")
    chat.type("Talk for ever\r")
    chat.await_text("\n")
    start = time.monotonic()
    while len(chat.shown) < chat.seen + 40 and time.monotonic() < start + 30:
        chat._read()
    chat.type(b"\x03", at_prompt=False)
    chat.await_text("(stopped)")
    chat.await_text(PROMPT)
    assert "forgot 1 message: Talk" in chat.say("/undo")
    chat.type(b"half a line\x03")
    chat.await_text("^C")
    chat.await_text(PROMPT)
    assert "0 turns" in chat.say("/info")
    chat.type(b"\x04")
    assert chat.exit_code() == 0


def test_lines_are_edited_and_kept(chat, tmp_path):
    assert "max_tokens: 12" in chat.say("/set maxx_tokens\x1b[D\x1b[D\x1b[D\x1b[D"
                                        "\x1b[D\x1b[D\x1b[D\x7f")
    assert "top_k: 40" in chat.say("/set top_k")
    # The up key twice brings the first line back.
    chat.type("\x1b[A\x1b[A\r")
    chat.await_text("max_tokens: 12")
    chat.await_text(PROMPT)
    # Letters of any script.
    assert "no command /日本" in chat.say("/日本é\x7f")
    chat.type(b"\x04")
    assert chat.exit_code() == 0
    history = tmp_path / "plimsoll" / "chat_history"
    lines = history.read_text(encoding="utf-8").splitlines()
    assert lines == ["/set max_tokens", "/set top_k", "/set max_tokens", "/日本"]
    assert stat.S_IMODE(history.stat().st_mode) == 0o600


def test_the_history_of_an_earlier_chat_is_there(keeper, tmp_path):
    folder = tmp_path / "plimsoll"
    folder.mkdir()
    (folder / "chat_history").write_text("/set top_k\n", encoding="utf-8")
    arguments = ("--address", keeper.address, "chat")
    with Terminal(*arguments, XDG_STATE_HOME=str(tmp_path)) as terminal:
        terminal.await_text(PROMPT)
        terminal.type("\x1b[A\r")
        terminal.await_text("top_k: 40")


def test_words_wrap_at_the_width_of_the_window(keeper, tmp_path):
    arguments = ("--address", keeper.address, "chat", "--temperature", "0",
                 "--max-tokens", "60")
    with Terminal(*arguments, columns=44, XDG_STATE_HOME=str(tmp_path)) as terminal:
        terminal.await_text(PROMPT)
        shown = terminal.say("Tell me a long story of a ship.")
    text, _, _ = shown.rpartition("\n(60 tokens")
    lines = text.splitlines()
    assert len(lines) > 3
    assert max(map(len, lines)) <= 44
    assert max(map(len, lines)) > 30
    command = [binary("plimsoll"), *arguments]
    done = subprocess.run(
        command,
        input=b"Tell me a long story of a ship.\n",
        capture_output=True,
        timeout=CALL_SECONDS,
        check=True,
    )
    assert text.split() == done.stdout.decode().split()


def test_a_terminal_that_is_closed_leaves_no_session(keeper, tmp_path):
    arguments = ("--address", keeper.address, "chat")
    listed = sv1.ListSessionsRequest()
    with Terminal(*arguments, XDG_STATE_HOME=str(tmp_path)) as terminal:
        terminal.await_text(PROMPT)
        assert len(keeper.sessions.ListSessions(listed).sessions) == 1
    assert len(keeper.sessions.ListSessions(listed).sessions) == 0
    with Terminal(*arguments, XDG_STATE_HOME=str(tmp_path)) as terminal:
        terminal.await_text(PROMPT)
        os.kill(terminal.pid, signal.SIGTERM)
        assert terminal.exit_code() == 130
    assert len(keeper.sessions.ListSessions(listed).sessions) == 0


def test_what_is_taken_back_was_never_said(keeper):
    wanted = replies(piped(keeper, "Name a port.\nWhy there?\n"))
    done = piped(
        keeper, "Name a port.\nName a river.\nAnd a lake.\n/undo 2\nWhy there?\n"
    )
    found = replies(done)
    assert [found[0], found[-1]] == wanted
    assert b"forgot 2 messages, from: Name a river." in done.stderr
    done = piped(keeper, "Name a port.\nWhy there?\n/regenerate\n")
    assert replies(done) == [*wanted, wanted[1]]


def test_a_chat_goes_on_from_its_file(keeper, tmp_path):
    path = tmp_path / "chat.json"
    wanted = replies(
        piped(keeper, "Name a port.\nWhy there?\n", "--system", "Be brief.")
    )
    lines = f"/system Be brief.\nName a port.\n/set top_k 7\n/save {path}\n"
    assert replies(piped(keeper, lines)) == wanted[:1]
    saved = json.loads(path.read_text(encoding="utf-8"))
    assert saved["format"] == "plimsoll-chat" and saved["version"] == 1
    assert saved["model"] == "smollm2" and saved["system"] == "Be brief."
    assert saved["settings"]["top_k"] == 7
    assert [m["role"] for m in saved["messages"]] == ["user", "assistant"]
    assert saved["messages"][1]["content"] == wanted[0]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    done = piped(keeper, f"/load {path}\nWhy there?\n")
    assert replies(done) == wanted[1:]
    assert b"top_k: was 40, is 7" in done.stderr


def test_a_bad_file_loses_nothing(keeper, tmp_path):
    path = tmp_path / "chat.json"
    path.write_text('{"format": "plimsoll-chat", "version": 3}', encoding="utf-8")
    lines = f"Name a port.\n/load {path}\n/save {path}\n/info\n"
    done = piped(keeper, lines)
    assert done.returncode == 1
    assert b"chat.json: it is a chat of version 3" in done.stderr
    assert b"choose another name" in done.stderr
    assert b": 1 turns" in done.stderr
    assert path.read_text(encoding="utf-8").endswith('"version": 3}')
