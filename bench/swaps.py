#!/usr/bin/env python3
"""What a swap of two models costs beyond the load: the time to the first byte
of a request whose model has to be loaded, where the other one has to go and
where there is room for both, in turn.

Where there is room, the model is unloaded first (keep_alive 0), so that both
servers load it from the page cache. The difference of the medians is the swap.

usage: PLIMSOLL_BUILD=build/release swaps.py [--runs N] MODEL MODEL

Needs the packages of tests/e2e/requirements.txt.
"""
import http.client
import json
import pathlib
import statistics
import sys
import time

sys.path.append(str(pathlib.Path(__file__).parents[1] / "tests" / "e2e"))

from arguments import parser_of  # noqa: E402
from servers import Front, until  # noqa: E402

SECONDS = 60


def call(server, path, body=None):
    """The JSON of a reply, and the seconds until its first byte."""
    connection = http.client.HTTPConnection(server.address, timeout=SECONDS)
    start = time.monotonic()
    connection.request("POST" if body else "GET", path,
                       json.dumps(body) if body else None)
    reply = connection.getresponse()
    seconds = time.monotonic() - start
    text = reply.read()
    connection.close()
    assert reply.status == 200, text
    return json.loads(text), seconds


def models(server):
    return call(server, "/v1/models")[0]["data"]


def first_byte(server, name):
    """Seconds of the shortest request for a model."""
    body = {"model": name, "prompt": "The", "max_tokens": 1}
    return call(server, "/v1/completions", body)[1]


def unload(server, name):
    call(server, "/api/generate",
         {"model": name, "keep_alive": 0, "stream": False})
    until(lambda: any(model["id"] == name and model["state"] == "unloaded"
                      for model in models(server)), SECONDS, "the model to go")


def main():
    parser = parser_of(__doc__, runs=15)
    parser.add_argument("models", nargs=2, metavar="MODEL")
    args = parser.parse_args()
    flags = (*args.models, "--n-ctx=1024", "--slots=2")
    with Front(*flags) as roomy:
        sizes = {model["id"]: model["planned_bytes"] for model in models(roomy)}
        budget = max(sizes.values()) + min(sizes.values()) // 2
        with Front(*flags, f"--device-memory={budget}") as narrow:
            alone = {name: [] for name in sizes}
            swapped = {name: [] for name in sizes}
            for i in range(args.runs * 2):
                # The first model is loaded at the start.
                name = list(sizes)[(i + 1) % 2]
                swapped[name].append(first_byte(narrow, name))
                unload(roomy, name)
                alone[name].append(first_byte(roomy, name))
    for name in sizes:
        load = statistics.median(alone[name])
        swap = statistics.median(swapped[name])
        print(f"{name}: load {load * 1e3:.0f} ms, swap {swap * 1e3:.0f} ms, "
              f"difference {(swap - load) * 1e3:+.0f} ms, medians of {args.runs}")


if __name__ == "__main__":
    main()
