"""What limits the kernels of the target rows, derived by rules from Nsight Compute's counters."""
import resultfile
from rows import table

CEILINGS = {"dram_pct": "memory bandwidth", "l2_pct": "L2 bandwidth",
            "l1_pct": "L1 and shared memory bandwidth", "issue_pct": "instruction issue"}
NEAR = 70  # percent of a ceiling from which it is called the limit
STALLS = {"long_scoreboard": "loads from memory", "short_scoreboard": "shared memory and special functions",
          "barrier": "barriers", "membar": "memory fences", "wait": "fixed latencies",
          "lg_throttle": "the queue of loads and stores", "mio_throttle": "the queue of shared memory",
          "math_pipe_throttle": "busy arithmetic units", "no_instruction": "instruction fetch", "sleeping": "sleep",
          "drain": "stores at the end", "branch_resolving": "branches", "dispatch_stall": "the dispatcher",
          "imc_miss": "constants", "tex_throttle": "the queue of textures", "misc": "other things"}


def limit(metrics):
    """The highest ceiling if it is near, otherwise latency and what warps wait for most."""
    name = max(CEILINGS, key=lambda key: metrics.get(key, 0))
    if metrics.get(name, 0) >= NEAR:
        return CEILINGS[name]
    waits = [STALLS.get(stall, stall) for stall in metrics["stalls"] if stall != "not_selected"]  # that warp was ready
    return "latency: waits for " + ", ".join(waits[:2]) if waits else "latency"


def limits(result, wanted, measured):
    """The section on the target rows that are not within 15 % of their floor."""
    kernels = {}
    for entry in result.get("profiles", []):
        kernels.setdefault(entry["row"], []).append(entry)
    near, lines, open_rows = [], [], []
    for target in wanted:
        row = measured.get(resultfile.key(target))
        if row is None:
            continue
        if "floor_ms" in target and row["median_ms"] <= 1.15 * target["floor_ms"]:
            near.append(f"`{row['id']}` ({row['median_ms'] / target['floor_ms']:.2f} times)")
        elif row["id"] in kernels:
            lines += kernel_lines(target, row, kernels[row["id"]])
        else:
            open_rows.append(f"`{row['id']}`")
    text = []
    if near:
        text.append("Within 15 % of the floor: " + ", ".join(near) + ".\n")
    if lines:
        text += [EXPLANATION, table(HEAD, lines)]
    if open_rows:
        text.append("Not profiled (`scripts/gpu-check --profile`): " + ", ".join(open_rows) + ".\n")
    return text


EXPLANATION = f"""The other targets' kernels under Nsight Compute, each run on its own, so their sum differs from the row's time. For a kernel \
launched several times: the number of launches profiled, and means. Stalls are in cycles per issued instruction. A ceiling used to \
{NEAR} % or more is called the limit; otherwise, what warps wait for most.
"""
HEAD = ["row, us", "kernel", "us per launch", "memory MB read + written", "memory", "L2", "L1", "issue", "occupancy", "stalls", "limit"]


def kernel_lines(target, row, entries):
    """One line of the table for each kernel of a row; the first names the row."""
    times = f"{row['median_ms'] * 1e3:.1f}"
    if "floor_ms" in target:
        times += f", {row['median_ms'] / target['floor_ms']:.2f} times the floor"
    lines = []
    for entry in entries:
        m = entry["metrics"]
        shares = [f"{m[name]:.0f} %" if name in m else "" for name in ("dram_pct", "l2_pct", "l1_pct", "issue_pct", "occupancy_pct")]
        launches = f" x {entry['launches']}" if entry["launches"] > 1 else ""
        lines.append(["" if lines else f"`{row['id']}`: {times}", f"`{entry['kernel']}`{launches}", f"{m['us']:.1f}",
                      f"{m['dram_read_mb']:.3g} + {m['dram_write_mb']:.3g}", *shares,
                      ", ".join(f"{stall} {value:.1f}" for stall, value in m["stalls"].items()), limit(m)])
    return lines
