"""The command line of a bench: its own text as help, and options for counts."""

import argparse

# What a count means where several benches have it.
HELP = {"tokens": "of a reply"}


def parser_of(text, **counts):
    """A parser with the help `text` and an option for each count and its default.

    `n_ctx=512` makes the option --n-ctx.
    """
    parser = argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in counts.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int,
                            default=default, help=HELP.get(name))
    return parser
