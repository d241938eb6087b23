"""Whether the client's package works: it asks an installed worker for text.

Usage: client_smoke.py MODEL   in an environment with both wheels
"""

import subprocess
import sys

from plimsoll_grpc import Worker


def main():
    process = subprocess.Popen(
        ["plimsoll-worker", "--listen=127.0.0.1:0", f"--model=small={sys.argv[1]}"]
        + ["--n-ctx=512", "--lazy"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        address = process.stdout.readline().removeprefix("listening on ").strip()
        with Worker(address, timeout=60) as worker:
            for _ in worker.load_model("small"):
                pass
            reply = worker.generate("The sea is", max_tokens=4, temperature=0)
        assert reply.usage.generated_tokens == 4, reply
    finally:
        process.terminate()
        assert process.wait(timeout=60) == 0
    print("client: ok")


if __name__ == "__main__":
    main()
