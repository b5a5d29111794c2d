"""Rows of result files: what an id means, and how numbers and tables look."""
import re

# Of single calls; old files have no p99.9.
PERCENTILES = {"p50_us": "p50", "p99_us": "p99", "p99_9_us": "p99.9", "p99_99_us": "p99.99", "max_us": "longest"}

def milliseconds(ms):
    return f"{ms:.4f}" if ms < 1 else f"{ms:.3g}" if ms < 100 else f"{ms:.0f}"


def short(value):
    for unit, scale in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value:g}"


def module(row):
    return row["id"].split("/")[0]


def package(peer):
    return peer.split()[0]


def others(row):
    """The peers without the library's own alternatives."""
    return {name: ms for name, ms in row["peers"].items() if not name.startswith("without")}


def whole(row):
    """The other implementations that do all of the row's work."""
    return {name: ms for name, ms in others(row).items() if not name.endswith(" alone")}


def is_sweep(row):
    return row["id"].startswith("sweep/")


def is_latency(row):
    return row["id"].endswith("/latency")


def percentiles(row):
    return ", ".join(f"{name} {row['calls'][key]:.0f}" for key, name in PERCENTILES.items() if key in row["calls"]) + " us"


def sweeps(rows):
    """{module: {quantity: {series: [(x, row)]}}} of ids sweep/MODULE/SERIES.../QUANTITY=NUMBER."""
    found = {}
    for row in filter(is_sweep, rows):
        match = re.fullmatch(r"sweep/([^/]+)/(.*/)?([^/=]+)=([0-9.eE+]+)", row["id"])
        if match:
            name, series, quantity, x = match.groups()
            lines = found.setdefault(name, {}).setdefault(quantity, {})
            lines.setdefault((series or name).rstrip("/"), []).append((float(x), row))
    for quantities in found.values():
        for lines in quantities.values():
            for points in lines.values():
                points.sort(key=lambda point: point[0])
    return found


def table(head, lines):
    right = ["---"] + ["---:"] * (len(head) - 1)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, right, *lines]) + "\n"
