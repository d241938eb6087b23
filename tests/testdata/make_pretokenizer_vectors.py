#!/usr/bin/env python3
"""Makes the vectors of pre-tokenizers with the Python package `regex`.

Usage: make_pretokenizer_vectors.py >tests/testdata/pretokenizer_vectors.json

The file has texts and, by pre-tokenizer, the bytes of each piece that the
expressions of the models' own tokenizers cut a text into. Expressions are
applied in turn; each cuts every piece that it gets into matches and what is
between them.
"""

import json
import random
import sys
import unicodedata

import regex

# The case of endings is ASCII's, as in the engines that run GGUF files.
ENDINGS = r"'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
GPT2 = (
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|"
    r"\s+(?!\S)|\s+"
)
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
LEAD = r"[^\r\n\p{L}\p{N}]?"
ASCII_SIGNS = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"""
FROM_SAMARITAN = r"[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
BLOOM = r" ?[^(\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"
# Letters with case, as DeepSeek LLM's expression has them.
CASED = (
    r"["
    r"\u0041-\u005a\u0061-\u007a\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba"
    r"\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376\u0377"
    r"\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5"
    r"\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5"
    r"\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77"
    r"\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d"
    r"\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc"
    r"\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec"
    r"\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d"
    r"\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f"
    r"\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee"
    r"\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787"
    r"\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a"
    r"\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3"
    r"\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2"
    r"\U000118a0-\U000118df\U0001e900-\U0001e943"
    r"]"
)


def words(
    digits,
    letters=r"\p{L}",
    signs=r"\p{L}\p{N}",
    ends=r"[\r\n]*",
    first=f"{ENDINGS}|",
):
    """Llama 3's expression and what is like it."""
    return (
        f"{first}{LEAD}{letters}+|\\p{{N}}{digits}|"
        f" ?[^\\s{signs}]+{ends}|{SPACES}"
    )


def cases(digits, ends, endings=f"(?:{ENDINGS})?", upper=UPPER, lower=LOWER):
    """GPT-4o's expression and what is like it."""
    return (
        f"{LEAD}{upper}*{lower}+{endings}|{LEAD}{upper}+{lower}*{endings}|"
        f"\\p{{N}}{digits}| ?[^\\s\\p{{L}}\\p{{N}}]+{ends}|{SPACES}"
    )


RULES = {
    "gpt-2": [GPT2],
    "smollm": [r"\p{N}", GPT2],
    "falcon": [r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"],
    "llama-bpe": [words("{1,3}")],
    "qwen2": [words("")],
    "qwen35": [words("", r"[\p{L}\p{M}]", r"\p{L}\p{M}\p{N}")],
    "seed-coder": [words("", ends="")],
    "ufakzeka": [words("", first="")],
    "laguna": [r"[^\n]+|[\n]+", words("")],
    "minicpm5": [r"\p{N}{1,3}", words("+")],
    "gpt-4o": [cases("{1,3}", r"[\r\n/]*")],
    "tekken": [cases("", r"[\r\n/]*", endings="")],
    "kimi-k2": [
        r"\p{Han}+|"
        + cases(
            "{1,3}",
            r"[\r\n]*",
            upper=f"[{UPPER}--\\p{{Han}}]",
            lower=f"[{LOWER}--\\p{{Han}}]",
        )
    ],
    "deepseek-v3": [
        r"\p{N}{1,3}",
        r"[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
        ASCII_SIGNS
        + r"[A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"
        + r" ?[\p{P}\p{S}]+[\r\n]*|"
        + SPACES,
    ],
    "deepseek-coder": [
        r"[\r\n]",
        r"\s?\p{L}+",
        r"\s?\p{P}+",
        FROM_SAMARITAN,
        r"\p{N}",
    ],
    "deepseek-llm": [
        r"[\r\n]",
        rf"\s?{CASED}+",
        r"\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
        r"\s+$",
        FROM_SAMARITAN,
        r"\p{N}+",
    ],
    "bloom": [BLOOM],
    "viking": [BLOOM, r"\p{N}"],
}
COMPILED = {
    # Version 1 has differences of sets, which only one expression needs.
    name: [
        regex.compile(e, regex.V1 if "--" in e else regex.V0)
        for e in expressions
    ]
    for name, expressions in RULES.items()
}


def pieces(expressions, text):
    """Cuts `text` by the expressions in turn."""
    parts = [text]
    for expression in expressions:
        cut = []
        for part in parts:
            gap = 0
            for match in expression.finditer(part):
                cut += [part[gap : match.start()], match.group()]
                gap = match.end()
            cut.append(part[gap:])
        parts = [part for part in cut if part]
    return parts


def known_characters():
    """Characters by category, where Unicode 14 and newer tables agree."""
    found = {}
    for code in range(0x110000):
        character = chr(code)
        category = unicodedata.category(character)
        if category in ("Cs", "Co", "Cn"):
            continue
        if regex.fullmatch(rf"\p{{{category}}}", character):
            found.setdefault(category, []).append(character)
    return found


PARTS = [" "] * 6 + ["\n"] * 3
PARTS += (
    "\r|\r\n|\t|\xa0|\x85|\u2028|\u3000|\u2003|\u180e|\u200b|'|'s|'LL|'rE|"
    "'d|'\u017f|a|Z|s|ll|Word|HTTPServer|word|don't|1|9|42|12345|\u0663|"
    "\xbd|\u2167|\u3007|!|(|-|/|//|...|$|+|\xa3|\u20b9|\u4e2d|\u6587\u5b57|"
    "\u304b\u306a|\u30ab\u309b|\u3099|\u30fb|\u3002|\u3001|\ud55c\uad6d|"
    "\u3131|\xc9|\xe9|\u01c5|\u02b0|\xaa|\u0294|\u1e00|\u2102|\xdf|\u1c90|"
    "\u0627|\u0301|\u0e31|\u0e44\u0e17\u0e22|\u0928\u093f|\U0001f600|"
    "\U0001f469\u200d\U0001f4bb|\u200d|\x00|\x1c|\u2e80|\u3005|\U00010400|"
    "\U0001d7d9|\U00020000|\uff21|\uff01|\uff0c|\u0964|\u201c|\u201d|\xab|_|"
    "`|~|#"
).split("|")
# White space, signs and letters that the DeepSeeks tell apart.
DENSE = list(
    "\u3000\u3000\u3001\u3002 \t\u2003a\xe9\u1e00\uff21!\u201c\xa3\u20b91\u2167"
    "\u4e2d\n\r\u3131\u0301\u309b\u30ab\u30fb\u3099\u3040\u3098"
)


def random_text(rng, characters):
    """Text of the parts above, of any characters, and of runs of either."""
    categories = sorted(characters)
    parts = PARTS if rng.random() < 0.7 else DENSE
    text = []
    for _ in range(rng.randrange(1, 24)):
        if rng.random() < 0.2:
            part = rng.choice(characters[rng.choice(categories)])
        else:
            part = rng.choice(parts)
        text += [part] * (rng.randrange(1, 6) if rng.random() < 0.25 else 1)
    return "".join(text)


def main():
    """Writes the vectors."""
    rng = random.Random(20)
    characters = known_characters()
    texts = [random_text(rng, characters) for _ in range(48)]
    rules = {
        name: [
            [len(piece.encode()) for piece in pieces(expressions, text)]
            for text in texts
        ]
        for name, expressions in COMPILED.items()
    }
    lines = [
        f"{json.dumps(name)}:{json.dumps(cuts, separators=(',', ':'))}"
        for name, cuts in rules.items()
    ]
    sys.stdout.write(
        '{"texts":[\n' + ",\n".join(json.dumps(text) for text in texts)
    )
    sys.stdout.write('],\n"rules":{\n' + ",\n".join(lines) + "}}\n")


if __name__ == "__main__":
    main()
