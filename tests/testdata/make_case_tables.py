"""Writes worker/text/jinja/case_tables.cc from Python's own Unicode tables.

Usage: make_case_tables.py > worker/text/jinja/case_tables.cc, then clang-format.
"""

import unicodedata


def characters():
    return (chr(c) for c in range(0x80, 0x110000) if not 0xD800 <= c < 0xE000)


def split(change):
    """Returns (ranges of single code points, others) that `change` changes."""
    deltas, others = {}, {}
    for c in characters():
        new = change(c)
        if len(new) > 1:
            others[ord(c)] = new
        elif new != c:
            deltas[ord(c)] = ord(new) - ord(c)
    ranges = []
    codes = sorted(deltas)
    i = 0
    while i < len(codes):
        ends = {}
        for step in (1, 2):
            j = i
            while (j + 1 < len(codes) and codes[j + 1] == codes[j] + step
                   and deltas[codes[j + 1]] == deltas[codes[i]]):
                j += 1
            ends[step] = j
        step = 1 if ends[1] >= ends[2] else 2
        ranges.append((codes[i], codes[ends[step]], step, deltas[codes[i]]))
        i = ends[step] + 1
    return ranges, others


def escaped(text):
    return "".join(f"\\x{byte:02x}" for byte in text.encode())


def print_ranges(name, ranges):
    print(f"constexpr CaseRange {name}[] = {{")
    for first, last, step, delta in ranges:
        print(f"{{0x{first:X}, 0x{last:X}, {step}, {delta}}},")
    print("};")


def print_texts(name, texts):
    print(f"constexpr CaseText {name}[] = {{")
    for code, text in sorted(texts.items()):
        print(f'{{0x{code:X}, "{escaped(text)}"}},')
    print("};")


def main():
    lower, lower_texts = split(str.lower)
    upper, upper_texts = split(str.upper)
    title_texts = {ord(c): c.title() for c in characters()
                   if c.title() != c.upper()}
    print("// Made by tests/testdata/make_case_tables.py from Unicode "
          f"{unicodedata.unidata_version}.")
    print('#include "worker/text/jinja/case_tables.h"\n')
    print("namespace plimsoll::worker::jinja {\nnamespace {\n")
    print_ranges("kLowerRanges", lower)
    print_texts("kLowerTexts", lower_texts)
    print_ranges("kUpperRanges", upper)
    print_texts("kUpperTexts", upper_texts)
    print_texts("kTitleTexts", title_texts)
    print("\n}  // namespace\n")
    print("const CaseTable lower_case_table = {kLowerRanges, kLowerTexts};")
    print("const CaseTable upper_case_table = {kUpperRanges, kUpperTexts};")
    print("const CaseTable title_case_table = {{}, kTitleTexts};")
    print("\n}  // namespace plimsoll::worker::jinja")


if __name__ == "__main__":
    main()
