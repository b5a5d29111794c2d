"""What the documents show of one result file: a summary for docs/performance.md, and all measurements for the site."""
import math
import re

import limits
import plots
import resultfile
from rows import PERCENTILES, is_latency, is_sweep, milliseconds, module, others, sweeps, table, whole

TARGET_HEAD = ["work", "measured", "target", "floor ms", "times the floor", "best other, same run, ms"]
CALLS_HEAD = ["single calls, us", "calls", *PERCENTILES.values(), "remarks"]
VERDICTS = {True: "met", False: "**missed**", None: "open"}


class Chapter:
    def __init__(self, stem, result, newest):
        self.stem, self.result, self.rows = stem, result, result["rows"]
        self.older = result["fingerprint"] != newest["fingerprint"]
        self.on_gpu = "gpu" in result
        self.device = result["gpu" if self.on_gpu else "cpu"]
        self.measured = {resultfile.key(row): row for row in self.rows}
        self.plain = [row for row in self.rows if not is_sweep(row) and not is_latency(row) and "fraction_of_bus" not in row]
        asked = resultfile.targets(self.device, result["copy_gbps"])
        self.wanted = [target for target in asked if target["backend"] == ("cuda" if self.on_gpu else "host")]
        self.plots = {}  # file name: plot, of the sections made so far

    def summary(self):
        sections = [self.machine(), self.targets(), self.against_others(), self.calls()]
        return self.text(sections if self.older or not self.on_gpu else sections + [self.sweeps()])

    def measurements(self):
        return self.text([self.note(), self.limits(), self.sweeps(), self.calls(), self.latency(), self.host_to_host(), self.all_rows()])

    def text(self, sections):
        return "\n".join([f"## {self.device}\n", *(line for section in sections for line in section)])

    def picture(self, name, about, plot):
        file = f"{self.stem}-{name}.svg"
        self.plots[file] = plot
        return f"![{about}](plots/{file})\n"

    # ---- Sections of the summary

    def machine(self):
        result, tests = self.result, self.result["tests"]
        facts = [f"driver {result['driver']}, CUDA {result['cuda']}"] if self.on_gpu else [f"{result.get('threads', '?')} threads"]
        facts.append(f"copy {result['copy_gbps']:.0f} GB/s, read + written")
        if "bus_gbps" in result:
            bus = result["bus_gbps"]
            facts.append(f"bus {bus['up']:.1f} GB/s up, {bus['down']:.1f} down, {bus['both']:.1f} both ways at once")
        facts.append("tests " + ", ".join(f"{number} {name}" for name, number in tests.items()))
        if self.on_gpu:
            facts.append(f"compute-sanitizer {result['sanitizer']} ({result.get('sanitizer_tests', 0)} tests with each tool)")
        sampled = sorted((row for row in self.rows if "samples" in row), key=lambda row: row["samples"])
        if sampled:
            facts.append(f"medians of {sampled[0]['samples']} to {sampled[-1]['samples']} samples (fewest: `{sampled[0]['id']}`)")
        sources = f"{'**older** sources' if self.older else 'sources'} `{result['fingerprint'][:12]}`"
        date = f", {result['date']}" if "date" in result else ""
        yield "; ".join(facts) + f"; {sources}{date}, file `perf/results/{self.stem}.json`.\n"

    def targets(self):
        rows = [(t, self.measured.get(resultfile.key(t))) for t in self.wanted]
        lines = [target_cells(target, row, self.measured) for target, row in rows if row]
        used = [k for k in range(len(TARGET_HEAD)) if any(line[k] for line in lines)]
        yield table([TARGET_HEAD[k] for k in used], [[line[k] for k in used] for line in lines])

    def against_others(self):
        bound = [row for row in self.plain if "fraction_of_copy" in row]
        beside = [row for row in self.plain if others(row)]
        pictures = []
        if bound:
            pictures.append(self.picture("floor", "Against the floor", plots.floor_plot(bound, f"{self.device}: time against the floor")))
        if beside:
            yield faster_peers(self.plain)
            pictures.append(self.picture("peers", "Against others", plots.peers_plot(beside, f"{self.device}: against others")))
        yield "".join(pictures)

    def calls(self):
        rows = [row for row in self.rows if "calls" in row]
        if rows:
            yield table(CALLS_HEAD, [calls_cells(row) for row in rows])
            yield self.picture("calls", "Single calls", plots.calls_plot(rows, f"{self.device}: how long single calls take"))

    def sweeps(self):
        pictures = []
        for name, quantities in sorted(sweeps(self.rows).items()):
            for quantity, series in quantities.items():
                about = f"{name} over {quantity}"
                pictures.append(self.picture(f"sweep-{resultfile.slug(name + ' ' + quantity)}", about,
                                             plots.sweep_plot(quantity, series, self.result["copy_gbps"], f"{self.device}: {about}")))
        yield "".join(pictures)

    # ---- Sections of the site

    def note(self):
        if "note" in self.result:
            yield self.result["note"] + "\n"

    def limits(self):
        if self.on_gpu:
            yield "### What limits each kernel\n"
            yield from limits.limits(self.result, self.wanted, self.measured)

    def latency(self):
        rows = sorted((row for row in self.rows if is_latency(row)), key=module)
        if rows:
            yield "### Latency of one frame\n\nTime from the call to the end of its work, by the steady clock, data resident.\n"
            yield table(*latency_cells(rows))

    def host_to_host(self):
        rows = sorted((row for row in self.rows if "fraction_of_bus" in row), key=module)
        if rows:
            yield ("### From host memory to host memory\n\nPinned memory, transfers overlapped with work. If the same work on resident "
                   "data takes longer than the bus, that is the limit.\n")
            yield table(["work", "ms per frame", "GB/s", "bus alone, ms", "of the bus limit", "resident, ms"],
                        [host_to_host_cells(row, self.measured) for row in rows])

    def all_rows(self):
        yield "### Every row\n"
        for name in sorted({module(row) for row in self.plain}):
            yield f"#### {name}\n"
            yield table(["work", "median ms", "min ms", "GB/s", "of copy", "others take", "remarks"],
                        [row_cells(row) for row in self.plain if module(row) == name])


# ---- Lines of the tables ---------------------------------------------------------------------------------------------

def target_cells(target, row, measured):
    floor = f"{target['floor_ms']:.3g}" if "floor_ms" in target else ""
    met, asked, got = resultfile.judge(target, row, measured)
    if "of" in target:
        asked = asked.replace(target["of"], f"`{target['of']}`")
    if "target_ms" not in target:
        got = f"{milliseconds(row['median_ms'])} ms, {got}"
    times = f"{row['median_ms'] / target['floor_ms']:.2f}" if "floor_ms" in target else ""
    peers = whole(row)
    best = min(peers, key=peers.get, default=None)
    beside = f"{best} {milliseconds(peers[best])}" if best else ""
    return [f"`{target['id']}`", got, f"{asked}, {VERDICTS[met]}", floor, times, beside]


def calls_cells(row):
    calls = row["calls"]
    shown = [f"{calls[key]:.0f}" if key in calls else "" for key in PERCENTILES]
    return [f"`{row['id']}`", str(calls["count"]), *shown, row.get("note", "")]


def faster_peers(rows):
    """A sentence that names the rows in which a peer is faster."""
    compared = [row for row in rows if whole(row)]
    behind = [(row, name, ms) for row in compared for name, ms in whole(row).items() if ms < row["median_ms"]]
    text = f"{len(compared)} rows have a peer that does the same work"
    if not behind:
        return text + "; none of these is faster in any row.\n"
    return text + "; faster than cusight are: " + ", ".join(f"{name} at `{row['id']}` ({row['median_ms'] / ms:.3g}x)"
                                               for row, name, ms in behind) + ".\n"


def latency_cells(rows):
    """The head and the lines: one line an object, one column a size, of ids .../COLSxROWS.../latency."""
    sizes, lines = [], {}
    for row in rows:
        match = re.search(r"/(\d+x\d+)(?=/)", row["id"])
        size = match.group(1) if match else "other"
        name = row["id"].replace(f"/{size}", "").removesuffix("/latency")
        sizes += [size] if size not in sizes else []
        lines.setdefault(name, {})[size] = milliseconds(row["median_ms"])
    sizes.sort(key=lambda s: math.prod(int(n) for n in s.split("x")) if "x" in s else 0)
    return ["object, ms per frame", *sizes], [[f"`{name}`", *(values.get(s, "") for s in sizes)] for name, values in lines.items()]


def host_to_host_cells(row, measured):
    resident = measured.get((row["id"].removesuffix("/host-to-host"), row["backend"]))
    return [f"`{row['id']}`", milliseconds(row["median_ms"]), f"{row['bus_bytes'] / row['median_ms'] * 1e-6:.1f}",
            milliseconds(row["fraction_of_bus"] * row["median_ms"]), f"{100 * row['fraction_of_bus']:.0f} %",
            milliseconds(resident["median_ms"]) if resident and resident is not row else ""]


def row_cells(row):
    speed = f"{row['bytes'] / row['median_ms'] * 1e-6:.0f}" if row["bytes"] else ""
    share = f"{100 * row['fraction_of_copy']:.0f} %" if "fraction_of_copy" in row else ""
    peers = ", ".join(f"{name} {ms / row['median_ms']:.3g}x" for name, ms in row["peers"].items())
    return [f"`{row['id']}`", milliseconds(row["median_ms"]), milliseconds(row["min_ms"]), speed, share, peers,
            row.get("note", "")]
