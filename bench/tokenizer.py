#!/usr/bin/env python3
"""How fast text is tokenised, in MB per second of one CPU: ours and tiktoken's with
the same vocabulary and texts, and ours on texts made to be slow, at two sizes,
which shows whether the time is linear in the text.

usage: tokenizer.py [--bench build/release/bin/tokenizer_bench]
                    [--source FOLDER] MODEL.gguf

The model's tokenizer must be a byte-level BPE for the ratio (SmolLM2's is); of
another one only our rates are printed. Needs the package tiktoken for the
ratio. Running text is read from FOLDER: .py files as code, .md, .rst and .txt
files as prose.
"""
import argparse
import pathlib
import random
import struct
import subprocess
import tempfile
import time

MB = 10**6
SIZE = 4 * 2**20  # of a text
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


def running_text(source, suffixes):
    """Some megabytes of the files of a folder."""
    out, size = [], 0
    for path in sorted(pathlib.Path(source).rglob("*")):
        if path.suffix not in suffixes or not path.is_file():
            continue
        try:
            text = path.read_text("utf-8")[:200_000]
        except (UnicodeDecodeError, OSError):
            continue
        out.append(text)
        size += len(text)
        if size >= SIZE:
            break
    return "".join(out).encode()


def words(source):
    """Words of prose, without anything between them."""
    text = running_text(source, {".md", ".rst", ".txt"})
    return bytes(c for c in text if chr(c).isascii() and chr(c).isalpha())


def worst_texts(source):
    rng = random.Random(7)

    def times(unit):
        return lambda n: (unit * (n // len(unit) + 1))[:n]

    def of(units):
        def make(n):
            out, size = [], 0
            while size < n:
                out.append(rng.choice(units))
                size += len(out[-1])
            return b"".join(out)
        return make

    long_word = words(source)
    letters = [bytes([c]) for c in b"abcdefghijklmnopqrstuvwxyz"]
    scripts = [c.encode() for c in "aбγ中あ한ا1é😀 \u0301ก"]
    return {
        "a-run": times(b"a"), "spaces": times(b" "), "newlines": times(b"\n"),
        "tabs": times(b"\t"), "U+FFFD": times("\ufffd".encode()),
        "digits": of([bytes([c]) for c in b"0123456789"]),
        "letters": of(letters), "few letters": of(letters[:4]),
        "common letters": of([bytes([c]) for c in b"etaoinsr"]),
        "one long word": lambda n: (long_word * (n // len(long_word) + 1))[:n],
        "abab": times(b"ab"), "a b": times(b"a "),
        "mixed scripts": of(scripts), "ideographs": of(
            [chr(c).encode() for c in range(0x4E00, 0x9FA5)]),
        "signs": of([bytes([c]) for c in b"!\"#$%&()*+,-./:;<=>?@[]^_`{|}~"]),
        "equals": times(b"="), "random bytes": rng.randbytes,
        "0xFF": times(b"\xff"), "0xE2": times(b"\xe2"),
        "look-alikes": times(b"<|im_start|<unused1<start_of_turn"),
        "user-defined": times(b"<table>\n\n\n  x"),
        "line ends and spaces": of([b"\n", b" ", b"\n\n", b"  ", b"x"]),
        "apostrophes": times(b"'l"), "combining": times("\u0301".encode()),
    }


def our_rates(bench, model, folder, texts):
    paths = []
    for number, data in enumerate(texts):
        paths.append(folder / f"{number}.txt")
        paths[-1].write_bytes(data)
    out = subprocess.run([bench, model, *paths], check=True, text=True,
                         capture_output=True).stdout
    return [float(line.split()[-1]) for line in out.splitlines()]


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
            is_same = [encoding[1][i] for i in found] == [
                int(i) for i in ids.split()]
            line += (f"  tiktoken {rate:6.1f}  ratio {ours / rate:5.2f}"
                     f"  ids {'equal' if is_same else 'DIFFER'}")
        print(line, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("model")
    parser.add_argument("--bench", default="build/release/bin/tokenizer_bench")
    parser.add_argument("--source", default="/usr")
    args = parser.parse_args()
    meta = read_gguf(args.model)
    encoding = None
    if meta["tokenizer.ggml.model"] == "gpt2":
        encoding = tiktoken_encoding(meta)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        print("running text:")
        print_running(args, folder, encoding)
        print("texts made to be slow, MB/s at two sizes:")
        rates = {}
        for name, make in worst_texts(args.source).items():
            rates[name] = our_rates(args.bench, args.model, folder,
                                    [make(SIZE // 4), make(SIZE)])
        for name, (short, long) in sorted(rates.items(), key=lambda i: i[1][1]):
            print(f"  {name:22} {SIZE // 4 / MB:5.1f} MB {short:7.1f}"
                  f"  {SIZE / MB:5.1f} MB {long:7.1f}")


if __name__ == "__main__":
    main()
