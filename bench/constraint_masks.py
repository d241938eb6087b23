#!/usr/bin/env python3
"""What the masks of JSON schemas cost, a token: ours, llguidance's and xgrammar's
along the same tokens, each on one thread, schema by schema in turn.

usage: constraint_masks.py [--bench build/release/bin/constraint_masks_bench]
                           [--rounds N] [--schemas N] SCHEMAS.jsonl MODEL.gguf

A line of SCHEMAS has a "schema" and "tests", each with "data" and "valid", as
JSONSchemaBench has them. The texts are the valid data as JSON without white space.
A schema counts if all packages accept it, and a text if all accept its every
token. Times are of the processor: "start" is from the schema to a stream that
can begin, "first" is up to the first mask, and "token" is a mask and going on
after the token. Each time is the median of the rounds.

Needs the packages llguidance, xgrammar and numpy. xgrammar imports torch and
transformers, which masks do not use: it runs without them, too.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import unittest.mock

os.environ["RAYON_NUM_THREADS"] = "1"

now = time.process_time_ns


class Ours:
    def __init__(self, bench, model):
        self._process = subprocess.Popen([bench, model], text=True,
                                         stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE)
        vocabulary = json.loads(self._process.stdout.readline())
        self.tokens = [bytes.fromhex(one) for one in vocabulary["tokens"]]
        self.ends = vocabulary["ends"]

    def measure(self, schema, texts):
        request = json.dumps({"schema": schema, "texts": texts})
        self._process.stdin.write(request + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


class Peer:
    """Another package. compile() gives what stream() makes streams of."""

    def __init__(self, tokens, ends):
        import numpy
        self.end = ends[0]
        self.bits = numpy.zeros((1, (len(tokens) + 31) // 32), numpy.int32)

    def may_end(self):
        return bool(self.bits[0, self.end // 32] >> (self.end % 32) & 1)

    def measure(self, schema, texts_ids):
        text = json.dumps(schema)
        begin = now()
        try:
            compiled = self.compile(text)
        except Exception as error:  # whatever a package raises of a schema
            return {"error": str(error)}
        compile_ns = now() - begin
        return {"compile": compile_ns,
                "walks": [self.walk(compiled, ids) for ids in texts_ids]}

    def walk(self, compiled, ids):
        times, accepted = [], True
        begin = now()
        stream = self.stream(compiled)
        start = now() - begin
        for token in ids:
            begin = now()
            self.fill(stream)
            accepted = self.accept(stream, token)
            times.append(now() - begin)
            if not accepted:
                break
        if accepted:
            begin = now()
            self.fill(stream)
            times.append(now() - begin)
            accepted = self.may_end()
        return {"start": start, "times": times, "accepted": accepted}


class Llguidance(Peer):
    def __init__(self, tokens, ends):
        import llguidance
        super().__init__(tokens, ends)
        self.package = llguidance
        special = [i for i, text in enumerate(tokens) if not text]
        # It must have no empty tokens.
        wrapped = unittest.mock.Mock(
            spec=["eos_token_id", "bos_token_id", "tokens", "special_token_ids"],
            eos_token_id=self.end, bos_token_id=None, special_token_ids=special,
            tokens=[text or b"<special %d>" % i for i, text in enumerate(tokens)])
        self.tokenizer = llguidance.LLTokenizer(
            llguidance.TokenizerWrapper(wrapped), n_vocab=len(tokens),
            eos_token=ends,
            slices=llguidance.LLTokenizer.json_slices())

    def compile(self, text):
        matcher = self.package.LLMatcher
        # Where only one text may follow, all packages compute the whole mask.
        grammar = matcher.grammar_from_lark(
            f'%llguidance {{"no_forcing": true}}\nstart: %json {text}')
        made = matcher(self.tokenizer, grammar, log_level=0)
        if made.is_error():
            raise ValueError(made.get_error())
        return made

    def stream(self, compiled):
        return compiled.deep_copy()

    def fill(self, stream):
        stream.unsafe_compute_mask_ptr(self.bits.ctypes.data, self.bits.nbytes)

    def accept(self, stream, token):
        return stream.consume_token(token)


class Xgrammar(Peer):
    def __init__(self, tokens, ends):
        import tvm_ffi  # it must not find what stands for torch
        for name in ("torch", "transformers"):
            try:
                __import__(name)
            except ImportError:
                sys.modules[name] = unittest.mock.MagicMock()
        import xgrammar
        super().__init__(tokens, ends)
        self.package = xgrammar
        info = xgrammar.TokenizerInfo(tokens, xgrammar.VocabType.RAW,
                                      vocab_size=len(tokens),
                                      stop_token_ids=ends)
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1,
                                                 cache_enabled=False)

    def compile(self, text):
        return self.compiler.compile_json_schema(text, strict_mode=False)

    def stream(self, compiled):
        return self.package.GrammarMatcher(compiled)

    def fill(self, stream):
        stream.fill_next_token_bitmask(self.bits)

    def accept(self, stream, token):
        return stream.accept_token(token)


def texts_of(tests):
    return [json.dumps(one["data"], separators=(",", ":"), ensure_ascii=False)
            for one in tests if one["valid"]]


PEERS = {"llguidance": Llguidance, "xgrammar": Xgrammar}


def measure(ours, peers, schema, texts, rounds):
    """What each package says in each round; one round if one refuses."""
    found = {name: [] for name in ("plimsoll", *peers)}
    for _ in range(rounds):
        mine = ours.measure(schema, texts)
        found["plimsoll"].append(mine)
        ids = [walk["ids"] for walk in mine.get("walks", [])]
        for name, peer in peers.items():
            found[name].append(peer.measure(schema, ids))
        if any("error" in one[-1] for one in found.values()):
            break
    return found


def middle(rounds, pick):
    return statistics.median(pick(one) for one in rounds)


class Figures:
    """The times of the schemas that all packages accept, in milliseconds."""

    def __init__(self, packages):
        self.accepted = dict.fromkeys(packages, 0)
        self.schemas = self.common = self.texts = 0
        self.times = {name: {"start": [], "first": [], "token": []}
                      for name in packages}

    def add(self, found):
        self.schemas += 1
        for name, rounds in found.items():
            self.accepted[name] += "error" not in rounds[0]
        if any("error" in rounds[0] for rounds in found.values()):
            return
        good = [i for i in range(len(found["plimsoll"][0]["walks"]))
                if all(rounds[0]["walks"][i]["accepted"]
                       for rounds in found.values())]
        self.common += bool(good)
        self.texts += len(good)
        for name, rounds in found.items():
            for text in good:
                self._add_text(self.times[name], rounds, text)

    @staticmethod
    def _add_text(times, rounds, text):
        walks = [one["walks"][text] for one in rounds]
        start = middle(rounds, lambda one: one["compile"]
                       + one["walks"][text]["start"])
        tokens = [statistics.median(walk["times"][i] for walk in walks) / 1e6
                  for i in range(len(walks[0]["times"]))]
        times["start"].append(start / 1e6)
        times["first"].append(start / 1e6 + tokens[0])
        times["token"] += tokens

    def show(self):
        print(f"{self.schemas} schemas: "
              + ", ".join(f"{n} accepted by {name}"
                          for name, n in self.accepted.items()))
        print(f"{self.common} schemas and {self.texts} texts that all accept, "
              f"{len(self.times['plimsoll']['token'])} masks")
        print("\n| ms of CPU | package | mean | p50 | p99 | max |")
        print("|---|---|---:|---:|---:|---:|")
        for what in ("start", "first", "token"):
            for name in self.times:
                times = sorted(self.times[name][what])
                if not times:
                    continue
                figures = (statistics.fmean(times), times[len(times) // 2],
                           times[len(times) * 99 // 100], times[-1])
                print(f"| {what} | {name} | "
                      + " | ".join(f"{one:.3f}" for one in figures) + " |")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench",
                        default="build/release/bin/constraint_masks_bench")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--schemas", type=int, help="only the first N")
    parser.add_argument("--slowest", type=int, default=0,
                        help="show the N schemas with our slowest masks")
    parser.add_argument("--peers", default=",".join(PEERS),
                        help="packages beside ours")
    parser.add_argument("file")
    parser.add_argument("model")
    args = parser.parse_args()
    ours = Ours(args.bench, args.model)
    peers = {name: PEERS[name](ours.tokens, ours.ends)
             for name in args.peers.split(",") if name}
    figures, slowest = Figures(["plimsoll", *peers]), []
    with open(args.file, encoding="utf-8") as lines:
        schemas = [json.loads(line) for line in lines][:args.schemas]
    try:
        for i, one in enumerate(schemas):
            if i % 10 == 0:
                print(f"{i} of {len(schemas)} schemas", file=sys.stderr)
            found = measure(ours, peers, one["schema"], texts_of(one["tests"]),
                            args.rounds)
            figures.add(found)
            slowest += [(max(walk["times"]) / 1e6, one["name"])
                        for walk in found["plimsoll"][0].get("walks", [])]
    except KeyboardInterrupt:  # the figures so far
        pass
    figures.show()
    for milliseconds, name in sorted(slowest, reverse=True)[:args.slowest]:
        print(f"{milliseconds:.3f} ms {name}")


if __name__ == "__main__":
    main()
