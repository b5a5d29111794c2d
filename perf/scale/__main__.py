"""Measures one recording on many workers: frames from page-locked memory on 1 .. N GPUs, and from files with 1 .. 16 shards of
cusight-events. Writes one JSON file, and with --table prints its rows as tables. Without a GPU, --cpu tries it at a small
size: python3 perf/scale --build build --cpu --events 20e6 --shards 1,2

The program builds what it needs in --build if that folder is not configured yet:
    python3 perf/scale --build build-scale --configure -DCUSIGHT_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=90
"""

import argparse
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ["cusight_scale", "cusight-events"]


def say(text):
    print(f"[{time.monotonic() - START:6.1f} s] {text}", file=sys.stderr, flush=True)


def run(command, **options):
    return subprocess.run([str(word) for word in command], check=True, text=True, stdout=subprocess.PIPE, **options).stdout


def build(folder, configure):
    if not (folder / "CMakeCache.txt").exists():
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        run(["cmake", "-S", ROOT, "-B", folder, *generator, "-DCUSIGHT_OPENCV=OFF", "-DCUSIGHT_TESTS=OFF", *configure])
    run(["cmake", "--build", folder, "--parallel", processors(), "--target", *TARGETS])


def gpus():
    """Names of the GPUs and the driver's version; none if there is no nvidia-smi."""
    try:
        text = run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], stderr=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError):
        return [], None
    rows = [[part.strip() for part in line.split(",")] for line in text.strip().splitlines()]
    return [row[0] for row in rows], rows[0][1] if rows else None


def processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def processors():
    """Those that this program may use: of its affinity, and of its control group's quota."""
    count = len(os.sched_getaffinity(0))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        count = min(count, max(1, round(int(quota) / int(period))))
    except (OSError, ValueError):
        pass
    return count


def measure_file(options, path, form, shards, devices, output):
    """One row: all shards at once, each a process, on the devices in turn; one shard has all devices in one call. `output` None means
    that frames are only summed up."""
    environment = dict(os.environ, OMP_NUM_THREADS=str(max(1, processors() // shards)))
    program = options.build / "bin/cusight-events"
    parts = [options.scratch / f"part-{k}.h5" for k in range(shards)] if output else []
    start = time.monotonic()
    processes = []
    for k in range(shards):
        own = range(devices) if shards == 1 else [k % devices]
        command = [program, path, "--headless", "--json", "--shard", f"{k + 1}/{shards}", "--representation", options.representation,
                   "--device", "cpu" if options.cpu else "cuda:" + ",".join(map(str, own))]
        command += ["--output", parts[k], "--compression", "none"] if output else ["--checksum"]
        processes.append(subprocess.Popen([str(word) for word in command], env=environment, text=True, stdout=subprocess.PIPE))
    try:
        told = [json.loads(process.communicate(timeout=options.time_limit)[0]) for process in processes]
    finally:
        for process in processes:
            process.kill()
    if failed := [each["error"] for each in told if each["exit_code"]]:
        sys.exit(f"perf/scale: {form}: {failed[0]}")
    shards_s = time.monotonic() - start
    call_s = max(each["events"] / each["events_per_second"] for each in told)  # without the start of programs and devices
    if output:
        run([program, "merge", *parts, "--output", output])
    seconds = time.monotonic() - start
    for part in parts:
        part.unlink()
    say(f"{form}, {shards} shards, {devices} devices: {shards_s:.2f} s, {call_s:.2f} s without their start" + (f", with merging {seconds:.2f} s" if output else ""))
    return {"format": form, "shards": shards, "devices": devices, "output": "HDF5" if output else "checksum",
            "events": sum(each["events"] for each in told), "frames": sum(each["frames"] for each in told),
            "checksums": [each.get("checksum") for each in told], "seconds": round(seconds, 3), "shards_s": round(shards_s, 3), "call_s": round(call_s, 3), "merge_s": round(seconds - shards_s, 3)}


def measure_files(options, devices):
    rows = []
    for form in options.formats:
        path = options.scratch / f"recording.{form}"
        events = int(options.file_events)
        start = time.monotonic()
        run([options.build / "perf/cusight_scale", "generate", path, "--format", form, "--events", events])
        size = path.stat().st_size
        say(f"{form}: {events:.3g} events, {size / 1e9:.2f} GB, written in {time.monotonic() - start:.1f} s")
        counts = sorted({1, devices})
        for shards in options.shards:
            for count in counts:
                if 1 < shards < count:
                    continue
                if count < devices and shards > 8:
                    continue  # one device is limited long before
                rows.append({**measure_file(options, path, form, shards, count, None), "bytes": size})
        best = min((row for row in rows if row["format"] == form), key=lambda row: row["seconds"])
        output = options.scratch / "frames.h5"
        if options.with_output:
            rows.append({**measure_file(options, path, form, best["shards"], best["devices"], output), "bytes": size})
            output.unlink()
        path.unlink()
        of_form = [row for row in rows if row["format"] == form]
        sums = {(row["events"], row["frames"]) for row in of_form}
        if len(sums) != 1:
            sys.exit(f"perf/scale: {form}: other events and frames by other numbers of shards: {sums}")
        frames = {(row["shards"], tuple(row.pop("checksums"))) for row in of_form if any(row["checksums"])}
        if len(frames) != len({shards for shards, _ in frames}):
            sys.exit(f"perf/scale: {form}: other frames by other devices: {frames}")
        for row in of_form:
            row.pop("checksums", None)
    return rows


def measure_memory(options):
    command = [options.build / "perf/cusight_scale", "memory", "--events", int(options.events), "--representation",
               options.representation, "--passes", options.passes]
    if options.cpu:
        command += ["--cpu", "--devices", 2]
    result = json.loads(run(command))
    alone = [row["median_s"] / row["events"] for row in result["rows"] if len(row["devices"]) == 1]
    for row in result["rows"]:
        # Against the mean of its devices, each alone.
        row["speedup"] = round(statistics.mean(alone[d] for d in row["devices"]) * row["events"] / row["median_s"], 3)
        say(f"memory, devices {row['devices']}: {row['median_s']:.4f} s, {row['events'] / row['median_s'] / 1e9:.2f} billion "
            f"events/s, {row['speedup']:.2f} times one")
    return result


def fingerprint():
    try:
        return run(["git", "-C", ROOT, "describe", "--always", "--dirty"], stderr=subprocess.DEVNULL).strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def table(result):
    """The rows as Markdown."""
    lines = ["| From memory: GPUs | million events/s | times one GPU |", "|---|---:|---:|"]
    for row in result["memory"]["rows"]:
        names = ", ".join(str(d) for d in row["devices"])
        lines.append(f"| {len(row['devices'])} ({names}) | {row['events'] / row['median_s'] / 1e6:.0f} | {row['speedup']:.2f} |")
    if "files" in result:
        lines += ["", "| From a file | shards | GPUs | output | shards, s | without their start | merge, s | million events/s |",
                  "|---|---:|---:|---|---:|---:|---:|---:|"]
    for row in result.get("files", []):
        lines.append(f"| {row['format']}, {row['bytes'] / 1e9:.1f} GB | {row['shards']} | {row['devices']} | {row['output']} | "
                     f"{row['shards_s']:.2f} | {row['call_s']:.2f} | {row['merge_s']:.2f} | {row['events'] / row['seconds'] / 1e6:.0f} |")
    return "\n".join(lines) + "\n"


def parse():
    parser = argparse.ArgumentParser(prog="perf/scale", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build-scale", help="build folder (default build-scale)")
    parser.add_argument("--no-build", dest="build_first", action="store_false", help="use what is in --build")
    parser.add_argument("--configure", nargs=argparse.REMAINDER, default=[], help="last: options of CMake for a new build folder")
    parser.add_argument("--events", type=float, default=1e9, help="events in memory (default 1e9)")
    parser.add_argument("--file-events", type=float, help="events in each file (default: as --events)")
    parser.add_argument("--formats", default="evt2,m3ed", help="of files: evt2, evt3, dat, text, m3ed (default evt2,m3ed)")
    parser.add_argument("--shards", default="1,2,4,8,16", help="numbers of shards (default 1,2,4,8,16)")
    parser.add_argument("--passes", type=int, default=15, help="passes over memory (default 15)")
    parser.add_argument("--representation", default="histogram")
    parser.add_argument("--scratch", type=Path, help="folder for recordings, of 10 bytes an event (default: a temporary one)")
    parser.add_argument("--no-output", dest="with_output", action="store_false", help="do not measure storing the frames")
    parser.add_argument("--cpu", action="store_true", help="without a GPU, to try this program")
    parser.add_argument("--time-limit", type=float, default=120, help="seconds for one run of a file (default 120)")
    parser.add_argument("--output", type=Path, help="result file (default perf/results/scale/<gpu>-x<count>.json)")
    parser.add_argument("--table", type=Path, metavar="RESULT", help="print the table of a result file, and measure nothing")
    options = parser.parse_args()
    options.formats = [form for form in options.formats.split(",") if form]
    options.shards = [int(count) for count in options.shards.split(",")]
    options.file_events = options.file_events or options.events
    return options


def main():
    options = parse()
    if options.table:
        print(table(json.loads(options.table.read_text())), end="")
        return
    names, driver = ([], None) if options.cpu else gpus()
    if not names and not options.cpu:
        sys.exit("perf/scale: there is no GPU; --cpu tries it on the CPU")
    options.build = options.build.resolve()
    if options.build_first:
        build(options.build, options.configure)
        say("built")
    result = {"gpu": names[0] if names else None, "gpus": len(names), "driver": driver, "cpu": processor(),
              "processors": processors(), "sources": fingerprint(), "events": int(options.events),
              "representation": options.representation, "memory": measure_memory(options)}
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        options.scratch = Path(scratch)
        result["files"] = measure_files(options, max(1, len(names)))
    stem = re.sub(r"[^a-z0-9]+", "-", (names[0] if names else processor()).lower()).strip("-") + f"-x{max(1, len(names))}"
    path = options.output or ROOT / "perf/results/scale" / f"{stem}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")
    say(f"wrote {path}")
    print(table(result), end="")


START = time.monotonic()
if __name__ == "__main__":
    main()
