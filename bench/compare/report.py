"""Tables and a chart of what compare.py measured; pure."""
import statistics
from xml.sax.saxutils import escape

PEER = "llama-cpp-python"

# Name: (words, unit, worth of a unit, digits, whether less is better).
FIGURES = {
    "prefill512": ("prefill of 512", "tokens/s", 1, 0, False),
    "prefill4096": ("prefill of 4,096", "tokens/s", 1, 0, False),
    "decode1": ("decode of 1", "tokens/s", 1, 0, False),
    "all-logits": ("decode of 1, every logit", "tokens/s", 1, 0, False),
    "decode4": ("decode of 4", "tokens/s", 1, 0, False),
    "decode16": ("decode of 16", "tokens/s", 1, 0, False),
    "first-token": ("start to first token", "s", 1, 2, True),
    "peak-rss": ("peak memory", "MiB", 2**20, 0, True),
}


def ratios(figure):
    """The median, least and greatest of the runs' ratios, run by run."""
    found = sorted(ours / theirs for ours, theirs in
                   zip(figure["plimsoll"], figure["peer"]))
    return statistics.median(found), found[0], found[-1]


def rows(result):
    """(model, words, ours, theirs, (median, least, greatest), less is better)
    of every figure; ours and theirs are medians in words."""
    for model, figures in result["models"].items():
        for name, (words, unit, worth, digits, less) in FIGURES.items():
            if name not in figures:
                continue
            both = [f"{statistics.median(figures[name][who]) / worth:,.{digits}f}"
                    f" {unit}" for who in ("plimsoll", "peer")]
            yield model, words, *both, ratios(figures[name]), less


def conditions(result):
    """When, where and what was measured, in a sentence."""
    versions = result["versions"]
    runs = max((len(figure["peer"]) for figures in result["models"].values()
                for figure in figures.values()), default=0)
    return (f"{result['date']}, {result['cpu']}, {result['threads']} threads, "
            f"Plimsoll {versions['plimsoll']} beside {PEER} "
            f"{versions['peer']}, medians of {runs} runs in turn")


def table(result):
    """For a terminal."""
    lines = [conditions(result)]
    last = None
    for model, words, ours, theirs, (middle, least, most), less in rows(result):
        if model != last:
            lines += ["", f"{model:<32}{'plimsoll':>18}{PEER:>18}   ratio"]
            last = model
        lines.append(f"  {words:<30}{ours:>18}{theirs:>18}{middle:>8.2f}"
                     f"  ({least:.2f}..{most:.2f})"
                     f"{'  less is better' if less else ''}")
    return "\n".join(lines)


def markdown(result):
    """For the README."""
    lines = [conditions(result) + ":", "",
             f"| model | figure | Plimsoll | {PEER} | ratio (least–most) |",
             "|---|---|---|---|---|"]
    last = None
    for model, words, ours, theirs, (middle, least, most), less in rows(result):
        shown = "" if model == last else model
        last = model
        lines.append(f"| {shown} | {words}{' (less is better)' if less else ''}"
                     f" | {ours} | {theirs}"
                     f" | **{middle:.2f}** ({least:.2f}–{most:.2f}) |")
    return "\n".join(lines)


def replace_between(text, begin, end, new):
    """`text` with the lines between the lines `begin` and `end` replaced."""
    before, found, rest = text.partition(f"{begin}\n")
    _, found_end, after = rest.partition(f"{end}\n")
    if not found or not found_end:
        raise ValueError(f"there are no lines {begin} and {end}")
    return f"{before}{begin}\n{new}\n{end}\n{after}"


# The chart's geometry, in pixels.
WIDTH, LEFT, RIGHT = 760, 170, 150
ROW, BAR, TOP, GAP = 22, 14, 102, 34

STYLE = """<style>
text{font:12px system-ui,sans-serif;fill:#1b1f24}
.h{font-size:16px;font-weight:600}.b{font-weight:600}.e{text-anchor:end}
.s{fill:#57606a}.bg{fill:#fff}.u{fill:#2a78b8}.l{fill:#7a4fb0}
.one{stroke:#c62828;stroke-width:1.5}.w{stroke:#1b1f24;stroke-width:1.5}
@media(prefers-color-scheme:dark){text{fill:#e8eaed}.s{fill:#9aa4af}
.bg{fill:#15181c}.u{fill:#3f8fd0}.l{fill:#a07ad6}
.one{stroke:#ff7b6b}.w{stroke:#e8eaed}}
</style>"""


def svg(result):
    """A bar for each ratio, whiskers for its spread, a line at 1."""
    entries = list(rows(result))
    room = WIDTH - LEFT - RIGHT
    # One disturbed run must not make all bars short: its whisker is cut.
    scale = room / (1.25 * max([1.0] + [row[4][0] for row in entries]))
    one = LEFT + scale
    parts, last, y = [], None, TOP - GAP

    def text(x, y, words, kind=""):
        parts.append(f'<text x="{x:.0f}" y="{y}" class="{kind}">'
                     f"{escape(words)}</text>")

    for model, words, ours, theirs, (middle, least, greatest), less in entries:
        if model != last:
            y += GAP
            text(16, y, model, "b")
            y += 10
            last = model
        text(LEFT - 10, y + 12, words, "e")
        parts.append(f'<rect x="{LEFT}" y="{y + 1}" height="{BAR}" '
                     f'width="{middle * scale:.1f}" '
                     f'class="{"l" if less else "u"}">'
                     f"<title>{escape(f'{ours} beside {theirs}')}</title></rect>")
        end = LEFT + min(greatest * scale, room)
        parts.append(f'<path class="w" d="M{LEFT + least * scale:.1f} '
                     f'{y + 1 + BAR / 2}H{end:.1f}"/>')
        parts.append(f'<path class="one" d="M{one:.1f} {y - 3}v{ROW}"/>')
        text(WIDTH - 16, y + 12,
             f"{middle:.2f}  ({least:.2f}–{greatest:.2f})", "e")
        y += ROW
    text(one - 3, y + 14, "1")
    height = y + 28
    when, _, what = conditions(result).partition(", Plimsoll")
    head = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" '
            f'height="{height}" viewBox="0 0 {WIDTH} {height}" role="img" '
            f'aria-label="Plimsoll beside {PEER}: ratios">', STYLE,
            f'<rect class="bg" width="{WIDTH}" height="{height}"/>',
            '<text x="16" y="24" class="h">Plimsoll ÷ ' + f"{PEER}</text>",
            f'<text x="16" y="42" class="s">{escape(when)}</text>',
            f'<text x="16" y="60" class="s">{escape("Plimsoll" + what)}</text>',
            '<rect x="16" y="70" width="10" height="10" class="u"/>'
            '<text x="32" y="79">speed: more is better</text>'
            '<rect x="190" y="70" width="10" height="10" class="l"/>'
            '<text x="206" y="79">time and memory: less is better</text>']
    return "\n".join(head + parts + ["</svg>", ""])
