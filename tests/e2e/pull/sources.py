"""Local servers that a model is pulled from: good ones, and bad ones."""

import contextlib
import hashlib
import http.client
import http.server
import json
import select
import socket
import ssl
import struct
import threading
import urllib.parse


def tiny_gguf(n_values=256, fill=b"\x01", split=None):
    """The bytes of a GGUF file with one tensor; `split` is (number, count)."""

    def text(value):
        return struct.pack("<Q", len(value)) + value

    keys = [text(b"general.architecture") + struct.pack("<I", 8) + text(b"llama")]
    name = b"t"
    if split:
        number, count = split
        for key, kind, value in (
            (b"split.no", "H", number),
            (b"split.count", "H", count),
            (b"split.tensors.count", "i", count),
        ):
            code = {"H": 2, "i": 5}[kind]
            keys.append(text(key) + struct.pack("<I" + kind, code, value))
        name = b"t%d" % number
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, len(keys)) + b"".join(keys)
    head += text(name) + struct.pack("<IQIQ", 1, n_values, 0, 0)
    head += b"\0" * (-len(head) % 32)
    return head + fill * (4 * n_values)


def sha256(data):
    """The digest of bytes as hex."""
    return hashlib.sha256(data).hexdigest()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.owner.answer(self)

    def do_CONNECT(self):
        self.server.owner.connect(self)

    def log_message(self, *_):
        pass


class _Http(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # a client that hangs up is no news


class LocalServer:
    """An HTTP server on loopback that keeps what it was asked."""

    scheme = "http"

    def __init__(self, tls=None):
        self.asked = []  # (path, headers)
        self.http = _Http(("127.0.0.1", 0), _Handler)
        self.http.owner = self
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls / "server.pem", tls / "server-key.pem")
            self.http.socket = context.wrap_socket(self.http.socket, server_side=True)
            self.scheme = "https"
        self.port = self.http.server_address[1]
        self.host = f"127.0.0.1:{self.port}"
        self.url = f"{self.scheme}://{self.host}"
        self.thread = threading.Thread(target=self.http.serve_forever, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """No more answers from here on."""
        if self.thread.is_alive():
            self.http.shutdown()
            self.thread.join()
        self.http.server_close()

    def answer(self, handler):
        """Answers a GET."""
        self.asked.append((handler.path, dict(handler.headers)))
        self.reply(handler)

    def connect(self, handler):
        """Answers a CONNECT."""
        handler.send_error(405)

    def send(self, handler, status, body=b"", **fields):
        """Sends a whole reply."""
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        for name, value in fields.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    def fields(self, name):
        """The values of a field in all requests."""
        return [headers.get(name) for _, headers in self.asked]


class FileServer(LocalServer):
    """Files by path, with the faults that a test turns on."""

    def __init__(self, files, tls=None):
        super().__init__(tls)
        self.files = dict(files)
        self.has_ranges = True
        self.has_etags = True
        self.cuts = []  # bytes of a body after which each next reply breaks off
        self.leads = {}  # path -> where a redirect leads
        self.lead_fields = {}  # further fields of redirects
        self.gate = None  # an event that bodies wait for after their first half

    def reply(self, handler):
        path = handler.path
        if path in self.leads:
            self.send(handler, 302, Location=self.leads[path], **self.lead_fields)
            return
        data = self.files.get(path)
        if data is None:
            self.send(handler, 404, b"there is no such file")
            return
        etag = f'"{sha256(data)[:16]}"'
        first = self._first(handler, data, etag)
        if first is not None and first >= len(data):
            self.send(handler, 416, Content_Range=f"bytes */{len(data)}")
            return
        handler.send_response(200 if first is None else 206)
        if first is not None:
            last = len(data) - 1
            handler.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
        body = data[first or 0 :]
        handler.send_header("Content-Length", str(len(body)))
        if self.has_etags:
            handler.send_header("ETag", etag)
        handler.end_headers()
        self._send_body(handler, body)

    def _first(self, handler, data, etag):
        wanted = handler.headers.get("Range")
        condition = handler.headers.get("If-Range")
        if not self.has_ranges or wanted is None:
            return None
        if condition is not None and not (self.has_etags and condition == etag):
            return None
        return int(wanted.removeprefix("bytes=").removesuffix("-"))

    def _send_body(self, handler, body):
        if self.gate is not None:
            handler.wfile.write(body[: len(body) // 2])
            handler.wfile.flush()
            self.gate.wait(60)
            handler.wfile.write(body[len(body) // 2 :])
            return
        if self.cuts:
            handler.wfile.write(body[: self.cuts.pop(0)])
            handler.wfile.flush()
            handler.close_connection = True
            with contextlib.suppress(OSError):
                handler.connection.shutdown(socket.SHUT_RDWR)
            return
        handler.wfile.write(body)


class Registry(LocalServer):
    """A registry with one repository, which wants a token."""

    def __init__(self, repository, tag, layers, tls=None):
        super().__init__(tls)
        self.repository = repository
        self.blobs = {f"sha256:{sha256(data)}": data for _, _, data in layers}
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "layers": [
                {
                    "mediaType": kind,
                    "digest": f"sha256:{sha256(data)}",
                    "size": len(data),
                    "annotations": {"org.opencontainers.image.title": title},
                }
                for kind, title, data in layers
            ],
        }
        self.manifest = json.dumps(manifest).encode()
        self.digest = f"sha256:{sha256(self.manifest)}"
        self.tags = {tag: self.manifest, self.digest: self.manifest}
        self.storage = None  # a FileServer that has the blobs

    def reply(self, handler):
        url = urllib.parse.urlparse(handler.path)
        if url.path == "/token":
            query = urllib.parse.parse_qs(url.query)
            good = query.get("scope") == [f"repository:{self.repository}:pull"]
            body = json.dumps({"token": "pass-" + self.repository}) if good else "{}"
            self.send(handler, 200, body.encode())
            return
        if handler.headers.get("Authorization") != f"Bearer pass-{self.repository}":
            challenge = f'Bearer realm="{self.url}/token",service="local",'
            challenge += f'scope="repository:{self.repository}:pull"'
            self.send(handler, 401, WWW_Authenticate=challenge)
            return
        head = f"/v2/{self.repository}/"
        kind, _, name = url.path.removeprefix(head).partition("/")
        if kind == "manifests" and name in self.tags:
            self.send(handler, 200, self.tags[name])
        elif kind == "blobs" and name in self.blobs and self.storage is not None:
            self.send(handler, 307, Location=f"{self.storage.url}/{name}")
        elif kind == "blobs" and name in self.blobs:
            self.send(handler, 200, self.blobs[name])
        else:
            self.send(handler, 404)


class Hub(LocalServer):
    """A hub with one repository, whose files lie at another server."""

    COMMIT = "c0ffee" + "0" * 34

    def __init__(self, repository, files, storage):
        super().__init__()
        self.repository = repository
        self.files = files
        self.storage = storage
        self.token = None  # if set, who lacks it is refused
        self.listed = {}  # path -> another digest than the file's

    def reply(self, handler):
        if self.token and handler.headers.get("Authorization") != f"Bearer {self.token}":
            self.send(handler, 401)
            return
        list_path = f"/api/models/{self.repository}/revision/main?blobs=true"
        if handler.path == list_path:
            self.send(handler, 200, json.dumps(self._list()).encode())
            return
        head = f"/{self.repository}/resolve/{self.COMMIT}/"
        name = handler.path.removeprefix(head)
        if not handler.path.startswith(head) or name not in self.files:
            self.send(handler, 404)
            return
        self.send(
            handler, 302, Location=f"{self.storage.url}/{name}",
            X_Linked_ETag=f'"{sha256(self.files[name])}"',
        )

    def _list(self):
        return {
            "sha": self.COMMIT,
            "siblings": [
                {
                    "rfilename": path,
                    "size": len(data),
                    "lfs": {
                        "sha256": self.listed.get(path, sha256(data)),
                        "size": len(data),
                    },
                }
                for path, data in self.files.items()
            ],
        }


class Proxy(LocalServer):
    """A proxy for plain HTTP and, by CONNECT, for TLS."""

    def __init__(self):
        super().__init__()
        self.tunnels = []

    def reply(self, handler):
        url = urllib.parse.urlparse(handler.path)
        there = http.client.HTTPConnection("127.0.0.1", url.port, timeout=30)
        there.request("GET", url.path, headers=dict(handler.headers))
        got = there.getresponse()
        body = got.read()
        handler.send_response(got.status)
        for name, value in got.getheaders():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)
        there.close()

    def connect(self, handler):
        self.tunnels.append(handler.path)
        port = int(handler.path.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as there:
            handler.send_response(200)
            handler.end_headers()
            ends = {handler.connection: there, there: handler.connection}
            while True:
                ready, _, _ = select.select(list(ends), [], [], 30)
                if not ready:
                    break
                data = ready[0].recv(1 << 16)
                if not data:
                    break
                ends[ready[0]].sendall(data)
        handler.close_connection = True
