"""Tables and a chart of what simulations found; pure."""
import pathlib
import sys
from xml.sax.saxutils import escape

sys.path.append(str(pathlib.Path(__file__).parents[1] / "compare"))

from report import STYLE  # noqa: E402


def seconds(value):
    return "–" if value is None else f"{value:.2f} s"


def share(value):
    return f"{value * 100:.0f} %"


def counted(n, noun):
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


SERVING = (
    ("nodes", lambda f: f"{f['nodes']:,}"),
    ("workers", lambda f: f"{f['workers']:,}"),
    ("routing", lambda f: f["policy"]),
    ("requests/s", lambda f: f"{f['requests_per_s']:,.1f}"),
    ("tokens/s", lambda f: f"{f['tokens_per_s']:,.0f}"),
    ("goodput", lambda f: f"{f['goodput_tokens_per_s']:,.0f}"),
    ("TTFT p50", lambda f: seconds(f["ttft_p50_s"])),
    ("TTFT p99", lambda f: seconds(f["ttft_p99_s"])),
    ("prompt tokens from a cache", lambda f: share(f["cache_hit_share"])),
    ("streams lost", lambda f: f"{f['lost_streams']:,}"),
    ("sent again", lambda f: f"{f['retried']:,}"),
    ("refused", lambda f: f"{f['refused'] + f['unavailable']:,}"),
)
PLANNERS = (
    ("nodes", lambda f: f"{f['nodes']:,}"),
    ("leases", lambda f: f"{f['workers']:,}"),
    ("planners", lambda f: f"{f['planners']:,}"),
    ("all loaded after", lambda f: seconds(f["loaded_s"])),
    ("grants", lambda f: f"{f['grants']:,}"),
    ("most grants in a second", lambda f: f"{f['peak_grants_per_s']:,}"),
    ("renewals/s", lambda f: f"{f['renewals_per_s']:,.0f}"),
    ("of a core", lambda f: f"{f['renewal_cores'] * 100:.1f} %"),
    ("takeover, the longest",
     lambda f: seconds(max(f["takeovers_s"], default=None))),
    ("workers without a lease at the end",
     lambda f: f"{f['without_lease']:,}"),
    ("looks at a device", lambda f: f"{f['checks']:,}"),
    ("violations", lambda f: f"{sum(f['violations'].values()):,}"),
)


def rows(found, columns):
    return [[words for words, _ in columns],
            *([value(one) for _, value in columns] for one in found)]


def text(found, columns):
    """For a terminal."""
    cells = rows(found, columns)
    widths = [max(map(len, column)) for column in zip(*cells)]
    return "\n".join("  ".join(cell.rjust(width) for cell, width
                               in zip(row, widths)) for row in cells)


def markdown(found, columns):
    """For docs/measured/fleet.md."""
    head, *body = rows(found, columns)
    line = ["---:" if words not in ("routing",) else "---" for words in head]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, line, *body])


def one_of_each_size(found):
    """The last run of each number of nodes: planners know no routing."""
    return list({one["nodes"]: one for one in found}.values())


def conditions(record, one):
    """What was simulated, and over whose times, in a sentence."""
    return (f"simulated over times that were recorded on {record['date']} on "
            f"one core of {record['cpu']}; load {one['load']:g}, "
            f"seed {one['seed']}")


# The chart's geometry, in pixels.
WIDTH, LEFT, RIGHT, ROW, BAR, TOP, GAP = 760, 150, 250, 22, 14, 88, 34


def svg(record, found):
    """A bar for each run: the share of its tokens that were in time."""
    room = WIDTH - LEFT - RIGHT
    parts, last, y = [], None, TOP - GAP

    def put(x, y, words, kind=""):
        parts.append(f'<text x="{x:.0f}" y="{y}" class="{kind}">'
                     f"{escape(words)}</text>")

    for one in found:
        if one["nodes"] != last:
            last = one["nodes"]
            y += GAP
            put(16, y, f"{counted(last, 'node')}, "
                f"{counted(one['workers'], 'worker')}", "b")
            y += 10
        good = one["goodput_tokens_per_s"] / max(1e-9, one["tokens_per_s"])
        put(LEFT - 10, y + 12, one["policy"], "e")
        parts.append(f'<rect x="{LEFT}" y="{y + 1}" height="{BAR}" '
                     f'width="{good * room:.1f}" class="u"><title>'
                     f"{escape(share(good))}</title></rect>")
        put(WIDTH - 16, y + 12, f"{share(good)}   p99 "
            f"{seconds(one['ttft_p99_s'])}   cache "
            f"{share(one['cache_hit_share'])}", "e")
        y += ROW
    height = y + 20
    head = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" '
            f'height="{height}" viewBox="0 0 {WIDTH} {height}" role="img" '
            'aria-label="A simulated fleet: replies in time by routing">',
            STYLE, f'<rect class="bg" width="{WIDTH}" height="{height}"/>',
            '<text x="16" y="24" class="h">Tokens whose reply began in time, '
            "by routing</text>",
            f'<text x="16" y="42" class="s">{escape(conditions(record, found[0]))}'
            "</text>",
            '<text x="16" y="60" class="s">right: that share, the TTFT of 99 of '
            "100 requests, prompt tokens that a cache had</text>"]
    return "\n".join(head + parts + ["</svg>", ""])
