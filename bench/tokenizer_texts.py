"""Texts for bench/tokenizer.py: running text from files, texts made to be slow, and
a search for slower ones."""
import pathlib
import random

SIZE = 4 * 2**20  # bytes of running text


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


class Search:
    """Looks for the slowest text: units drawn at random, or one after the other
    again and again. The slowest are kept and changed."""
    BYTES = 2**18  # bytes of a text
    KEPT = 10
    FIRST = 40  # texts of the first round
    NEW, CHANGED = 6, 24  # changes in each later one

    def __init__(self, tokens, seed=1):
        self.tokens = [t for t in tokens if t]
        self.rng = random.Random(seed)

    def units(self):
        rng, tokens = self.rng, self.tokens
        kind = rng.randrange(6)
        if kind == 0:
            return [bytes([c]) for c in rng.sample(range(97, 123), rng.randint(1, 26))]
        if kind == 1:
            return rng.sample(tokens, min(len(tokens), rng.randint(1, 2000)))
        if kind == 2:
            some = rng.sample(tokens, min(len(tokens), 4000))
            return [t for t in some if t.isalpha()] or some
        if kind == 3:
            first = rng.choice(tokens)[:1]
            alike = [t for t in tokens if t[:1] == first]
            return rng.sample(alike, min(len(alike), rng.randint(1, 50)))
        if kind == 4:
            some = rng.sample(range(0x20, 0x3000), rng.randint(1, 200))
            return [chr(c).encode() for c in some]
        return [bytes([c]) for c in rng.choice(tokens)]

    def change(self, units):
        rng, units = self.rng, list(units)
        for _ in range(rng.randint(1, 4)):
            kind, at = rng.randrange(5), rng.randrange(len(units))
            if kind == 0 and len(units) > 1:
                units.pop(at)
            elif kind == 1:
                units.append(rng.choice(self.tokens))
            elif kind == 2:
                units.append(rng.randbytes(1))
            elif kind == 3:
                units.append(units[at] + rng.choice(units))
            elif len(units[at]) > 1:
                units[at] = units[at][1:] if rng.random() < 0.5 else units[at][:-1]
        return units

    def new(self):
        return self.units(), self.rng.random() < 0.3

    @staticmethod
    def text(candidate, size):
        units, repeats = candidate
        rng, out, n = random.Random(1), [], 0
        while n < size:
            out.append(b"".join(units) if repeats else rng.choice(units))
            n += len(out[-1])
        return b"".join(out)[:size]

    def run(self, rounds, rates):
        """The slowest candidates with their rates; `rates` gives those of texts."""
        found = []
        fresh = [self.new() for _ in range(self.FIRST)]
        for _ in range(rounds + 1):
            found += zip(rates([self.text(c, self.BYTES) for c in fresh]), fresh)
            found = sorted(found, key=lambda one: one[0])[:self.KEPT]
            fresh = [(self.change(units), repeats)
                     for units, repeats in self.rng.choices(
                         [c for _, c in found], k=self.CHANGED)]
            fresh += [self.new() for _ in range(self.NEW)]
        return found
