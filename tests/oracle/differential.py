"""Renders generated templates here and with jinja2, and compares.

Usage: differential.py BINARY [COUNT] [SEED]. Prints every difference, and exits
1 if there is one.
"""

import random
import re
import sys
import warnings

import engine
import generator
import reference

MAX_SECONDS = 0.1  # processor time for one template
# Python's places in memory, to which nothing can be equal.
ADDRESS = re.compile(r"at.{1,3}0x[0-9a-f]+", re.IGNORECASE)


def is_comparable(text, error, reply):
    """False where the two may differ, as docs/templates.md says."""
    if text is not None and ADDRESS.search(text):
        return False
    if error is not None and ("complex" in error or "RecursionError" in error):
        return False
    mine = reply.get("error", "")
    return "limit" not in mine and "not supported" not in mine


def difference(text, error, reply):
    """What is not equal, as a line; nothing if all is."""
    if (error is None) != ("text" in reply):
        return f"jinja2: {error or text!r}; here: {reply}"
    if error is None and text != reply["text"]:
        return f"jinja2: {text!r}; here: {reply['text']!r}"
    return None


def compare(binary, count, seed, show=20):
    """Returns (differences, compared, rendered, slowest in seconds
    of the processor)."""
    warnings.simplefilter("ignore")  # Python's, of templates' own mistakes
    source = generator.Generator(random.Random(seed))
    found, compared, rendered, slowest = [], 0, 0, 0.0
    with engine.Engine(binary) as here:
        for _ in range(count):
            template = source.template()
            reply = here.render(template, generator.VARIABLES)
            slowest = max(slowest, reply["seconds"])
            text, error = reference.render(template, generator.VARIABLES)
            if not is_comparable(text, error, reply):
                continue
            compared += 1
            rendered += error is None
            line = difference(text, error, reply)
            if line is None or reference.prints_address(
                    template, generator.VARIABLES):
                continue
            if len(found) < show:
                found.append((template, line))
    return found, compared, rendered, slowest


def main():
    binary = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    found, compared, rendered, slowest = compare(binary, count, seed)
    for template, line in found:
        print(f"{template!r}\n  {line}")
    print(f"{count} templates, {compared} compared, {rendered} rendered by "
          f"jinja2, {len(found)} differences shown, slowest {slowest:.3f} s")
    return 1 if found or slowest > MAX_SECONDS else 0


if __name__ == "__main__":
    sys.exit(main())
