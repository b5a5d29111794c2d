"""Profiles the kernels of the target rows with Nsight Compute (ncu)."""
import csv
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import resultfile

# Nsight Compute's metrics and their names in result files: sums, and shares in percent.
SUMS = {"gpu__time_duration.sum": ("us", 1e-3), "dram__bytes_read.sum": ("dram_read_mb", 1e-6),
        "dram__bytes_write.sum": ("dram_write_mb", 1e-6)}
SHARES = {"dram__throughput.avg.pct_of_peak_sustained_elapsed": "dram_pct",
          "lts__throughput.avg.pct_of_peak_sustained_elapsed": "l2_pct",
          "l1tex__throughput.avg.pct_of_peak_sustained_active": "l1_pct",
          "smsp__issue_active.avg.pct_of_peak_sustained_active": "issue_pct",
          "sm__warps_active.avg.pct_of_peak_sustained_active": "occupancy_pct"}
STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio")
MAX_LAUNCHES = 16  # per row; ncu repeats each launch until it has read all counters


def find_ncu():
    """The path of ncu, or None."""
    path = shutil.which("ncu") or "/usr/local/cuda/bin/ncu"
    return path if Path(path).exists() else None


def profile(program, rows, scratch, seconds, say):
    """[{row, kernel, launches, metrics}] of the library's kernels in the target rows. Each row is a process."""
    ncu = find_ncu()
    if not ncu:
        say("there is no ncu: nothing profiled")
        return []
    targets = [target["id"] for target in resultfile.targets() if target["backend"] == "cuda"]
    wanted = sorted((row for row in rows if row["id"] in targets), key=lambda row: targets.index(row["id"]))
    deadline, found = time.monotonic() + seconds, []
    for row in wanted:
        limit = min(deadline - time.monotonic(), seconds / 3)
        problem, table, output = profile_row(ncu, program, row, scratch, limit)
        kernels = kernels_of(table)
        found += [{"row": row["id"], **kernel} for kernel in kernels]
        if problem or not kernels:
            say(f"ncu, {row['id']}: {problem or 'done'}, {len(kernels)} kernels")
            print(output[-1500:] + "\n".join(line for line in table.splitlines() if line.startswith("=="))[-1500:])
    return found


def profile_row(ncu, program, row, scratch, seconds):
    """(what went wrong or "", ncu's table, all output) of one row. Caches are flushed before each kernel if the row's data
    comes from memory."""
    log = scratch / "ncu.csv"
    log.unlink(missing_ok=True)
    command = [ncu, "--clock-control", "none", "--cache-control", "all" if row["bytes"] else "none",
               "--profile-from-start", "off", "--launch-count", str(MAX_LAUNCHES), "--csv", "--page", "raw",
               "--print-units", "base", "--print-kernel-base", "function", "--section", "WarpStateStats",
               "--metrics", ",".join([*SUMS, *SHARES]), "--log-file", str(log),
               program, f"--gtest_filter={row['test']}", "--perf_once", "--perf_space=cuda", f"--perf_rows={row['id']}"]
    status, output = run_for(command, seconds)
    problem = "out of time" if status is None else f"exit status {status}" if status else ""
    return problem, log.read_text(encoding="utf-8", errors="replace") if log.exists() else "", output


def run_for(command, seconds):
    """(exit status, output) of a program; status None if it and its children had to be killed after `seconds`."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=resultfile.ROOT, text=True,
                          errors="replace", start_new_session=True) as process:
        try:
            output = process.communicate(timeout=max(0.1, seconds))[0]
            return process.returncode, output
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None, process.communicate()[0]
        except BaseException:  # Ctrl-C, for example
            os.killpg(process.pid, signal.SIGKILL)
            raise


def kernels_of(text):
    """The kernels of ncu's table, which has one line per launch, in the order of their first launches. Microseconds and
    bytes are means per launch; shares and stalls are weighted by time."""
    lines = list(csv.DictReader(line for line in text.splitlines() if line.startswith('"')))
    found = {}
    for line in lines[1:]:  # the first holds the units
        numbers = {column: float(cell.replace(",", "")) for column, cell in line.items()
                   if column and cell and (column in SUMS or column in SHARES or STALL.fullmatch(column))}
        if "gpu__time_duration.sum" in numbers:
            add_launch(found.setdefault(line["Kernel Name"], {"launches": 0, "sums": {}, "shares": {}, "stalls": {}}), numbers)
    return [summary(kernel, entry) for kernel, entry in found.items()]


def add_launch(entry, numbers):
    entry["launches"] += 1
    for column, (name, scale) in SUMS.items():
        entry["sums"][name] = entry["sums"].get(name, 0) + scale * numbers.get(column, 0)
    for column, value in numbers.items():
        stall = STALL.fullmatch(column)
        group, name = ("stalls", stall.group(1)) if stall else ("shares", SHARES.get(column))
        if name and name != "selected":
            entry[group][name] = entry[group].get(name, 0) + value * numbers["gpu__time_duration.sum"] * 1e-3


def summary(kernel, entry):
    sums = {name: round(value / entry["launches"], 3) for name, value in entry["sums"].items()}
    shares, stalls = ({name: round(value / entry["sums"]["us"], 2) for name, value in entry[group].items()}
                      for group in ("shares", "stalls"))
    most = sorted(stalls, key=stalls.get, reverse=True)[:3]
    return {"kernel": kernel, "launches": entry["launches"],
            "metrics": {**sums, **shares, "stalls": {name: stalls[name] for name in most}}}
