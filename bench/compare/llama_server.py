"""llama.cpp's llama-server on a free port. Needs tests/e2e in the path."""
import shlex
import subprocess
import time
import urllib.error
import urllib.request

from servers import free_port

START_SECONDS = 60


def is_healthy(address):
    """Whether a server's /health says 200, which it does with its model loaded."""
    try:
        with urllib.request.urlopen(f"http://{address}/health") as reply:
            return reply.status == 200
    except (urllib.error.URLError, ConnectionError):
        return False


def await_health(process, address):
    """Returns once the server at the address is healthy."""
    end = time.monotonic() + START_SECONDS
    while not is_healthy(address):
        if process.poll() is not None or time.monotonic() > end:
            raise SystemExit(f"not healthy: {shlex.join(process.args)}")
        time.sleep(0.05)


class LlamaServer:
    """The process; a context manager. n_ctx is that of one slot."""

    def __init__(self, path, model, n_slots, n_ctx, n_threads, *flags):
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        # -fit would measure the machine's free memory at each start.
        self.process = subprocess.Popen(
            [path, "-m", model, "-np", str(n_slots), "-c", str(n_slots * n_ctx),
             "-t", str(n_threads), "-tb", str(n_threads), "--port", str(port),
             "-fit", "off", *flags],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __enter__(self):
        try:
            await_health(self.process, self.address)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *unused):
        self.process.terminate()
        self.process.wait()
