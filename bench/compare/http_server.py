#!/usr/bin/env python3
"""Streams over HTTP from llama.cpp's server and from `plimsoll serve`: the same
file, threads, context of a slot and bytes of requests to /v1/completions, read
by one and the same client.

The servers run in turn, each time in a new process. They get a round of short
replies that nobody counts, and then the streams, all at once. Prompts are of
random words, so that no cache has them. Each reply must have as many tokens as
were asked for, and both servers must count the same tokens in the prompts.

usage: PLIMSOLL_BUILD=build/release http_server.py --llama-server PATH MODEL...

scripts/build_llama_server.sh builds the other server. With --flags "-fa off" it
runs with these flags, too; the ratio is to the fastest of all.
Needs the packages of tests/e2e/requirements.txt.
"""
import datetime
import json
import os
import pathlib
import random
import shlex
import statistics
import sys
import time

sys.path.append(str(pathlib.Path(__file__).parents[1]))
sys.path.append(str(pathlib.Path(__file__).parents[2] / "tests" / "e2e"))

import report  # noqa: E402
import sse  # noqa: E402
from arguments import parser_of  # noqa: E402
from compare import run  # noqa: E402
from llama_server import LlamaServer  # noqa: E402
from servers import Front, binary, processor_seconds  # noqa: E402

OURS, THEIRS = "plimsoll", "llama-server"
WORDS = ("time water people city story money music house river garden winter "
         "summer morning evening letter teacher doctor captain island forest "
         "market window kitchen silver paper language question answer history "
         "science number engine bridge village mountain weather").split()
WARM_UP_TOKENS = 8


def body(args, seed, n_tokens):
    words = random.Random(seed).choices(WORDS, k=args.prompt_words)
    return json.dumps({
        "prompt": " ".join(words), "max_tokens": n_tokens, "temperature": 0,
        "ignore_eos": True, "stream": True,
        "stream_options": {"include_usage": True}}).encode()


def ask(args, server, seed, n_tokens):
    return sse.ask(server.address, "/v1/completions",
                   [body(args, f"{seed} {i}", n_tokens)
                    for i in range(args.streams)])


def measure(args, server, seed):
    """The figures of one round."""
    ask(args, server, f"{seed} warm up", WARM_UP_TOKENS)
    ours, theirs = time.process_time(), processor_seconds(server.process.pid)
    begin, replies = ask(args, server, seed, args.tokens)
    seconds = max(reply.times[-1] for reply in replies) - begin
    ours = time.process_time() - ours
    theirs = processor_seconds(server.process.pid) - theirs
    counts = [reply.count("completion_tokens") for reply in replies]
    if counts != [args.tokens] * args.streams:
        raise SystemExit(f"replies of {counts} tokens")
    events = [reply.event_times() for reply in replies]
    return {
        "rate": args.streams * args.tokens / seconds,
        "first": [times[0] - begin for times in events],
        "gaps": [b - a for times in events for a, b in zip(times, times[1:])],
        "events": statistics.mean(map(len, events)),
        "prompt": sum(reply.count("prompt_tokens") for reply in replies),
        "cached": sum(reply.count("cached_tokens") for reply in replies),
        "server": theirs / seconds,
        "client": ours / seconds,
    }


def servers(args, model):
    """What starts each server, by its name."""
    found = {OURS: lambda: Front(
        model, f"--slots={args.streams}", f"--n-ctx={args.n_ctx}",
        f"--threads={args.threads}")}
    for flags in ["", *args.flags]:
        found[f"{THEIRS} {flags}".rstrip()] = lambda flags=flags: LlamaServer(
            args.llama_server, model, args.streams, args.n_ctx, args.threads,
            *shlex.split(flags))
    return found


def rounds(args, model):
    """The figures of every round by the name of the server."""
    figures = {}
    for i in range(args.runs):
        for name, start in servers(args, model).items():
            print(f"{os.path.basename(model)}: round {i + 1} of {args.runs}, "
                  f"{name}", file=sys.stderr)
            with start() as server:
                figures.setdefault(name, []).append(measure(args, server, i))
        tokens = {name: all_[-1]["prompt"] for name, all_ in figures.items()}
        if len(set(tokens.values())) > 1:
            raise SystemExit(f"tokens of the prompts differ: {tokens}")
    return figures


def row(name, found):
    """A server's row of the table."""
    def middle(key):
        return statistics.median(each[key] for each in found)

    def middle_of_all(key):
        return statistics.median(value for each in found for value in each[key])

    rates = [each["rate"] for each in found]
    return (f"| {name} | {middle('rate'):,.0f} | {min(rates):,.0f}–"
            f"{max(rates):,.0f} | {middle_of_all('first') * 1e3:,.0f} ms | "
            f"{middle_of_all('gaps') * 1e3:.1f} ms | {middle('events'):.1f} | "
            f"{middle('cached'):.0f} | {middle('server'):.2f} | "
            f"{middle('client'):.3f} |")


def table(args, model, figures):
    """What one model gave."""
    def rates(name):
        return [each["rate"] for each in figures[name]]

    best = max((name for name in figures if name != OURS),
               key=lambda name: statistics.median(rates(name)))
    middle, least, most = report.ratios(
        {"plimsoll": rates(OURS), "peer": rates(best)})
    prompt = figures[OURS][0]["prompt"] / args.streams
    return "\n".join([
        f"{os.path.basename(model)}, {args.streams} streams of {args.tokens} "
        f"tokens after prompts of {prompt:.0f}, medians of {args.runs} rounds:",
        "", "| server | tokens/s | least–most | TTFT | ITL | events of a reply "
        "| cached tokens of all prompts | server's cores | client's cores |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
        *(row(name, found) for name, found in figures.items()),
        "", f"{OURS} / {best}: **{middle:.2f}** ({least:.2f}–{most:.2f})"])


def main():
    parser = parser_of(__doc__, streams=16, tokens=128, prompt_words=64,
                       threads=os.cpu_count(), runs=5)
    parser.add_argument("--llama-server", required=True)
    parser.add_argument("--flags", action="append", default=[],
                        help="more flags of the other server; repeatable")
    parser.add_argument("--n-ctx", type=int, default=512, help="of a slot")
    parser.add_argument("models", nargs="+", metavar="MODEL")
    args = parser.parse_args()
    version = json.loads(run([binary("plimsoll"), "version", "-o", "json"]))
    print(f"{datetime.date.today()}, {version['cpu']} ({version['cpu_target']}),"
          f" {args.threads} threads", flush=True)
    for model in args.models:
        print(f"\n{table(args, model, rounds(args, model))}", flush=True)


if __name__ == "__main__":
    main()
