"""How many cameras one GPU watches: a video is decoded many times at once, as if by that many cameras, and all are watched in one step.

    python motion_cameras.py video.mp4 [--cameras 40] [--frames 250]

Needs a GPU, PyTorch and PyNvVideoCodec. Prints frames a second of all cameras, with and without the detector, and how many cameras of
25 frames a second that is.
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
    parser.add_argument("--cameras", type=int, default=40)
    parser.add_argument("--frames", type=int, default=250, help="of each camera, at most")
    options = parser.parse_args()
    try:
        import PyNvVideoCodec as nvc
        import torch
    except ImportError as error:
        sys.exit(f"this example needs PyTorch and PyNvVideoCodec: {error}")
    if not cusight.device_count():
        sys.exit("this example needs a GPU")

    def frames_of_one() -> Any:
        return iter(nvc.SimpleDecoder(options.video, use_device_memory=True, output_color_type=nvc.OutputColorType.RGB))

    def decode(detector: cusight.MotionDetector | None) -> float:
        """Seconds for a frame of a camera."""
        decoders = [frames_of_one() for _ in range(options.cameras)]
        steps, start = 0, time.perf_counter()
        while steps < options.frames:
            decoded = [next(each, None) for each in decoders]
            if any(frame is None for frame in decoded):
                break
            frames = [torch.from_dlpack(frame) for frame in decoded]
            if detector is not None:
                detector.step(frames, [40000 * steps] * options.cameras)
                torch.cuda.synchronize()  # the decoders reuse their memory
            steps += 1
        torch.cuda.synchronize()
        return float((time.perf_counter() - start) / max(1, steps * options.cameras))

    first = torch.from_dlpack(next(frames_of_one()))
    with cusight.MotionDetector(tuple(first.shape), options.cameras, device="cuda") as detector:
        decode(None)  # warms up
        alone, watched = decode(None), decode(detector)
        boxes = sum(len(detector.found(c).boxes) for c in range(options.cameras))
    print(f"decoding: {1 / alone:.0f} frames/s, {1 / alone / 25:.0f} cameras of 25 frames/s")
    print(f"with motion: {1 / watched:.0f} frames/s, {1 / watched / 25:.0f} cameras of 25 frames/s; {boxes} boxes at the end")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
