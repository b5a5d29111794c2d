"""python -m cusight: versions, GPUs, and what was built in."""

from __future__ import annotations

import argparse
import platform
import sys

from . import __version__, _core


def describe() -> list[str]:
    """The lines that the command prints."""
    lines = [f"cusight {__version__}, Python {platform.python_version()}, {platform.machine()}"]
    lines.append(f"module     {_core.__file__}")
    lines.append(f"CUDA code  {_core.cuda_built_for() or 'no (built without a CUDA compiler)'}")
    lines.append(f"built in   {_core.built_with().replace(' ', ', ')}; FFT on the CPU: {_core.host_fft()}")
    gpus = _core.device_count()
    if not gpus:
        lines.append("GPUs       none that can be used")
    for index in range(gpus):
        gpu = _core.device_info(index)
        memory = int(str(gpu["memory_total"])) / 2**30
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


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m cusight", description=__doc__)
    parser.parse_args()
    print("\n".join(describe()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
