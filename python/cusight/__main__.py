"""python -m cusight: versions, GPUs, and what was built in. python -m cusight env adds what a bug report needs."""

from __future__ import annotations

import argparse
import os
import platform
import sys

from . import __version__, _core, _cuda


def describe() -> list[str]:
    """The lines that the command prints."""
    lines = [f"cusight {__version__}, Python {platform.python_version()}, {platform.machine()}"]
    lines.append(f"module     {_core.__file__}")
    missing = f"no, since {_core.cuda_missing()}. {_cuda.HOW}"
    lines.append(f"CUDA code  {_core.cuda_built_for() or missing}")
    lines.append(f"built in   {_core.built_with().replace(' ', ', ')}; FFT on the CPU: {_core.host_fft()}")
    gpus = _cuda.device_count()
    if not gpus:
        lines.append("GPUs       none that can be used")
    for index in range(gpus):
        gpu = _cuda.device_info(index)
        memory = gpu["memory_total"] / 2**30
        lines.append(
            f"GPU {index}      {gpu['name']}, compute capability {gpu['major']}.{gpu['minor']}, {memory:.0f} GiB, "
            f"driver {gpu['driver_version']}, runtime {gpu['runtime_version']}"
        )
    for name in ("numpy", "torch", "cupy"):
        try:
            lines.append(f"{name:<10} {__import__(name).__version__}")
        except ImportError:
            lines.append(f"{name:<10} not installed")
    return lines


def environment() -> list[str]:
    """What the command env adds: the library, the system, and variables that change how it runs."""
    lines = _core.build_information().splitlines()
    lines.append(f"system     {platform.platform()}, {os.cpu_count()} processors")
    try:
        with open("/proc/driver/nvidia/version", encoding="utf-8") as file:
            lines.append(f"driver     {file.readline().strip()}")
    except OSError:
        lines.append("driver     none")
    for name in ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "OMP_PROC_BIND", "CUDA_VISIBLE_DEVICES", "CUDA_MODULE_LOADING"):
        if name in os.environ:
            lines.append(f"{name}={os.environ[name]}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m cusight", description=__doc__)
    parser.add_argument("command", nargs="?", choices=["env"], help="also print the library's build options and the system")
    lines = describe()
    if parser.parse_args().command == "env":
        lines += environment()
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
