#!/usr/bin/env python3
"""What can hostile requests within the limits do to others?

1. The search: each kind of request is tried with sizes at random and at their
   limits, the best ones are varied, and the processor time that the server
   spends on each is read. Printed are the ten that cost the most for each byte
   sent, and the ten that cost the most at all.
2. The planner, which knows as many devices as it may: clients send the worst
   requests that were found, one after the other. Meanwhile a lease is renewed and
   health is asked; printed are p50, p99 and the maximum of both.
3. The worker: streams of several tenants are read beside clients of another one
   that send the worst requests, and beside as many cheap ones as often: once the
   cheapest there is, and once, for each request that generates, as many tokens
   without a constraint, which take their rows of each step as the streams' own
   tokens do. The three take turns.
   Printed are the streams' rate, the ratios and the longest gap between two
   tokens.

Needs the packages of tests/e2e/requirements.txt.

usage: PLIMSOLL_BUILD=build/release abuse.py [--only planner|worker] MODEL
"""
import json
import multiprocessing
import os
import pathlib
import random
import statistics
import sys
import threading
import time

sys.path.append(str(pathlib.Path(__file__).parents[1] / "tests" / "e2e"))

import grpc  # noqa: E402
from arguments import parser_of  # noqa: E402
from asks import GREEDY, chat, generate, text  # noqa: E402
from grpc_health.v1 import health_pb2, health_pb2_grpc  # noqa: E402
from servers import Planner, Worker, processor_seconds  # noqa: E402
from stubs import (GenerationStub, PlannerStub, TokenizerStub,  # noqa: E402
                   common, generation, planner as v1, tokenizer)

from test_leases import named, register, reserve  # noqa: E402

from mixed_traffic import Reader, percentile  # noqa: E402

SERVICES = {PlannerStub: "PlannerService", GenerationStub: "GenerationService",
            TokenizerStub: "TokenizerService"}
MESSAGE_BYTES = 4 << 20  # the servers' limit
HEADER_BYTES = 1 << 20  # a model's header, likewise
CALL_SECONDS = 20
FLEET = 4096  # devices that a planner knows at most
RECOVERY_SECONDS = 10  # until it grants
BURST_SECONDS = 4  # prompts may take more than their share for so long


class Kind:
    """A kind of request: its method, and its sizes with their limits."""

    def __init__(self, stub, method, make, **limits):
        self.stub, self.method = stub, method
        self.make, self.limits = make, limits

    def path(self):
        """The method's path in a URL."""
        return f"/plimsoll.v1.{SERVICES[self.stub]}/{self.method}"

    def random_sizes(self, rng):
        """Each size at its limit, at one, or between, most often small."""
        return {name: rng.choice([1, most, int(most ** rng.random())])
                for name, most in self.limits.items()}

    def varied(self, rng, sizes):
        """One of the sizes is another one."""
        name = rng.choice(list(sizes))
        factor = rng.choice([0.25, 0.5, 2, 4])
        size = max(1, min(self.limits[name], int(sizes[name] * factor)))
        return {**sizes, name: size}

    def ask(self, channel, sizes):
        """Calls, reads all of the answer, and returns the bytes sent."""
        request = self.make(sizes)
        reply = getattr(self.stub(channel), self.method)(
            request, timeout=CALL_SECONDS)
        if hasattr(reply, "__next__"):
            for _ in reply:
                pass
        return request.ByteSize()


def source(layers):
    """The numbers of a model of so many layers."""
    return v1.ModelSource(hyperparameters=v1.Hyperparameters(
        architecture="llama", n_layers=layers, model_dim=4096, n_heads=32,
        n_kv_heads=8, ffn_dim=14336, vocab_size=128256, n_ctx_train=131072))


def what_if(s):
    types = [common.ELEMENT_TYPE_F16, common.ELEMENT_TYPE_Q8_0,
             common.ELEMENT_TYPE_F32]
    kv = [v1.KvTypes(k_type=k, v_type=v) for k in types for v in types]
    return v1.WhatIfRequest(
        source=source(s["layers"]), kv_types=kv[:s["kv"]],
        devices=[v1.WhatIfDevice(budget_bytes=(16 << 30) + i)
                 for i in range(s["devices"])],
        n_slots=range(1, s["slots"] + 1), n_ctx=range(0, 256 * s["ctx"], 256),
        n_ubatch=range(1, s["ubatch"] + 1))


def plan_split(s):
    return v1.PlanSplitRequest(
        source=source(s["layers"]),
        devices=[v1.SplitDevice(budget_bytes=(s["mib"] << 20) + i)
                 for i in range(s["devices"])])


def place_models(s):
    return v1.PlaceModelsRequest(
        models=[v1.ModelToPlace(name=f"m{i}", source=source(s["layers"] + i % 7),
                                n_replicas=s["replicas"])
                for i in range(s["models"])],
        devices=[v1.DeviceToFill(id=f"d{i}", catalogue_name="rtx-4090",
                                 available_bytes=((s["mib"] + i % 5) << 20))
                 for i in range(s["devices"])])


def batch_plan(s):
    one = v1.PlanRequest(source=source(s["layers"]), budget_bytes=64 << 30)
    return v1.BatchPlanRequest(requests=[one] * s["plans"])


def header(s):
    """A GGUF header of empty strings, empty arrays and tiny tensors."""
    def number(value, n):
        return value.to_bytes(n, "little")

    array = 32 + 8 * s["strings"]
    n_arrays = max(1, min(s["arrays"], HEADER_BYTES // array))
    body = b"".join(
        number(8, 8) + f"{i:08d}".encode() + number(9, 4) + number(8, 4)
        + number(s["strings"], 8) + bytes(8 * s["strings"])
        for i in range(n_arrays))
    tensors = b"".join(
        number(8, 8) + f"{i:08d}".encode() + number(1, 4) + number(1, 8)
        + number(0, 4) + number(32 * i, 8) for i in range(s["tensors"]))
    gguf = (b"GGUF" + number(3, 4) + number(s["tensors"], 8)
            + number(n_arrays, 8) + body + tensors)
    return v1.ModelSource(header=v1.ModelHeader(
        gguf=gguf[:HEADER_BYTES], file_bytes=1 << 50))


PLANNER_KINDS = {
    "WhatIf": Kind(PlannerStub, "WhatIf", what_if, layers=512, kv=9, devices=64,
                   slots=256, ctx=256, ubatch=256),
    "PlanSplit": Kind(PlannerStub, "PlanSplit", plan_split, layers=512,
                      devices=64, mib=1 << 20),
    "PlaceModels": Kind(PlannerStub, "PlaceModels", place_models, layers=500,
                        models=1024, replicas=1024, devices=4096, mib=1 << 16),
    "BatchPlan": Kind(PlannerStub, "BatchPlan", batch_plan, layers=512,
                      plans=256),
    "DescribeModel": Kind(
        PlannerStub, "DescribeModel",
        lambda s: v1.DescribeModelRequest(source=header(s)),
        arrays=40000, strings=130000, tensors=25000),
    "FindDevices": Kind(
        PlannerStub, "FindDevices",
        lambda s: v1.FindDevicesRequest(source=source(s["layers"])), layers=512),
    "ListDevices": Kind(PlannerStub, "ListDevices",
                        lambda s: v1.ListDevicesRequest(), one=1),
    "ListLeases": Kind(PlannerStub, "ListLeases",
                       lambda s: v1.ListLeasesRequest(), one=1),
}

TEXTS = ["a", " ", "\ufffd", "0", "ab", "\n", "é", "<|im_start|>", "日本語",
         "The quick brown fox jumps. ", "x = foo(bar[3]) + 0x1F;\n", "\u0301a"]


def long_text(s):
    piece = TEXTS[s["text"] % len(TEXTS)]
    n_bytes = min(s["bytes"], MESSAGE_BYTES - 64)
    return piece * (n_bytes // len(piece.encode()))


def regex(s):
    """A pattern of nested repetitions."""
    return generation.OutputConstraint(
        regex="(" * s["groups"] + "[a-z ,.]{1,%d}" % s["repeats"]
              + "){1,%d}" % s["outer"] * s["groups"])


def choices(s):
    """A pattern of many choices that begin alike, each repeated."""
    return generation.OutputConstraint(
        regex="(" + "|".join(f"[a-{chr(97 + i % 26)} ,.]{{1,{s['repeats']}}}"
                             for i in range(s["choices"])) + "){1,40}")


def schema(s):
    """A JSON schema of nested objects with many properties."""
    inner = {"type": "string", "maxLength": s["length"]}
    for _ in range(s["depth"]):
        inner = {"type": "object", "properties": {
            f"p{i}": inner if i == 0 else {"type": ["string", "number"]}
            for i in range(s["properties"])}}
    return generation.OutputConstraint(json_schema=json.dumps(inner))


def gbnf(s):
    """A grammar of rules that refer to each other and begin alike."""
    rules = [f"r{i} ::= [a-z]{{1,{s['repeats']}}} r{(i + 1) % s['rules']}"
             f" | [a-y ] r{(i + 2) % s['rules']} | [a-x]*"
             for i in range(s["rules"])]
    return generation.OutputConstraint(gbnf="root ::= r0\n" + "\n".join(rules))


def under(make, **limits):
    """Replies of sixteen tokens under a constraint."""
    return Kind(GenerationStub, "Generate",
                lambda s: sixteen_tokens(constraint=make(s)), **limits)


def sixteen_tokens(**more):
    return generate(text=text("x"), max_tokens=16, sampling=GREEDY, **more)


WORKER_KINDS = {
    "CountTokens": Kind(
        TokenizerStub, "CountTokens",
        lambda s: tokenizer.CountTokensRequest(text=text(long_text(s))),
        bytes=MESSAGE_BYTES, text=len(TEXTS)),
    "Tokenize": Kind(
        TokenizerStub, "Tokenize",
        lambda s: tokenizer.TokenizeRequest(text=long_text(s)),
        bytes=MESSAGE_BYTES, text=len(TEXTS)),
    "Detokenize": Kind(
        TokenizerStub, "Detokenize",
        lambda s: tokenizer.DetokenizeRequest(ids=[300 + s["id"]] * s["ids"]),
        ids=1 << 20, id=40000),
    "ApplyChatTemplate": Kind(
        TokenizerStub, "ApplyChatTemplate",
        lambda s: tokenizer.ApplyChatTemplateRequest(
            chat=chat(*["x" * s["bytes"]] * (2 * (s["messages"] // 2) + 1))),
        bytes=4096, messages=900),
    "Generate, text": Kind(
        GenerationStub, "Generate",
        lambda s: generate(text=text(long_text(s)), max_tokens=1),
        bytes=MESSAGE_BYTES, text=len(TEXTS)),
    "Generate, regex": under(regex, groups=8, repeats=200, outer=40),
    "Generate, choices": under(choices, choices=500, repeats=80),
    "Generate, schema": under(schema, depth=6, properties=100, length=4000),
    "Generate, gbnf": under(gbnf, rules=200, repeats=80),
}
CHEAP = Kind(TokenizerStub, "CountTokens",
             lambda s: tokenizer.CountTokensRequest(text=text("x")), one=1)
UNCONSTRAINED = Kind(GenerationStub, "Generate",
                     lambda s: sixteen_tokens(), one=1)


def same_tokens(kind, sizes):
    """The cheapest request whose reply has as many tokens."""
    request = kind.make(sizes)
    is_constrained = (isinstance(request, generation.GenerateRequest)
                      and request.HasField("constraint"))
    return (UNCONSTRAINED if is_constrained else CHEAP, {"one": 1})


class Found:
    """A request and what it cost."""

    def __init__(self, name, kind, sizes, n_bytes, seconds, answer):
        self.name, self.kind, self.sizes = name, kind, sizes
        self.n_bytes, self.seconds, self.answer = n_bytes, seconds, answer

    def per_byte(self):
        """Seconds for each byte; a small request counts as a packet of 256."""
        return self.seconds / max(self.n_bytes, 256)

    def is_prompt(self):
        """Whether its cost is that of tokens that the model computed."""
        return self.name == "Generate, text" and self.answer == "OK"

    def __str__(self):
        sizes = ", ".join(f"{k} {v}" for k, v in self.sizes.items())
        return (f"{self.seconds * 1e3:8.0f} ms {self.n_bytes:9d} bytes"
                f" {self.per_byte() * 1e6:9.2f} us/byte  {self.answer:19}"
                f" {self.name} ({sizes})")


def cost(server, name, kind, sizes):
    """What one request costs the server."""
    begin = processor_seconds(server.process.pid)
    answer = "OK"
    try:
        n_bytes = kind.ask(server.channel, sizes)
    except grpc.RpcError as error:
        answer = error.code().name
        n_bytes = kind.make(sizes).ByteSize()
    return Found(name, kind, sizes, n_bytes, processor_seconds(server.process.pid) - begin, answer)


def search(server, kinds, seconds, seed):
    """Requests by cost, found in so many seconds."""
    rng = random.Random(seed)
    found = []
    end = time.monotonic() + seconds
    for name, kind in kinds.items():
        found.append(cost(server, name, kind, dict(kind.limits)))
    while time.monotonic() < end:
        name = rng.choice(list(kinds))
        kind = kinds[name]
        mine = [one for one in found if one.name == name]
        key = rng.choice([Found.per_byte, lambda one: one.seconds])
        if rng.random() < 0.5:
            sizes = kind.random_sizes(rng)
        else:
            sizes = kind.varied(rng, max(mine, key=key).sizes)
        if all(sizes != one.sizes for one in mine):
            found.append(cost(server, name, kind, sizes))
    return found


def show_worst(title, found):
    for what, key in (("a byte", Found.per_byte),
                      ("a request", lambda one: one.seconds)):
        print(f"{title}: {len(found)} requests tried, the worst by cost {what}")
        for one in sorted(found, key=key, reverse=True)[:10]:
            print(f"  {one}")


def send(address, requests, first, pause, end, n_sent):
    """Sends serialised requests, one after the other, until `end` is set."""
    with grpc.insecure_channel(address) as channel:
        i = first
        while not end.is_set():
            path, message = requests[i % len(requests)]
            i += 1
            call = channel.unary_unary(path)  # bytes are sent as they are
            try:
                call(message, timeout=CALL_SECONDS)
            except grpc.RpcError:
                pass
            with n_sent.get_lock():
                n_sent.value += 1
            end.wait(pause)


class Clients:
    """Processes that send requests until they are stopped; a context manager.

    Each has a connection of its own. The requests are made before, so that the
    clients take little of the processors that the server needs."""

    def __init__(self, address, n, requests, pause=0.01):
        of = multiprocessing.get_context("spawn")
        self.end, self.sent = of.Event(), of.Value("q", 0)
        messages = [(kind.path(), kind.make(sizes).SerializeToString())
                    for kind, sizes in requests]
        self.processes = [
            of.Process(target=send, daemon=True, args=(
                address, messages, i, pause, self.end, self.sent))
            for i in range(n)]

    @property
    def n_sent(self):
        return self.sent.value

    def __enter__(self):
        for process in self.processes:
            process.start()
        if self.processes:
            time.sleep(3)  # for their imports
        return self

    def __exit__(self, *unused):
        self.end.set()
        for process in self.processes:
            process.join()


def time_calls(call, seconds):
    """Seconds of each call, some 50 a second."""
    times = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        begin = time.monotonic()
        call()
        times.append(time.monotonic() - begin)
        time.sleep(0.02)
    return times


def show_times(title, times):
    print(f"  {title}: p50 {percentile(times, 50) * 1e3:.1f} ms,"
          f" p99 {percentile(times, 99) * 1e3:.1f} ms,"
          f" most {max(times) * 1e3:.1f} ms ({len(times)} calls)")


def register_fleet(planner):
    """Registers as many devices as a planner knows, each with a lease."""
    register(planner)
    one = planner.stub.ListDevices(v1.ListDevicesRequest()).devices[0].profile
    for i in range(1, FLEET):
        one.id = f"host{i}/cpu"
        planner.stub.RegisterDevice(v1.RegisterDeviceRequest(profile=one))
    time.sleep(RECOVERY_SECONDS)
    for i in range(1, FLEET):
        planner.stub.Reserve(v1.ReserveRequest(
            request_id=f"r{i}", device_id=f"host{i}/cpu", holder=f"host{i}/1",
            purpose="a model", bytes=1))


def renewals(planner):
    """A call that renews a lease."""
    lease = named(reserve(planner, "bench", 1))
    planner.stub.Confirm(v1.ConfirmRequest(measured_bytes=1, **lease))
    request = v1.RenewRequest(**lease)
    return lambda: planner.stub.Renew(request, timeout=CALL_SECONDS)


def health_of(server):
    stub = health_pb2_grpc.HealthStub(server.channel)
    request = health_pb2.HealthCheckRequest()
    return lambda: stub.Check(request, timeout=CALL_SECONDS)


def worst(found):
    """The eight costliest requests for each byte, and the eight costliest."""
    requests = []
    for key in (Found.per_byte, lambda one: one.seconds):
        ordered = sorted(found, key=key, reverse=True)
        requests += [(one.kind, one.sizes) for one in ordered[:8]]
    return requests


def abuse_planner(args):
    with Planner() as planner:
        register_fleet(planner)
        found = search(planner, PLANNER_KINDS, args.search, args.seed)
        show_worst("planner", found)
        renew = renewals(planner)
        health = health_of(planner)
        for title, clients in (("alone", 0), ("beside the worst", args.clients)):
            with Clients(planner.address, clients, worst(found)) as sent:
                print(f"planner, {title}:")
                show_times("Renew", time_calls(renew, args.seconds))
                show_times("health", time_calls(health, args.seconds))
            print(f"  {sent.n_sent} requests of {clients} clients")


def streams(worker, args):
    """Tokens a second, and the longest gap, of streams read for a while."""
    readers = [Reader(worker, i, metadata=[("x-tenant", f"stream{i}")])
               for i in range(args.streams)]
    for reader in readers:
        reader.start()
    time.sleep(BURST_SECONDS)
    begin = time.monotonic()
    time.sleep(args.seconds)
    end = time.monotonic()
    for reader in readers:
        reader.call.cancel()
        reader.join()
    gaps = [gap for reader in readers for gap in reader.gaps(begin, end)]
    return len(gaps) / (end - begin), max(gaps, default=end - begin)


def abuse_worker(args):
    flags = [f"--model=m={args.model}", f"--slots={args.streams + 1}",
             "--n-ctx=8192", *args.worker_flags]
    with Worker(*flags) as worker:
        worker.await_ready()
        found = search(worker, WORKER_KINDS, args.search, args.seed)
        prompts = [one for one in found if one.is_prompt()]
        others = [one for one in found if not one.is_prompt()]
        show_worst("worker, prompts that were computed", prompts)
        show_worst("worker, others", others)
        rate, gap = streams(worker, args)
        print(f"worker, {args.streams} streams alone: {rate:.0f} tokens/s,"
              f" longest gap {gap * 1e3:.0f} ms")
        compare(worker, args, "the worst requests", worst(others))
        compare(worker, args, "the worst prompts", worst(prompts))


def streams_beside(worker, args, sent):
    """The streams' rate and longest gap, and what the clients sent meanwhile."""
    before = sent.n_sent
    rate, gap = streams(worker, args)
    return rate, gap, sent.n_sent - before


def compare(worker, args, title, requests):
    """Streams beside these requests, and beside as many cheap ones.

    A machine that others use too is faster in one minute than in the next, so
    the three are read in turn, and a round's rates are compared with each other.
    """
    cheap = {"of the cheapest requests": [(CHEAP, {"one": 1})],
             "requests for as many tokens": [same_tokens(*one) for one in requests]}
    bad_rates, ratios = [], {what: [] for what in cheap}
    gaps = {what: 0 for what in ["bad", *cheap]}
    health = []
    for _ in range(args.rounds):
        with Clients(worker.address, args.clients, requests) as sent:
            bad_rate, gap, n_sent = streams_beside(worker, args, sent)
            health += time_calls(health_of(worker), 2)
        bad_rates.append(bad_rate)
        gaps["bad"] = max(gaps["bad"], gap)
        pause = (args.clients * (args.seconds + BURST_SECONDS)
                 / max(n_sent, 1))
        for what, asks in cheap.items():
            with Clients(worker.address, args.clients, asks, pause) as sent:
                rate, gap, _ = streams_beside(worker, args, sent)
            ratios[what].append(bad_rate / rate)
            gaps[what] = max(gaps[what], gap)
    print(f"beside {title} of {args.clients} clients, medians of"
          f" {args.rounds}: {statistics.median(bad_rates):.0f} tokens/s,"
          f" longest gap {gaps['bad'] * 1e3:.0f} ms")
    show_times("health", health)
    for what, seen in ratios.items():
        print(f"  ratio to as many {what}: {statistics.median(seen):.2f}"
              f" ({min(seen):.2f} to {max(seen):.2f}),"
              f" longest gap {gaps[what] * 1e3:.0f} ms")


def main():
    parser = parser_of(__doc__, clients=8, streams=3, seed=1)
    parser.add_argument("--seconds", type=float, default=10, help="of a figure")
    parser.add_argument("--rounds", type=int, default=5,
                        help="in which the streams' rates are compared")
    parser.add_argument("--search", type=float, default=40,
                        help="seconds of each of the two searches")
    parser.add_argument("--worker-flags", type=str.split, default=[],
                        help="further flags of the worker")
    parser.add_argument("model")
    parser.add_argument("--only", choices=["planner", "worker"])
    args = parser.parse_args()
    print(f"{args.clients} clients, load {os.getloadavg()[0]:.1f}")
    if args.only != "worker":
        abuse_planner(args)
    if args.only != "planner":
        abuse_worker(args)


if __name__ == "__main__":
    main()
