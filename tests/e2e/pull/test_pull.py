"""`plimsoll pull` against local servers: URLs, a registry, a hub, a proxy, and
what each of them may do wrong."""

import json
import re
import signal
import subprocess
import threading

import pytest

from pull.sources import (
    FileServer, Hub, LocalServer, Proxy, Registry, sha256, tiny_gguf,
)
from security.test_security import make_certificates
from servers import CALL_SECONDS, Front, binary, until

DATA = tiny_gguf(1 << 16)
NAME = "m.gguf"
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    """No proxy, hub or token of this machine; a cache of the test's own."""
    for name in (*PROXIES, *map(str.upper, PROXIES)):
        monkeypatch.delenv(name, raising=False)
    for name in ("PLIMSOLL_HUB", "PLIMSOLL_HUB_TOKEN", "PLIMSOLL_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "plimsoll" / "models"


@pytest.fixture
def server():
    with FileServer({f"/{NAME}": DATA}) as made:
        yield made


def pull(*arguments):
    """A finished run."""
    return subprocess.run(
        [binary("plimsoll"), "pull", *map(str, arguments)],
        capture_output=True,
        timeout=CALL_SECONDS,
    )


def pulled(*arguments):
    """The report of a run that works."""
    done = pull(*arguments, "-o", "json")
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def refused(*arguments, code=1):
    """The message of a run that does not work."""
    done = pull(*arguments)
    assert done.returncode == code, done.stderr.decode()
    return done.stderr.decode()


def visible(folder):
    """What is in the cache, by name."""
    return sorted(p.name for p in folder.iterdir() if not p.name.startswith("."))


def parts(folder):
    """What is on its way."""
    return sorted(p.name for p in folder.iterdir() if ".part" in p.name)


def test_a_url_is_fetched_and_not_again(server, cache):
    found = pulled(f"{server.url}/{NAME}")
    assert found["state"] == "fetched"
    assert not found["checked"]
    assert found["files"] == [
        {"name": NAME, "path": str(cache / NAME), "bytes": len(DATA), "sha256": sha256(DATA)}
    ]
    assert (cache / NAME).read_bytes() == DATA
    assert parts(cache) == []
    n_asked = len(server.asked)
    assert pulled(f"{server.url}/{NAME}")["state"] == "cached"
    assert len(server.asked) == n_asked
    assert pulled(f"{server.url}/{NAME}", "--overwrite")["state"] == "fetched"
    server.stop()
    assert pulled(f"{server.url}/{NAME}")["state"] == "cached"


def test_progress_has_lines_without_a_terminal(server):
    done = pull(f"{server.url}/{NAME}")
    line = rf"^fetching {NAME}: 100 %, 256\.\d KiB(, [\d.]+ [MG]B/s)?$"
    assert re.search(line, done.stderr.decode(), re.MULTILINE)
    assert sha256(DATA) in done.stdout.decode()
    assert "nobody named one" in done.stdout.decode()


def test_a_name_is_found_by_other_commands(smollm2, cache):
    data = smollm2.read_bytes()
    with FileServer({"/get": data}) as server:
        flags = ("--name", "tiny", "--sha256", sha256(data))
        assert pulled(f"{server.url}/get", *flags)["model"] == "tiny.gguf"
    for command in (
        ("plan", "tiny", "--device-memory", "2GiB"),
        ("generate", "--model", "tiny", "--prompt", "Hello", "--max-tokens", "2"),
    ):
        done = subprocess.run(
            [binary("plimsoll"), *command], capture_output=True, timeout=CALL_SECONDS
        )
        assert done.returncode == 0, done.stderr.decode()
    with Front("tiny", "--n-ctx=256"):
        pass


@pytest.mark.parametrize("has_etags", [True, False])
def test_a_transfer_that_breaks_off_goes_on(server, cache, has_etags):
    server.has_etags = has_etags
    server.cuts = [100_000, 50_000]
    assert pulled(f"{server.url}/{NAME}")["state"] == "fetched"
    assert (cache / NAME).read_bytes() == DATA
    ranges = [None, "bytes=100000-", "bytes=150000-"]
    assert server.fields("Range") == (ranges if has_etags else [None] * 3)


def test_a_later_run_goes_on_after_ctrl_c(server, cache):
    server.gate = threading.Event()
    run = subprocess.Popen(
        [binary("plimsoll"), "pull", f"{server.url}/{NAME}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    part = cache / f".{NAME}.part"
    until(lambda: part.is_file() and part.stat().st_size >= len(DATA) // 2, 60)
    run.send_signal(signal.SIGINT)
    assert run.wait(CALL_SECONDS) == 130
    server.gate.set()
    server.gate = None
    assert visible(cache) == []
    size = part.stat().st_size
    assert size == len(DATA) // 2
    pulled(f"{server.url}/{NAME}")
    assert server.fields("Range")[-1] == f"bytes={size}-"
    assert (cache / NAME).read_bytes() == DATA


def test_a_changed_file_is_not_mixed(server, cache):
    server.cuts = [1000]
    server.has_ranges = False
    other = tiny_gguf(1 << 16, b"\x02")

    def change():
        until(lambda: not server.cuts, what="the end of the first reply")
        server.files[f"/{NAME}"] = other

    thread = threading.Thread(target=change)
    thread.start()
    pulled(f"{server.url}/{NAME}")
    thread.join()
    assert (cache / NAME).read_bytes() == other


def test_a_server_that_ignores_ranges_is_followed(server, cache):
    server.has_ranges = False
    server.cuts = [100_000]
    pulled(f"{server.url}/{NAME}")
    assert (cache / NAME).read_bytes() == DATA


def test_a_wrong_digest_deletes_what_came(server, cache):
    wrong = "a" * 64
    message = refused(f"{server.url}/{NAME}", "--sha256", wrong)
    assert wrong in message and sha256(DATA) in message
    assert visible(cache) == [] and parts(cache) == []
    assert pulled(f"{server.url}/{NAME}", "--sha256", sha256(DATA))["checked"]


def test_what_is_no_gguf_file_gets_no_name(server, cache):
    server.files["/page.gguf"] = b"<html>please log in</html>"
    assert "no GGUF file" in refused(f"{server.url}/page.gguf")
    server.files["/cut.gguf"] = DATA[: len(DATA) // 2]
    assert "no GGUF file that can be read" in refused(f"{server.url}/cut.gguf")
    assert visible(cache) == [] and parts(cache) == []


def test_another_file_of_the_name_is_kept(server, cache):
    cache.mkdir(parents=True)
    (cache / NAME).write_bytes(b"mine")
    assert "--overwrite" in refused(f"{server.url}/{NAME}")
    assert "--overwrite" in refused(f"{server.url}/{NAME}", "--sha256", sha256(DATA))
    assert (cache / NAME).read_bytes() == b"mine"
    pulled(f"{server.url}/{NAME}", "--overwrite")
    assert (cache / NAME).read_bytes() == DATA


def test_a_changed_file_of_the_cache_is_noticed(server, cache):
    pulled(f"{server.url}/{NAME}")
    (cache / NAME).write_bytes(b"changed")
    assert "--overwrite" in refused(f"{server.url}/{NAME}")
    assert "nothing that came from" in refused(f"{server.url}/{NAME}", "--offline")


def test_two_runs_fetch_a_file_once(server, cache):
    server.gate = threading.Event()
    runs = []
    for _ in range(2):
        runs.append(
            subprocess.Popen(
                [binary("plimsoll"), "pull", f"{server.url}/{NAME}", "-o", "json"],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )
        )
        until(lambda: server.asked, 60)
    until(lambda: b"waiting" in runs[1].stderr.readline(), 60)
    server.gate.set()
    states = []
    for run in runs:
        out, _ = run.communicate(timeout=CALL_SECONDS)
        assert run.returncode == 0
        states.append(json.loads(out)["state"])
    assert states == ["fetched", "cached"]
    assert len(server.asked) == 1
    assert parts(cache) == []


def test_offline_needs_what_came_before(server):
    url = f"{server.url}/{NAME}"
    assert "without --offline" in refused(url, "--offline")
    assert server.asked == []
    pulled(url)
    server.stop()
    assert pulled(url, "--offline")["state"] == "offline"
    assert "nothing" in refused(url, "--offline", "--sha256", "a" * 64)


def test_an_unreachable_server_is_an_error_that_names_it(server, cache):
    server.stop()
    assert server.host in refused(f"{server.url}/{NAME}")
    assert parts(cache) == []


def test_a_missing_file_is_an_error_that_names_it(server):
    assert "404" in refused(f"{server.url}/other.gguf")


def test_all_parts_of_a_model_come(server, cache):
    names = [f"s-0000{i}-of-00002.gguf" for i in (1, 2)]
    for i, name in enumerate(names):
        server.files[f"/{name}"] = tiny_gguf(1 << 10, split=(i, 2))
    found = pulled(f"{server.url}/{names[0]}")
    assert found["model"] == names[0]
    assert [file["name"] for file in found["files"]] == names
    assert visible(cache) == names
    assert "one file" in refused(f"{server.url}/{names[0]}", "--sha256", "a" * 64, "--overwrite")


def test_no_part_gets_its_name_before_all_have_come(server, cache):
    names = [f"s-0000{i}-of-00002.gguf" for i in (1, 2)]
    server.files[f"/{names[0]}"] = tiny_gguf(1 << 10, split=(0, 2))
    assert names[1] in refused(f"{server.url}/{names[0]}")
    assert visible(cache) == []
    server.files[f"/{names[1]}"] = tiny_gguf(1 << 10, split=(1, 2))
    pulled(f"{server.url}/{names[0]}")
    assert visible(cache) == names


def test_names_stay_in_the_cache(server, cache):
    server.files["/..%2F..%2Fm.gguf"] = DATA
    assert "--name" in refused(f"{server.url}/..%2F..%2Fm.gguf")
    assert "no name for a file" in refused(f"{server.url}/{NAME}", "--name", "../m")
    pulled(f"{server.url}/..%2F..%2Fm.gguf", "--name", "m2")
    assert visible(cache) == ["m2.gguf"]


def test_plain_http_is_for_loopback(server):
    assert "--insecure-http" in refused("http://models.example/m.gguf")
    server.leads["/l.gguf"] = "http://models.example/m.gguf"
    assert "--insecure-http" in refused(f"{server.url}/l.gguf")


def test_redirects_end(server):
    server.leads["/l.gguf"] = "/l.gguf"
    assert "leads elsewhere 9 times" in refused(f"{server.url}/l.gguf")


def test_tls_needs_a_ca_that_is_trusted(tmp_path, cache):
    make_certificates(tmp_path / "tls")
    make_certificates(tmp_path / "other")
    ca = ("--tls-ca", tmp_path / "tls" / "ca.pem")
    with FileServer({f"/{NAME}": DATA}, tmp_path / "tls") as server:
        assert "certificate" in refused(f"{server.url}/{NAME}")
        assert "certificate" in refused(
            f"{server.url}/{NAME}", "--tls-ca", tmp_path / "other" / "ca.pem"
        )
        assert visible(cache) == []
        with FileServer({}) as plain:
            server.leads["/l.gguf"] = f"{plain.url}/{NAME}"
            assert "no TLS" in refused(f"{server.url}/l.gguf", *ca)
        assert pulled(f"{server.url}/{NAME}", *ca)["state"] == "fetched"


def test_proxies_are_used(tmp_path, server, monkeypatch):
    make_certificates(tmp_path / "tls")
    ca = ("--tls-ca", tmp_path / "tls" / "ca.pem")
    with Proxy() as proxy, FileServer({f"/{NAME}": DATA}, tmp_path / "tls") as secure:
        pulled(f"{server.url}/{NAME}", "--proxy", proxy.url)
        assert [path for path, _ in proxy.asked] == [f"{server.url}/{NAME}"]
        monkeypatch.setenv("https_proxy", proxy.url)
        pulled(f"{secure.url}/{NAME}", *ca, "--overwrite")
        assert proxy.tunnels == [secure.host]
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        pulled(f"{secure.url}/{NAME}", *ca, "--overwrite")
        assert proxy.tunnels == [secure.host]


def test_a_token_of_a_file_stays_with_its_server(server, tmp_path):
    token = tmp_path / "token"
    token.write_text("secret\n")
    with FileServer({f"/{NAME}": DATA}) as other:
        server.leads["/l.gguf"] = f"{other.url}/{NAME}"
        pulled(f"{server.url}/l.gguf", "--token-file", token)
        assert server.fields("Authorization") == ["Bearer secret"]
        assert other.fields("Authorization") == [None]


LAYERS = [
    ("application/vnd.oci.image.config.v1+json", "config.json", b"{}"),
    ("application/vnd.example.gguf.v1", "layer.gguf", DATA),
]


def test_a_registry_gives_a_token_and_a_model(cache, tmp_path):
    with Registry("team/m", "0.6b", LAYERS) as registry, FileServer({}) as storage:
        digest = f"sha256:{sha256(DATA)}"
        storage.files[f"/{digest}"] = DATA
        registry.storage = storage
        source = f"oci://{registry.host}/team/m:0.6b"
        found = pulled(source)
        assert found["state"] == "fetched" and found["checked"]
        assert found["model"] == "layer.gguf"
        assert (cache / "layer.gguf").read_bytes() == DATA
        assert storage.fields("Authorization") == [None]
        assert pulled(source)["state"] == "cached"
        assert len(storage.asked) == 1
        pinned = pulled(f"oci://{registry.host}/team/m@{registry.digest}")
        assert pinned["state"] == "cached"
        assert "404" in refused(f"oci://{registry.host}/team/m:other")
        registry.stop()
        assert pulled(source)["state"] == "offline"
    password = tmp_path / "password"
    password.write_text("me:secret")
    with Registry("team/m", "1", LAYERS) as registry:
        pulled(f"oci://{registry.host}/team/m:1", "--token-file", password, "--overwrite")
        shown = dict(zip((path for path, _ in registry.asked), registry.fields("Authorization")))
        [token_path] = [path for path in shown if path.startswith("/token")]
        assert shown[token_path].startswith("Basic ")


def test_a_registry_that_lies_is_found_out(cache):
    with Registry("m", "1", LAYERS) as registry:
        other = tiny_gguf(1 << 16, b"\x03")
        [digest] = [key for key, data in registry.blobs.items() if data == DATA]
        registry.blobs[digest] = other
        message = refused(f"oci://{registry.host}/m:1")
        assert sha256(DATA) in message and sha256(other) in message
        registry.tags["1"] = b"[" * 1_000_000
        assert "no JSON object" in refused(f"oci://{registry.host}/m:1")
        registry.tags["1"] = b" " * ((4 << 20) + 1)
        assert "more than the" in refused(f"oci://{registry.host}/m:1")
        registry.tags[registry.digest] = registry.manifest + b" "
        assert "manifest came with" in refused(f"oci://{registry.host}/m@{registry.digest}")
    assert visible(cache) == [] and parts(cache) == []


HUB_FILES = {
    "README.md": b"about",
    "m-Q4_K_M.gguf": DATA,
    "m-Q8_0.gguf": tiny_gguf(1 << 12),
    "BF16/m-BF16-00001-of-00002.gguf": tiny_gguf(1 << 10, split=(0, 2)),
    "BF16/m-BF16-00002-of-00002.gguf": tiny_gguf(1 << 10, split=(1, 2)),
}


@pytest.fixture
def hub():
    files = {f"/{path}": data for path, data in HUB_FILES.items()}
    with FileServer(files) as storage, Hub("o/r", HUB_FILES, storage) as made:
        yield made


def test_a_hub_has_quants_files_and_parts(hub, cache, monkeypatch):
    assert "PLIMSOLL_HUB" in refused("hf:o/r:Q8_0", code=2)
    monkeypatch.setenv("PLIMSOLL_HUB", hub.url)
    assert pulled("hf:o/r:q4_k_m")["model"] == "m-Q4_K_M.gguf"
    assert pulled("hf:o/r/m-Q8_0.gguf")["checked"]
    assert len(pulled("hf:o/r:BF16")["files"]) == 2
    assert visible(cache) == sorted(
        path.rpartition("/")[2] for path in HUB_FILES if path.endswith(".gguf")
    )
    assert "m-Q8_0.gguf" in refused("hf:o/r")
    assert "m-Q8_0.gguf" in refused("hf:o/r:Q2_K")
    hub.stop()
    assert pulled("hf:o/r:q4_k_m")["state"] == "offline"
    assert hub.host in refused("hf:o/r:Q2_K")


def test_a_hubs_token_is_for_the_hub(hub, monkeypatch):
    hub.token = "hub-secret"
    flags = ("hf:o/r:Q8_0", "--hub", hub.url)
    assert "PLIMSOLL_HUB_TOKEN" in refused(*flags)
    monkeypatch.setenv("PLIMSOLL_HUB_TOKEN", hub.token)
    pulled(*flags)
    assert hub.storage.fields("Authorization") == [None]
    with FileServer({f"/{NAME}": DATA}) as other:
        pulled(f"{other.url}/{NAME}")
        assert other.fields("Authorization") == [None]


def test_a_hub_that_contradicts_itself_is_refused(hub, cache):
    hub.listed["m-Q8_0.gguf"] = "b" * 64
    assert "b" * 64 in refused("hf:o/r:Q8_0", "--hub", hub.url)
    assert visible(cache) == []


def test_usage_errors(server):
    assert "no source" in refused(code=2)
    assert "neither a URL" in refused("m.gguf", code=2)
    assert "64 digits" in refused(f"{server.url}/{NAME}", "--sha256", "abc", code=2)
    assert "--address" in refused(f"{server.url}/{NAME}", "--address", "x:1", code=2)


class Talker(LocalServer):
    """Answers 404 with a head of as many bytes as it is told."""

    n_bytes = 0

    def reply(self, handler):
        head = b"HTTP/1.1 404 no\r\nContent-Length: 0\r\nX: "
        end = b"\r\n\r\n"
        filling = b"x" * (self.n_bytes - len(head) - len(end))
        handler.wfile.write(head + filling + end)


def test_the_longest_head_is_read_and_one_byte_more_is_not():
    with Talker() as server:
        server.n_bytes = 64 << 10
        assert "answers 404" in refused(f"{server.url}/{NAME}")
        server.n_bytes += 1
        assert "more than 65536 bytes" in refused(f"{server.url}/{NAME}")


def test_the_most_files_are_asked_for_and_one_more_is_not(server):
    assert "answers 404" in refused(f"{server.url}/s-00001-of-00256.gguf")
    n_asked = len(server.asked)
    assert "at most 256" in refused(f"{server.url}/s-00001-of-00257.gguf")
    assert len(server.asked) == n_asked


class Boaster(LocalServer):
    """Says that its files are larger than any disk."""

    def reply(self, handler):
        handler.send_response(200)
        handler.send_header("Content-Length", str(1 << 43))
        handler.end_headers()
        handler.wfile.write(DATA)
        handler.close_connection = True


def test_no_room_is_told_before_the_first_byte(cache):
    with Boaster() as server:
        assert "no room" in refused(f"{server.url}/{NAME}")
    assert visible(cache) == [] and parts(cache) == []
