"""Heatmap of the changes in a video that is decoded on the GPU: no frame touches the CPU.

    python video_heatmap.py video.mp4 [last.ppm]

Needs a GPU, PyTorch and PyNvVideoCodec. The decoder's frames are passed on by DLPack, as RGB.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import cusight


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("video")
    parser.add_argument("picture", nargs="?", help="write the last heatmap here, as a PPM")
    options = parser.parse_args()
    try:
        import PyNvVideoCodec as nvc
        import torch
    except (ImportError, RuntimeError) as error:  # RuntimeError: without the driver's libraries
        sys.exit(f"this example needs PyTorch and PyNvVideoCodec: {error}")
    if not cusight.device_count():
        sys.exit("this example needs a GPU")

    decoder = nvc.SimpleDecoder(options.video, use_device_memory=True, output_color_type=nvc.OutputColorType.RGB)
    previous: Any = None
    heat: Any = None
    frames, start = 0, time.perf_counter()
    for decoded in decoder:
        current = torch.from_dlpack(decoded).clone()  # the decoder reuses its memory
        if previous is not None:
            # The heatmap adds the channels' differences, so RGB and BGR give the same.
            heat = cusight.heatmap(previous, current, out=heat)
        previous = current
        frames += 1
    torch.cuda.synchronize()
    print(f"{frames} frames in {time.perf_counter() - start:.2f} s")
    if options.picture and heat is not None:
        rgb = heat.cpu().numpy()[..., ::-1]
        with open(options.picture, "wb") as file:
            file.write(f"P6 {rgb.shape[1]} {rgb.shape[0]} 255\n".encode() + rgb.tobytes())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
