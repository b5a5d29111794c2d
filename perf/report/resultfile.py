"""Result files (perf/results/*.json), the harness's JSON lines, and targets, for gpu-check, compare and the report."""
import hashlib
import json
import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "perf" / "results"


def load(path):
    """A result file. The output of `cusight_perf --json` is accepted too if its name ends in .jsonl."""
    if Path(path).suffix == ".jsonl":
        return load_lines(path)
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def load_lines(path):
    """Joins the output of one or more runs of `cusight_perf --json` into one result. A line with an id is a row, any other
    states facts about the machine. Later facts and rows (same id and backend) replace earlier ones in place. A line cut
    short by a crash is skipped."""
    facts, rows = {}, {}
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                item = json.loads(line)
            except json.JSONDecodeError:
                print(f"{path}:{number}: incomplete line skipped", file=sys.stderr)
                continue
            if "id" in item:
                rows[key(item)] = item
            else:
                facts.update(item)
    return {**facts, "rows": list(rows.values())}


def save(path, result):
    """Writes one row per line, and one profile per line."""
    head = {key: value for key, value in result.items() if key not in ("profiles", "rows")}
    text = "{\n" + "".join(f"{json.dumps(key)}: {json.dumps(value)},\n" for key, value in head.items())
    if "profiles" in result:
        text += '"profiles": [\n' + ",\n".join(json.dumps(kernel) for kernel in result["profiles"]) + "\n],\n"
    text += '"rows": [\n' + ",\n".join(json.dumps(row) for row in result["rows"]) + "\n]\n}\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def fingerprint():
    """Identifies the sources that the GPU runs: the output of

        git ls-files -s -- '*.cu' '*.cuh' 'src/*.h' 'modules/*/*.h' ':!perf' ':!modules/eventio' ':!modules/live' | git hash-object --stdin

    computed from the files themselves, so that it needs no .git."""
    return digest(r"\.cuh?$|^src/.*\.h$|^modules/(?!eventio/|live/).*/.*\.h$")


def tested():
    """Identifies everything that the tests depend on, in the same way."""
    return digest(r"^(cmake|include|modules|samples|src|test)/|^CMakeLists.txt$")


def digest(pattern):
    lines = [f"{'100755' if os.access(path, os.X_OK) else '100644'} {blob(path.read_bytes())} 0\t{name}\n"
             for name, path in sorted(sources(pattern).items())]
    return blob("".join(lines).encode())


def sources(pattern):
    """{path within the repository: file}."""
    found = {}
    for folder, folders, files in os.walk(ROOT):
        here = Path(folder).relative_to(ROOT)
        if here == Path("."):  # neither what is outside the repository nor the performance suite
            folders[:] = [name for name in folders if not re.match(r"\.|build|out$|shared$|perf$", name)]
        folders[:] = [name for name in folders if name != "__pycache__"]
        for file in files:
            name = (here / file).as_posix()
            if re.search(pattern, name):
                found[name] = ROOT / name
    return found


def blob(data):
    """The name that git gives to contents."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def slug(name):
    """'NVIDIA H100 80GB HBM3' -> 'nvidia-h100-80gb-hbm3', 'AMD EPYC(TM) 9654' -> 'amd-epyc-9654'."""
    name = re.sub(r"\((R|TM|tm)\)", "", name)
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def key(row):
    return row["id"], row["backend"]


def targets(device=None, copy_gbps=None):
    """All targets, or those that mean something on `device`, with floors at its copy rate."""
    file = load(ROOT / "perf" / "targets.json")
    scale = file["copy_gbps"] / copy_gbps if copy_gbps else 1
    return [{**target, "floor_ms": target["floor_ms"] * scale} if "floor_ms" in target else target
            for target in file["targets"] if device is None or device in file["gpus"] or "target_ms" not in target]


def judge(target, row, measured):
    """(met, 'the target', 'the result') of one row; met is None if that is unknown. measured: {key: row}"""
    median = row["median_ms"]
    if "times" in target:
        asked = f"{target['times']:g}x {target['of']}"
        other = measured.get((target["of"], target["backend"]))
        if other is None:
            return None, asked, "that row was not run"
        return median <= target["times"] * other["median_ms"], asked, f"{median / other['median_ms']:.3g}x"
    if "p99_us" in target and "calls" in row:
        p99 = row["calls"]["p99_us"]
        asked = f"{target['target_ms']:g} ms, p99 {target['p99_us']:g} us"
        return median <= target["target_ms"] and p99 <= target["p99_us"], asked, f"{median:.4g} ms, p99 {p99:.0f} us"
    if "target_ms" in target:
        return median <= target["target_ms"], f"{target['target_ms']:g} ms", f"{median:.4g} ms"
    asked = f"{target['ratio']:g}x {target['peer']}"
    peer = row["peers"].get(target["peer"])
    if peer is None:
        return None, asked, "peer not here"
    return peer / median >= target["ratio"], asked, f"{peer / median:.3g}x"


def against_targets(rows, backend, device, copy_gbps):
    """Lines of a table of the targets of one backend and device, and how many were met."""
    measured = {key(row): row for row in rows}
    lines, met, asked_for = [], 0, 0
    for target in targets(device, copy_gbps):
        if target["backend"] != backend:
            continue
        asked_for += 1
        row = measured.get(key(target))
        if row is None:
            lines.append(f"{'not run':8} {target['id']}")
            continue
        ok, asked, got = judge(target, row, measured)
        met += bool(ok)
        word = {True: "met", False: "missed", None: "open"}[ok]
        floor = f"  floor {target['floor_ms']:.3g} ms" if "floor_ms" in target else ""
        lines.append(f"{word:8} {target['id']:42} {got:>12}  target {asked}{floor}")
    return lines, met, asked_for
