#!/usr/bin/env python3
"""Many streams at once on llama.cpp's server and on plimsoll-worker, the same
file, prompts, reply lengths and threads, alternately; prints tokens a second
and their ratio.

usage: PLIMSOLL_BUILD=build/release server.py --llama-server PATH MODEL

Needs the packages of tests/e2e/requirements.txt.
"""
import json
import os
import pathlib
import statistics
import sys
import threading
import time
import urllib.request

sys.path.append(str(pathlib.Path(__file__).parents[1]))
sys.path.append(str(pathlib.Path(__file__).parents[2] / "tests" / "e2e"))

from arguments import parser_of  # noqa: E402
from asks import GREEDY, generate, text  # noqa: E402
from llama_server import LlamaServer  # noqa: E402
from servers import Worker  # noqa: E402


def prompt(number):
    return f"Story number {number}: once upon a time there was a ship that"


def at_once(n_streams, n_tokens, ask):
    """Tokens a second of so many streams."""
    counts = [0] * n_streams

    def client(i):
        counts[i] = ask(prompt(i))

    threads = [threading.Thread(target=client, args=(i,))
               for i in range(n_streams)]
    begin = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - begin
    assert counts == [n_tokens] * n_streams, counts
    return n_streams * n_tokens / seconds


def theirs(args):
    with LlamaServer(args.llama_server, args.model, args.streams, args.n_ctx,
                     args.threads, "--no-cache-prompt") as server:

        def ask(words):
            body = {"prompt": words, "n_predict": args.tokens,
                    "temperature": 0, "ignore_eos": True,
                    "cache_prompt": False}
            request = urllib.request.Request(
                f"http://{server.address}/completion",
                json.dumps(body).encode(), {"Content-Type": "application/json"})
            reply = json.load(urllib.request.urlopen(request))
            return reply["tokens_predicted"]

        at_once(args.streams, args.tokens, ask)  # warm up
        return at_once(args.streams, args.tokens, ask)


def ours(args, n_streams):
    flags = [f"--model=m={args.model}", f"--slots={n_streams}",
             f"--n-ctx={args.n_ctx}", f"--threads={args.threads}",
             "--prefix-cache=0"]
    with Worker(*flags) as worker:
        worker.await_ready()

        def ask(words):
            reply = worker.generation.Generate(generate(
                text=text(words), sampling=GREEDY, max_tokens=args.tokens,
                ignore_eos=True))
            return len(reply.tokens) or reply.usage.generated_tokens

        at_once(n_streams, args.tokens, ask)
        return at_once(n_streams, args.tokens, ask)


def main():
    parser = parser_of(__doc__, streams=16, tokens=128, threads=os.cpu_count(), runs=3)
    parser.add_argument("--llama-server")
    parser.add_argument("--more", type=int, default=64,
                        help="streams of a second measurement of ours; 0 = none")
    parser.add_argument("--n-ctx", type=int, default=512, help="of a stream")
    parser.add_argument("model")
    args = parser.parse_args()
    rates = {"llama-server": [], "plimsoll": [], "more": []}
    for _ in range(args.runs):
        if args.llama_server:
            rates["llama-server"].append(theirs(args))
        rates["plimsoll"].append(ours(args, args.streams))
        if args.more:
            rates["more"].append(ours(args, args.more))
    middle = {name: statistics.median(values)
              for name, values in rates.items() if values}
    print(f"{os.path.basename(args.model)}, {args.threads} threads, replies of"
          f" {args.tokens} tokens; medians of {args.runs}")
    for name, streams in (("llama-server", args.streams),
                          ("plimsoll", args.streams), ("more", args.more)):
        if name not in middle:
            continue
        shown = "plimsoll" if name == "more" else name
        spread = f"{min(rates[name]):.0f}..{max(rates[name]):.0f}"
        print(f"  {shown:<14}{streams:>4} streams {middle[name]:8.0f} tokens/s"
              f"  ({spread})")
    if "llama-server" in middle:
        ratio = middle["plimsoll"] / middle["llama-server"]
        print(f"  plimsoll / llama-server: {ratio:.2f}")
    if "more" in middle:
        print(f"  {args.more} streams / {args.streams}:"
              f" {middle['more'] / middle['plimsoll']:.2f}")


if __name__ == "__main__":
    main()
