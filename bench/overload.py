#!/usr/bin/env python3
"""What becomes of a worker that is asked for far more than it can serve, and
of streams beside one that nobody reads?

Starts plimsoll-worker with one model. First every slot is kept busy by a client
that asks again when it was answered: that is the peak. Then requests come at a
fixed rate, a multiple of the peak's: printed are the tokens of those that were
answered, and how long it took to refuse the others. Then some streams are read,
without and with one beside them whose client reads nothing. At last many streams
are not read, and what the worker holds for each of them is a part of what it
holds for all, because the pages of one alone are lost in those of the process.

Needs the packages of tests/e2e/requirements.txt.

usage: PLIMSOLL_BUILD=build/release overload.py [--times N] MODEL
"""
import contextlib
import os
import pathlib
import sys
import threading
import time

sys.path.append(str(pathlib.Path(__file__).parents[1] / "tests" / "e2e"))

import grpc  # noqa: E402
from arguments import parser_of  # noqa: E402
from asks import GREEDY, endless, generate, text  # noqa: E402
from servers import Worker, small_channel  # noqa: E402
from stubs import GenerationStub, admin, generation  # noqa: E402

from mixed_traffic import Reader, percentile, show  # noqa: E402

REFUSED = grpc.StatusCode.RESOURCE_EXHAUSTED


def ask(args, number):
    return generate(text=text(f"Story number {number}: once upon a time"),
                    sampling=GREEDY, max_tokens=args.tokens, ignore_eos=True)


def peak(worker, args):
    """Requests a second with every slot busy."""
    done = []
    end = time.monotonic() + args.seconds

    def client(number):
        while time.monotonic() < end:
            worker.generation.Generate(ask(args, number))
            done.append(time.monotonic())
            number += args.slots

    threads = [threading.Thread(target=client, args=(i,))
               for i in range(args.slots)]
    begin = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(done) / (done[-1] - begin)


class Call:
    """One request of the flood."""

    def __init__(self, worker, request):
        self.begin = time.monotonic()
        self.end = None
        self.call = worker.generation.Generate.future(request)
        self.call.add_done_callback(self.ended)

    def ended(self, _):
        self.end = time.monotonic()


def flood(worker, args, rate):
    """Answers a second, and seconds to each refusal."""
    calls = []
    begin = time.monotonic()
    while (now := time.monotonic()) < begin + args.seconds:
        due = int((now - begin) * rate) + 1
        calls += [Call(worker, ask(args, len(calls) + i))
                  for i in range(due - len(calls))]
        time.sleep(0.001)
    end = time.monotonic()
    for call in calls:
        try:
            call.call.result()
        except grpc.RpcError:
            pass
    # Requests of the queue's first fill and of its last are not counted.
    inside = [c for c in calls if c.call.code() == grpc.StatusCode.OK
              and c.end <= end]
    refusals = [c.end - c.begin for c in calls if c.call.code() == REFUSED]
    print(f"  {len(calls)} requests: {len(inside)} answered in time,"
          f" {len(refusals)} refused")
    return len(inside) / (end - begin), refusals


def rss(worker):
    with open(f"/proc/{worker.process.pid}/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def await_parked(worker, n=1):
    """Until the windows and the queues of n streams are full."""
    for _ in range(600):
        load = worker.admin.GetLoad(admin.GetLoadRequest())
        states = [request.state for model in load.models
                  for request in model.requests]
        if states.count(admin.REQUEST_STATE_PARKED) >= n:
            return
        time.sleep(0.1)
    raise SystemExit("a stream that nobody reads was not parked")


def read_for(worker, args):
    """Seconds between tokens of new streams, so that all contexts are alike."""
    readers = [Reader(worker, i) for i in range(args.slots - 1)]
    for reader in readers:
        reader.start()
    time.sleep(1)
    begin = time.monotonic()
    time.sleep(args.seconds / 4)
    end = time.monotonic()
    for reader in readers:
        reader.call.cancel()
        reader.join()
    return [gap for reader in readers for gap in reader.gaps(begin, end)]


def slow_reader(worker, args):
    quiet, beside = [], []
    for i in range(args.repeats):
        quiet += read_for(worker, args)
        before = rss(worker)
        with unread(worker, i):
            await_parked(worker)
            held = rss(worker) - before
            beside += read_for(worker, args)
        print(f"  held for a stream that nobody reads: {held / 1024:.0f} KiB"
              " of resident memory")
    show("between tokens, alone", quiet)
    show("between tokens, beside it", beside)
    ratio = percentile(beside, 99) / percentile(quiet, 99)
    print(f"  p99 with / without: {ratio:.2f}")


def large(name, **fields):
    """A stream with large messages."""
    return endless(text=text(f"Unread {name}"),
                   response=generation.ResponseOptions(top_logprobs=64), **fields)


@contextlib.contextmanager
def unread(worker, name):
    """A stream of which only the first message is read."""
    with small_channel(worker.address) as channel:
        call = GenerationStub(channel).StreamGenerate(large(name))
        next(call)
        yield
        call.cancel()


def read_whole(worker, name):
    """Reads a stream as long as those that nobody reads get."""
    with small_channel(worker.address) as channel:
        for _ in GenerationStub(channel).StreamGenerate(large(name,
                                                              max_tokens=128)):
            pass


def many_slow_readers(args):
    flags = [f"--model=m={args.model}", f"--slots={args.unread}",
             "--n-ctx=2048", "--prefix-cache=0", f"--threads={args.threads}"]
    with Worker(*flags) as worker:
        worker.await_ready()
        # What every stream takes, read or not, the process has taken then.
        readers = [threading.Thread(target=read_whole, args=(worker, i))
                   for i in range(args.unread)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        before = rss(worker)
        with contextlib.ExitStack() as stack:
            for i in range(args.unread):
                stack.enter_context(unread(worker, i))
            await_parked(worker, args.unread)
            held = rss(worker) - before
    print(f"  held for each of {args.unread} streams that nobody reads, beyond"
          f" what they take if they are read: {held / args.unread / 1024:.0f} KiB")


def main():
    parser = parser_of(__doc__, slots=4, tokens=32, repeats=4)
    parser.add_argument("--times", type=float, default=10,
                        help="the peak's rate")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--unread", type=int, default=16,
                        help="streams at once that nobody reads, at the end")
    parser.add_argument("--threads", type=int, default=0,
                        help="of the worker; leave a core to the clients")
    parser.add_argument("model")
    args = parser.parse_args()
    print(f"{os.path.basename(args.model)}: {args.slots} slots, replies of"
          f" {args.tokens} tokens, load {os.getloadavg()[0]:.1f}")
    flags = [f"--model=m={args.model}", f"--slots={args.slots}",
             "--n-ctx=8192", "--prefix-cache=0", f"--threads={args.threads}"]
    with Worker(*flags) as worker:
        worker.await_ready()
        most = peak(worker, args)
        print(f"  peak: {most * args.tokens:.0f} tokens/s, {most:.1f}"
              " requests/s")
        good, refusals = flood(worker, args, most * args.times)
        print(f"  at {args.times:g} times as many requests:"
              f" {good * args.tokens:.0f} tokens/s,"
              f" {good / most * 100:.0f} % of the peak")
        if refusals:
            print(f"  refused after: p50 {percentile(refusals, 50) * 1e3:.1f}"
                  f" ms, p99 {percentile(refusals, 99) * 1e3:.1f} ms")
        slow_reader(worker, args)
    many_slow_readers(args)


if __name__ == "__main__":
    main()
