#!/usr/bin/env python3
"""What is left in a worker's memory of a hundred thousand requests?

Starts plimsoll-worker with one model and sends requests of every kind from a
few clients: many small ones, and now and then the largest that the worker takes.
Printed are its resident memory before (after a warm-up with some of each kind),
its peak, and what it holds when it has been idle again; and the bytes of the
model's plan, before and after, and after a restart.

Needs the packages of tests/e2e/requirements.txt.

usage: PLIMSOLL_BUILD=build/release soak.py [--requests N] MODEL
"""
import argparse
import collections
import pathlib
import sys
import tempfile
import threading
import time

sys.path.append(str(pathlib.Path(__file__).parents[1] / "tests" / "e2e"))

import grpc  # noqa: E402
from asks import GREEDY, chat, endless, generate, text  # noqa: E402
from servers import Worker  # noqa: E402
from stubs import common, generation, model, session, tokenizer  # noqa: E402

MIB = 1 << 20
# The worker looks at its memory every 10 s, and only when it was idle between
# two looks; then it gives back what its heap does not use.
IDLE_SECONDS = 25
BIG = b"the quick brown fox jumps over the lazy dog. " * 90_000  # just below 4 MiB


def small_requests(worker):
    """One call of each kind; what a worker sees all day."""
    tok, gen = worker.tokenizer, worker.generation
    words = "What did the ship carry across the sea? " * 8
    yield "tokenize", lambda: tok.Tokenize(tokenizer.TokenizeRequest(text=words))
    yield "detokenize", lambda: tok.Detokenize(
        tokenizer.DetokenizeRequest(ids=range(100, 300)))
    yield "count", lambda: tok.CountTokens(
        tokenizer.CountTokensRequest(text=text(words)))
    yield "template", lambda: tok.ApplyChatTemplate(
        tokenizer.ApplyChatTemplateRequest(chat=chat(words)))
    yield "describe", lambda: worker.models.GetMemory(model.GetMemoryRequest())


def computing_requests(worker):
    """Requests that compute. They are slower, so there are fewer."""
    gen = worker.generation
    yield "generate", lambda: gen.Generate(
        generate(text=text("Once"), sampling=GREEDY, max_tokens=2))
    yield "logprobs", lambda: gen.Generate(
        generate(text=text("Once"), sampling=GREEDY, max_tokens=4,
                 response=generation.ResponseOptions(top_logprobs=64)))
    yield "score", lambda: gen.Score(generation.ScoreRequest(
        text=text("Once upon a"),
        continuations=[generation.Continuation(text=" time")]))
    yield "stream", lambda: list(gen.StreamGenerate(
        endless(max_tokens=3)))
    yield "session", lambda: chat_once(worker)


def chat_once(worker):
    """Opens a session, says something and closes it."""
    opened = worker.sessions.OpenSession(session.OpenSessionRequest()).session
    list(worker.sessions.Chat(session.ChatRequest(
        session_id=opened.session_id, message="Hello",
        stopping=generation.StoppingOptions(max_tokens=2))))
    worker.sessions.CloseSession(
        session.CloseSessionRequest(session_id=opened.session_id))


def large_requests(worker):
    """The largest requests and replies, and some that are refused."""
    tok = worker.tokenizer
    yield "big tokenize", lambda: tok.Tokenize(
        tokenizer.TokenizeRequest(raw_text=BIG))
    yield "big count", lambda: tok.CountTokens(tokenizer.CountTokensRequest(
        text=common.TextPrompt(raw_text=BIG)))
    yield "big detokenize", lambda: tok.Detokenize(
        tokenizer.DetokenizeRequest(ids=[200] * (1 << 20)))
    longest = longest_token(worker)
    yield "too long a reply", lambda: tok.Detokenize(
        tokenizer.DetokenizeRequest(ids=[longest] * (1 << 20)))
    yield "big prompt", lambda: worker.generation.Generate(
        generate(text=common.TextPrompt(raw_text=BIG), max_tokens=1))


def longest_token(worker):
    """The id of the token with the longest text, among the first ones."""
    def size(i):
        request = tokenizer.DetokenizeRequest(ids=[i])
        return len(worker.tokenizer.Detokenize(request).text)
    return max(range(200, 20_000, 7), key=size)


def resident(worker):
    """Resident bytes now, page by page."""
    path = f"/proc/{worker.process.pid}/smaps_rollup"
    with open(path, encoding="ascii") as rollup:
        line = next(line for line in rollup if line.startswith("Rss:"))
    return int(line.split()[1]) * 1024


def peak(worker):
    """The most that was ever resident."""
    path = f"/proc/{worker.process.pid}/status"
    with open(path, encoding="ascii") as status:
        line = next(line for line in status if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def settled(worker):
    """Resident bytes once the worker has been idle."""
    time.sleep(IDLE_SECONDS)
    return resident(worker)


def schedule(worker, args):
    """Which call is the n-th, for ever the same."""
    small = list(small_requests(worker))
    computing = list(computing_requests(worker))
    large = list(large_requests(worker))

    def pick(n):
        if n % args.large_every == 0:
            return large[n // args.large_every % len(large)]
        if n % args.computing_every == 0:
            return computing[n // args.computing_every % len(computing)]
        return small[n % len(small)]

    return pick


def soak(pick, first, count, clients):
    """Sends requests `first` to `first + count`; counts their ends by kind."""
    ends = collections.Counter()
    lock = threading.Lock()
    numbers = iter(range(first, first + count))

    def client():
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            name, call = pick(number)
            try:
                call()
                code = "OK"
            except grpc.RpcError as error:
                code = error.code().name
            with lock:
                ends[name, code] += 1

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ends


def plan_of(worker):
    """The plan as it is sent."""
    response = worker.models.GetMemory(model.GetMemoryRequest())
    return response.plan.SerializeToString(deterministic=True)


def start(args, folder):
    """A worker that plans with what is in `folder`."""
    return Worker(f"--model=m={args.model}", f"--n-ctx={args.n_ctx}", "--slots=4",
                  f"--profile-dir={folder}", "--device-memory=1GiB", *args.flag)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("model")
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--warm-up", type=int, default=2_000)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--n-ctx", type=int, default=512)
    parser.add_argument("--large-every", type=int, default=2_500)
    parser.add_argument("--computing-every", type=int, default=50)
    parser.add_argument("--flag", action="append", default=[],
                        help="another flag of the worker")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        # The first worker of a machine plans by the bound, the next ones by
        # what it measured.
        with start(args, folder) as worker:
            soak(schedule(worker.await_ready(), args), 1, 500, args.clients)
            settled(worker)
        with start(args, folder) as worker:
            pick = schedule(worker.await_ready(), args)
            plan = plan_of(worker)
            # One in ten is of the large ones here.
            fast = argparse.Namespace(**vars(args) | {"large_every": 10})
            soak(pick, 1, args.warm_up, args.clients)
            soak(schedule(worker, fast), 0, 100, args.clients)
            before = settled(worker)
            begin = time.monotonic()
            ends = soak(pick, 1, args.requests, args.clients)
            seconds = time.monotonic() - begin
            during = peak(worker)
            after = settled(worker)
            for (name, code), count in sorted(ends.items()):
                print(f"  {name:18} {code:20} {count:8,}")
            print(f"{args.requests:,} requests in {seconds:,.0f} s")
            print(f"resident before {before / MIB:8.2f} MiB")
            print(f"resident after  {after / MIB:8.2f} MiB"
                  f" ({100 * (after / before - 1):+.2f} %)")
            print(f"peak            {during / MIB:8.2f} MiB")
        with start(args, folder) as worker:
            is_same = plan_of(worker.await_ready()) == plan
            print("plan after a restart:", "the same" if is_same else "ANOTHER")
    good = is_same and after <= 1.02 * before
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
