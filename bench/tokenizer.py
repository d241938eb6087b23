#!/usr/bin/env python3
"""How fast text is tokenised, in MB per second of one CPU: ours and tiktoken's with
the same vocabulary and texts, and ours on texts made to be slow, at three sizes,
which shows whether the time is linear in the text. Then it searches for slower ones.

usage: tokenizer.py [--bench build/release/bin/tokenizer_bench]
                    [--source FOLDER] [--rounds ROUNDS] MODEL.gguf

The model's tokenizer must be a byte-level BPE for the ratio (SmolLM2's is); of
another one only our rates are printed. Needs the package tiktoken for the
ratio. Running text is read from FOLDER: .py files as code, .md, .rst and .txt
files as prose.
"""
import argparse
import pathlib
import struct
import subprocess
import tempfile
import time

from tokenizer_texts import Search, running_text, worst_texts

MB = 10**6
SIZES = [2**18, 2**20, 2**22]  # bytes of texts made to be slow
ROUNDS = 3

# What SmolLM2's pre-tokenizer does, as one expression.
PATTERN = (r"'(?:[sdmt]|ll|ve|re)|\p{N}| ?\p{L}++| ?[^\s\p{L}\p{N}]++"
           r"|\s+(?![^\s\p{N}])|\s+")


def read_gguf(path):
    """The metadata of a GGUF file."""
    file = open(path, "rb")

    def number(form):
        return struct.unpack("<" + form, file.read(struct.calcsize(form)))[0]

    def text():
        return file.read(number("Q")).decode("utf-8", "surrogateescape")

    forms = "BbHhIif?"

    def value(kind):
        if kind < 8:
            return number(forms[kind])
        if kind == 8:
            return text()
        if kind == 9:
            kind = number("I")
            return [value(kind) for _ in range(number("Q"))]
        return number("Qqd"[kind - 10])

    assert file.read(4) == b"GGUF"
    file.read(12)
    return {text(): value(number("I")) for _ in range(number("Q"))}


def bytes_of_text():
    """GPT-2's printable code points, to bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    shifted = [b for b in range(256) if b not in plain]
    return {chr(b): b for b in plain} | {
        chr(256 + i): b for i, b in enumerate(shifted)}


def tiktoken_encoding(meta):
    """Tiktoken with the model's merges, and the id of each of its ranks."""
    import tiktoken
    to_byte = bytes_of_text()
    ids = {t: i for i, t in enumerate(meta["tokenizer.ggml.tokens"])}
    ranks, rank_ids = {}, []
    for char, byte in to_byte.items():
        ranks[bytes([byte])] = len(rank_ids)
        rank_ids.append(ids.get(char, -1))
    for merge in meta["tokenizer.ggml.merges"]:
        left, right = merge.split(" ")
        joined = bytes(to_byte[c] for c in left + right)
        if joined not in ranks:
            ranks[joined] = len(rank_ids)
            rank_ids.append(ids[left + right])
    return tiktoken.Encoding(name="model", pat_str=PATTERN,
                             mergeable_ranks=ranks, special_tokens={}), rank_ids


def our_rates(bench, model, folder, texts):
    paths = []
    for number, data in enumerate(texts):
        paths.append(folder / f"{number}.txt")
        paths[-1].write_bytes(data)
    out = subprocess.run([bench, model, *paths], check=True, text=True,
                         capture_output=True).stdout
    return [float(line.split()[-2]) for line in out.splitlines()]


def print_running(args, folder, encoding):
    texts = {"prose": running_text(args.source, {".md", ".rst", ".txt"}),
             "code": running_text(args.source, {".py"})}
    for name, data in texts.items():
        ours = our_rates(args.bench, args.model, folder, [data])[0]
        line = f"  {name:22} {len(data) / MB:5.1f} MB  ours {ours:7.1f} MB/s"
        if encoding is not None:
            theirs = []
            for _ in range(ROUNDS):
                start = time.process_time()
                found = encoding[0].encode_ordinary(data.decode())
                theirs.append(time.process_time() - start)
            rate = len(data) / min(theirs) / MB
            ids = subprocess.run(
                [args.bench, "--ids", args.model, folder / "0.txt"],
                check=True, text=True, capture_output=True).stdout
            # Bytes that the model's vocabulary lacks are dropped by its rules.
            known = [encoding[1][i] for i in found if encoding[1][i] >= 0]
            is_same = known == [int(i) for i in ids.split()]
            line += (f"  tiktoken {rate:6.1f}  ratio {ours / rate:5.2f}"
                     f"  ids {'equal' if is_same else 'DIFFER'}")
        print(line, flush=True)


def print_slow(args, folder):
    """Rates by size, slowest first, and how a byte's time grows with the size."""
    rates = {}
    for name, make in worst_texts(args.source).items():
        rates[name] = our_rates(args.bench, args.model, folder,
                                [make(size) for size in SIZES])
    for name, row in sorted(rates.items(), key=lambda one: min(one[1])):
        print(f"  {name:22}" + "".join(f"{rate:8.1f}" for rate in row)
              + f"  growth {row[0] / row[-1]:5.2f}", flush=True)


def bytes_of_tokens(meta):
    tokens = meta["tokenizer.ggml.tokens"]
    if meta["tokenizer.ggml.model"] != "gpt2":
        return [t.replace("\u2581", " ").encode("utf-8", "surrogateescape")
                for t in tokens]
    to_byte = bytes_of_text()
    return [bytes(to_byte[c] for c in t) for t in tokens
            if all(c in to_byte for c in t)]


def print_search(args, folder, meta):
    search = Search(bytes_of_tokens(meta))
    found = search.run(args.rounds, lambda texts: our_rates(
        args.bench, args.model, folder, texts))
    for _, candidate in found[:3]:
        row = our_rates(args.bench, args.model, folder,
                        [search.text(candidate, size) for size in SIZES])
        units, repeats = candidate
        how = "repeated" if repeats else "at random"
        print(f"  {len(units):5} units {how:10}"
              + "".join(f"{rate:8.1f}" for rate in row)
              + f"  growth {row[0] / row[-1]:5.2f}  {b'|'.join(units)[:60]}",
              flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("model")
    parser.add_argument("--bench", default="build/release/bin/tokenizer_bench")
    parser.add_argument("--source", default="/usr")
    parser.add_argument("--rounds", type=int, default=8, help="of the search")
    args = parser.parse_args()
    meta = read_gguf(args.model)
    encoding = None
    if meta["tokenizer.ggml.model"] == "gpt2":
        encoding = tiktoken_encoding(meta)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        print("running text:")
        print_running(args, folder, encoding)
        sizes = ", ".join(f"{size // 1024} KiB" for size in SIZES)
        print(f"texts made to be slow, MB/s at {sizes}:")
        print_slow(args, folder)
        print("the slowest that a search finds:")
        print_search(args, folder, meta)


if __name__ == "__main__":
    main()
