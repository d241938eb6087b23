"""Reads a GGUF file's header and writes it again as a ModelHeader wants it."""

import struct

FIXED = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY, U64 = 8, 9, 10
MAX_ELEMENTS = 1024  # elements of an array that travels
ALIGNMENT = 32  # tensor data's, where a file names no other


class _Reader:
    """Walks through the bytes of a header."""

    def __init__(self, data):
        self.data = data
        self.at = 0

    def take(self, size):
        """The next `size` bytes."""
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, format):
        """The next number of a struct format."""
        return struct.unpack("<" + format, self.take(struct.calcsize(format)))[0]

    def string(self):
        """The next string, as bytes."""
        return self.take(self.number("Q"))

    def array(self):
        """The next array: its elements' type, their count and string lengths."""
        kind, count = self.number("I"), self.number("Q")
        if kind == STRING:
            return kind, count, sum(len(self.string()) for _ in range(count))
        self.take(FIXED[kind] * count)
        return kind, count, 0


def _put_string(text):
    return struct.pack("<Q", len(text)) + text


def travelling_header(path):
    """The bytes of ModelHeader.gguf of a file, its vocabulary only counted."""
    with open(path, "rb") as file:
        reader = _Reader(file.read(32 << 20))
    assert reader.take(4) == b"GGUF"
    version, n_tensors = reader.number("I"), reader.number("Q")
    vocab, body, n_kept = {}, b"", 0
    for _ in range(reader.number("Q")):
        start = reader.at
        key, kind = reader.string(), reader.number("I")
        count = 0
        if kind == ARRAY:
            _, count, size = reader.array()
            vocab[key] = (count, size)
        elif kind == STRING:
            vocab[key] = reader.string()
        else:
            reader.take(FIXED[kind])
        if count <= MAX_ELEMENTS and not key.startswith(b"tokenizer."):
            body += reader.data[start : reader.at]
            n_kept += 1
    tokens = vocab[b"tokenizer.ggml.tokens"]
    merges = vocab.get(b"tokenizer.ggml.merges", (0, 0))
    model = vocab[b"tokenizer.ggml.model"]
    body += _put_string(b"plimsoll.vocab.model") + struct.pack("<I", STRING)
    body += _put_string(model)
    counts = {"n_tokens": tokens[0], "token_bytes": tokens[1]}
    counts |= {"n_merges": merges[0], "merge_bytes": merges[1]}
    for name, value in counts.items():
        body += _put_string(b"plimsoll.vocab." + name.encode())
        body += struct.pack("<IQ", U64, value)
    start = reader.at
    for _ in range(n_tensors):
        reader.string()
        n_dims = reader.number("I")
        reader.take(8 * n_dims + 4 + 8)
    n_metadata = n_kept + 1 + len(counts)
    prefix = b"GGUF" + struct.pack("<IQQ", version, n_tensors, n_metadata)
    return prefix + body + reader.data[start : reader.at]


def with_changed_vocabulary(source, target, changes, chat_template):
    """Copies a file and gives it a chat template, in place of its own.

    `changes` are texts and types of tokens, by id.
    """
    with open(source, "rb") as file:
        data = file.read()
    reader = _Reader(data)
    assert reader.take(4) == b"GGUF"
    version, n_tensors = reader.number("I"), reader.number("Q")
    n_values = reader.number("Q")
    body, n_kept = b"", 0
    for _ in range(n_values):
        start = reader.at
        key, kind = reader.string(), reader.number("I")
        if kind == ARRAY:
            reader.array()
        elif kind == STRING:
            reader.string()
        else:
            reader.take(FIXED[kind])
        if key != b"tokenizer.chat_template":
            body += _changed(key, data[start : reader.at], changes)
            n_kept += 1
    body += _put_string(b"tokenizer.chat_template") + struct.pack("<I", STRING)
    body += _put_string(chat_template.encode())
    start = reader.at
    for _ in range(n_tensors):
        reader.string()
        n_dims = reader.number("I")
        reader.take(8 * n_dims + 4 + 8)
    tensors = data[start : reader.at]
    head = b"GGUF" + struct.pack("<IQQ", version, n_tensors, n_kept + 1)
    head += body + tensors
    with open(target, "wb") as file:
        file.write(head + bytes(-len(head) % ALIGNMENT))
        file.write(memoryview(data)[reader.at + -reader.at % ALIGNMENT :])


def _changed(key, value, changes):
    """The bytes of a key and its value, where they are of the vocabulary."""
    if key == b"tokenizer.ggml.tokens":
        reader = _Reader(value)
        reader.string()
        reader.take(4 + 4)
        count = reader.number("Q")
        parts = [value[: reader.at]]
        for token in range(count):
            text = reader.string()
            text = changes[token][0].encode() if token in changes else text
            parts.append(_put_string(text))
        return b"".join(parts)
    if key == b"tokenizer.ggml.token_type":
        types = bytearray(value)
        start = 8 + len(key) + 4 + 4 + 8
        for token, (_, kind) in changes.items():
            struct.pack_into("<i", types, start + 4 * token, kind)
        return bytes(types)
    return value
