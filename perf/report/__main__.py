"""Writes docs/performance.md and its plots from perf/results/*.json and perf/targets.json. Do not edit them: measure again
(scripts/gpu-check, scripts/gpu-check --cpu), then run this."""
import argparse
import sys
from pathlib import Path

import resultfile
from chapter import Chapter

INTRODUCTION = """# Performance

`python3 perf/report` generates this page from `perf/results/*.json`. The site has all: every row, latencies, transfers, limits.

Times are medians. On a GPU, a sample is a batch of calls that takes 2 ms or more between two CUDA events, on data in device memory that
rotates through more buffers than fit in the L2 cache (except for rows marked L2-resident); on a CPU, a batch of 5 ms, timed with the
steady clock. Each function and its peers are measured alternately, so ratios come from one run; `perf/peers/python` times PyTorch and
CuPy right after it. The floor is the time that the bytes a task must move take at the bandwidth of a copy on the same device.

To measure on your own machine (`--output mine.json` keeps a committed result):

```
scripts/gpu-check --profile   # builds, tests, runs the sanitizers, measures, profiles; writes perf/results/<device>.json
scripts/gpu-check --cpu       # the same for the CPU, without a GPU
python3 perf/report           # this page and its plots
scripts/compare OLD NEW       # what got slower between two result files
```

`scripts/compare perf/results/<device>.json mine.json` lists only rows whose medians differ by more than 3 % and where even the fastest
sample of the slower run is above the median of the faster one.
"""

MEASUREMENTS = """# Measurements

All that was measured, by device. [Performance](performance.md) says how, and shows the targets and the other implementations.
"""


def documents(chapters, docs, site):
    """{path: text} of the page, or of the site's page, and its plots."""
    page, introduction = ("measurements", MEASUREMENTS) if site else ("performance", INTRODUCTION)
    sections = [chapter.measurements() if site else chapter.summary() for chapter in chapters]
    text = "\n".join([introduction, *sections, *unmeasured(chapters)])
    drawn = {docs / "plots" / name: str(plot) for chapter in chapters for name, plot in chapter.plots.items()}
    return {docs / f"{page}.md": text, **drawn}


def unmeasured(chapters):
    """A sentence that names the targets which no file has."""
    measured = {key for chapter in chapters for key in chapter.measured}
    absent = [f"`{target['id']}` ({target['backend']})" for target in resultfile.targets() if resultfile.key(target) not in measured]
    if absent:
        yield f"## Targets that no file measures\n\n{', '.join(absent)}.\n"


def obsolete(chapters, docs, files):
    """Plots of these devices that the page no longer shows."""
    found = (path for chapter in chapters for path in (docs / "plots").glob(f"{chapter.stem}-*.svg"))
    return {path for path in found if path not in files}


def main():
    parser = argparse.ArgumentParser(prog="perf/report", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page does not match the results")
    parser.add_argument("--results", type=Path, default=resultfile.RESULTS, help="folder of result files")
    parser.add_argument("--docs", type=Path, default=resultfile.ROOT / "docs", help="folder to write to")
    parser.add_argument("--site", action="store_true", help="write measurements.md, the site's page of all rows, instead")
    options = parser.parse_args()
    results = [(path.stem, resultfile.load(path)) for path in sorted(options.results.glob("*.json"))]
    results.sort(key=lambda item: item[1].get("date", ""), reverse=True)
    results.sort(key=lambda item: "gpu" not in item[1])
    newest = max((result for _, result in results), key=lambda result: result.get("date", ""), default=None)
    chapters = [Chapter(stem, result, newest) for stem, result in results]
    files = documents(chapters, options.docs, options.site)
    old = set() if options.site else obsolete(chapters, options.docs, files)
    stale = [path for path, new in files.items() if not path.exists() or path.read_text(encoding="utf-8") != new] + sorted(old)
    if options.check:
        for path in stale:
            print(f"out of date: {path}")
        return 1 if stale else 0
    (options.docs / "plots").mkdir(parents=True, exist_ok=True)
    for path, new in files.items():
        path.write_text(new, encoding="utf-8")
    for path in old:
        path.unlink()
    print(f"{len(results)} result files, {len(files) - 1} plots, {len(stale)} files changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
