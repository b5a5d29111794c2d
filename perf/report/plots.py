"""The plots of the documents, as SVG without any library."""
import html
import math

from rows import milliseconds, module, others, package, percentiles, short

STYLE = """
text { font: 12px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #24292f }
.title { font-size: 15px; font-weight: 600 } .quiet { fill: #6e7781 } .end { text-anchor: end } .middle { text-anchor: middle }
.back { fill: #ffffff } .track { fill: #eef1f4 } .grid { stroke: #d8dee4; stroke-width: 1 } .one { stroke: #57606a; stroke-width: 1.5 }
.stem { stroke: #c4ccd4; stroke-width: 2 } .floor { stroke: #57606a; stroke-width: 1.5; stroke-dasharray: 5 4; fill: none }
.line { stroke-width: 2; fill: none }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .quiet { fill: #9198a1 } .back { fill: #0d1117 } .track { fill: #21262d } .grid { stroke: #30363d }
.one, .floor { stroke: #9198a1 } .stem { stroke: #484f58 } }
"""
LIGHT = ("#1f6feb", "#d4572a", "#2da44e", "#8250df", "#bf8700", "#0f8b8d", "#cf3f80", "#57606a")
DARK = ("#58a6ff", "#f0883e", "#56d364", "#bc8cff", "#e3b341", "#39c5cf", "#ff7eb6", "#9198a1")
SERIES = len(LIGHT)


def series_style(colors):
    return "".join(f".f{k} {{ fill: {c} }} .l{k} {{ stroke: {c} }}\n" for k, c in enumerate(colors))


class Svg:
    def __init__(self, width, height, title):
        self.width, self.height = width, height
        self.parts = [f'<rect class="back" width="{width}" height="{height}" rx="6"/>']
        self.title = title
        self.text(16, 26, title, "title")

    def add(self, part):
        self.parts.append(part)

    def text(self, x, y, text, style=""):
        self.add(f'<text x="{x:.1f}" y="{y:.1f}" class="{style}">{html.escape(text)}</text>')

    def line(self, x1, y1, x2, y2, style):
        self.add(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{style}"/>')

    def rect(self, x, y, width, height, style, radius=2):
        self.add(f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{height:.1f}" rx="{radius}" class="{style}"/>')

    def dot(self, x, y, style, hint=""):
        self.add(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" class="{style}"><title>{html.escape(hint)}</title></circle>')

    def curve(self, points, style):
        self.add(f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}" class="{style}"/>')

    def legend(self, x, y, names):
        for k, name in enumerate(names):
            self.add(f'<circle cx="{x + 5:.1f}" cy="{y - 4:.1f}" r="4.5" class="f{k % SERIES}"/>')
            self.text(x + 14, y, name, "quiet")
            x += 28 + 6.2 * len(name)

    def __str__(self):
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{self.height}" '
                f'viewBox="0 0 {self.width} {self.height}" role="img" aria-label="{html.escape(self.title, quote=True)}">\n'
                f"<style>{STYLE}{series_style(LIGHT)}@media (prefers-color-scheme: dark) {{\n{series_style(DARK)}}}\n</style>\n" + "\n".join(self.parts) + "\n</svg>\n")


def decades(low, high):
    """Powers of ten that enclose the values."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return first, max(last, first + 1)


def round_numbers(low, high):
    """1, 2, 5, 10 and so on that enclose the values; whole decades where these would be many."""
    first, last = decades(low, high)
    steps = (1, 2, 5) if last - first < 4 else (1,)
    numbers = [float(f"{step}e{power}") for power in range(first, last + 1) for step in steps]
    return [n for n, after in zip(numbers, numbers[1:] + [math.inf]) if after > low][:1 + sum(low < n < high for n in numbers) + 1]


def floor_plot(rows, title):
    """One bar a row: how much of its time the bytes that must move take at copy bandwidth."""
    left, bar, step, top = 330, 420, 22, 62
    svg = Svg(left + bar + 130, top + step * len(rows) + 22, title)
    svg.text(16, 46, "the floor (the bytes that must move, at copy bandwidth) as a share of the time measured", "quiet")
    for percent in (0, 25, 50, 75, 100):
        x = left + bar * percent / 100
        svg.line(x, top - 6, x, top + step * len(rows), "grid")
        svg.text(x, top + step * len(rows) + 15, f"{percent} %", "quiet middle")
    modules = sorted({module(row) for row in rows})
    for k, row in enumerate(rows):
        y = top + k * step
        share = row["fraction_of_copy"]
        svg.text(left - 10, y + 14, row["id"], "end")
        svg.rect(left, y + 3, bar, step - 7, "track")
        svg.rect(left, y + 3, bar * min(share, 1), step - 7, f"f{modules.index(module(row)) % SERIES}")
        svg.text(left + bar + 10, y + 14, f"{milliseconds(row['median_ms'])} ms  {100 * share:.0f} %")
    return svg


def peers_plot(rows, title):
    """One line a row, one dot a peer: how many times longer the peer takes, on a logarithmic axis."""
    left, width, step, top = 330, 480, 24, 82
    # One color a package: "torch" for "torch bincount".
    names = list(dict.fromkeys(package(name) for row in rows for name in others(row)))
    ratios = [ms / row["median_ms"] for row in rows for ms in others(row).values()]
    ticks = round_numbers(min(ratios + [0.8]), max(ratios + [1.25]))
    first, last = math.log10(ticks[0]), math.log10(ticks[-1])
    place = lambda ratio: left + width * (math.log10(ratio) - first) / (last - first)  # noqa: E731
    svg = Svg(left + width + 60, top + step * len(rows) + 26, title)
    svg.text(16, 46, "times as long as this library takes, measured in the same run; right of 1x: this library is faster", "quiet")
    svg.legend(16, 66, names)
    for tick in ticks:
        x = place(tick)
        svg.line(x, top - 4, x, top + step * len(rows), "one" if tick == 1 else "grid")
        svg.text(x, top + step * len(rows) + 16, f"{tick:g}x", "quiet middle")
    for k, row in enumerate(rows):
        y = top + (k + 0.5) * step
        svg.text(left - 10, y + 4, row["id"], "end")
        points = [(name, ms / row["median_ms"]) for name, ms in others(row).items()]
        reach = [ratio for _, ratio in points] + [1]
        svg.line(place(min(reach)), y, place(max(reach)), y, "stem")
        for name, ratio in points:
            svg.dot(place(ratio), y, f"f{names.index(package(name)) % SERIES}", f"{name}: {ratio:.3g}x")
    return svg


def sweep_plot(name, series, copy_gbps, title):
    """Time over size, both logarithmic; dashed: what the bytes alone take at copy bandwidth."""
    left, top, width, height = 70, 82, 620, 340
    xs = [x for points in series.values() for x, _ in points]
    ys = [row["median_ms"] for points in series.values() for _, row in points]
    floors = [row["bytes"] / copy_gbps * 1e-6 for points in series.values() for _, row in points if row["bytes"] and copy_gbps]
    x0, x1 = math.log10(min(xs)), math.log10(max(xs))
    x1 = x1 if x1 > x0 else x0 + 1
    y0, y1 = decades(min(ys + floors), max(ys + floors))
    place = lambda x, y: (left + width * (math.log10(x) - x0) / (x1 - x0),  # noqa: E731
                          top + height * (y1 - math.log10(y)) / (y1 - y0))
    svg = Svg(left + width + 40, top + height + 50, title)
    svg.text(16, 46, f"milliseconds over {name}; dashed: the bytes that must move, at copy bandwidth", "quiet")
    svg.legend(16, 66, list(series))
    for power in range(y0, y1 + 1):
        y = place(min(xs), 10 ** power)[1]
        svg.line(left, y, left + width, y, "grid")
        svg.text(left - 8, y + 4, f"{10 ** power:g}", "quiet end")
    for x in sorted(set(xs)):
        px = place(x, 1)[0]
        svg.line(px, top, px, top + height, "grid")
        svg.text(px, top + height + 18, short(x), "quiet middle")
    for k, points in enumerate(series.values()):
        floor = [place(x, row["bytes"] / copy_gbps * 1e-6) for x, row in points if row["bytes"] and copy_gbps]
        if floor:
            svg.curve(floor, "floor")
        svg.curve([place(x, row["median_ms"]) for x, row in points], f"line l{k % SERIES}")
        for x, row in points:
            svg.dot(*place(x, row["median_ms"]), f"f{k % SERIES}", f"{row['id']}: {milliseconds(row['median_ms'])} ms")
    return svg


def calls_plot(rows, title):
    """How often a call took how long: calls, logarithmic, over microseconds; one row of bars for each row. What took longer than
    the scale is its last bar."""
    left, top, width, height, bars = 70, 82, 620, 150, 124
    counts = [{int(us): n for us, n in row["calls"]["histogram_us"].items()} for row in rows]
    low = min(min(of) for of in counts) // 10 * 10
    high = max(row["calls"].get("p99_9_us", row["calls"]["p99_99_us"]) for row in rows)
    bin_us = max(1, math.ceil((1.3 * high - low) / bars))
    svg = Svg(left + width + 40, top + (height + 56) * len(rows), title)
    svg.text(16, 46, f"calls, logarithmic, over microseconds in steps of {bin_us}; the last bar: all that took longer", "quiet")
    for k, (row, of) in enumerate(zip(rows, counts)):
        y0 = top + (height + 56) * k
        binned = [0] * bars
        for us, n in of.items():
            binned[min(bars - 1, (us - low) // bin_us)] += n
        tall = math.ceil(math.log10(max(binned)))
        svg.text(left, y0 - 8, f"{row['id']}: {percentiles(row)}")
        for power in range(tall + 1):
            y = y0 + height * (1 - power / tall)
            svg.line(left, y, left + width, y, "grid")
            svg.text(left - 8, y + 4, short(10**power), "quiet end")
        for i, n in enumerate(binned):
            if n:
                part = height * (math.log10(n) + 0.05) / tall
                svg.rect(left + i * width / bars, y0 + height - part, width / bars - 1, part, f"f{k % SERIES}", 0)
        for i in range(0, bars + 1, 31):
            svg.text(left + i * width / bars, y0 + height + 18, f"{low + i * bin_us}", "quiet middle")
    return svg
