"""How many cameras one GPU watches: a video is decoded many times at once, as if by that many cameras, and all are watched in one step.

    ffmpeg -stream_loop 3 -i vtest.avi -vf fps=25,scale=1920:1080 -t 10 -c:v libx264 -b:v 4M -pix_fmt yuv420p video.mp4
    python motion_cameras.py video.mp4 [--cameras 40] [--frames 200]

Needs PyTorch, PyNvVideoCodec, a GPU, and the driver's libraries for video: libnvcuvid.so.1 and libnvidia-encode.so.1, which a container
has with NVIDIA_DRIVER_CAPABILITIES=compute,utility,video. The detector sees the luma of the decoder's NV12 frames. Prints how many
frames a second all cameras have together, and how many cameras of 25 frames a second that is, for decoding alone, with the detector, and
for the detector alone.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any, Callable, Sequence

import cusight

BATCH = 8  # frames that are taken from a decoder at once; it decodes twice as many ahead


def watch(
    decoders: Sequence[Any],
    detector: cusight.MotionDetector | None,
    frames: int,
    luma: Callable[[Any], Any],
    wait: Callable[[], None],
) -> tuple[int, float, list[Any]]:
    """Takes up to so many frames of each decoder; returns how many of each, the seconds, and the last frames."""
    last: list[Any] = []
    steps, start = 0, time.perf_counter()
    while steps < frames:
        batches = [decoder.get_batch_frames(min(BATCH, frames - steps)) for decoder in decoders]
        count = min(len(batch) for batch in batches)
        if count == 0:
            break
        for i in range(count):
            last = [luma(batch[i]) for batch in batches]
            if detector is not None:
                detector.step(last)
        wait()  # the next batch may reuse the frames' memory
        steps += count
    return steps, time.perf_counter() - start, last


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("video")
    parser.add_argument("--cameras", type=int, default=40)
    parser.add_argument("--frames", type=int, default=200, help="of each camera, at most")
    options = parser.parse_args(arguments)
    try:
        import PyNvVideoCodec as nvc
        import torch
    except (ImportError, RuntimeError) as error:  # RuntimeError: without the driver's libraries
        sys.exit(f"this example needs PyTorch and PyNvVideoCodec: {error}")
    if not cusight.device_count():
        sys.exit("this example needs a GPU")

    def luma(frame: Any) -> Any:
        planes = torch.from_dlpack(frame)  # rows of luma, then half as many of chroma
        return planes[: planes.shape[0] * 2 // 3]

    def run(detector: cusight.MotionDetector | None, frames: int) -> tuple[float, list[Any], list[Any]]:
        """Frames a second of all cameras, the last frames, and the decoders, which own these."""
        decoders = [nvc.ThreadedDecoder(options.video, buffer_size=2 * BATCH) for _ in range(options.cameras)]
        # Neither the first nor the last frames count, so that decoders are equally far ahead when the clock starts and stops.
        frames = min(frames, len(decoders[0]) - 4 * BATCH)
        watch(decoders, detector, BATCH, luma, torch.cuda.synchronize)
        steps, seconds, last = watch(decoders, detector, frames, luma, torch.cuda.synchronize)
        if steps == 0:
            sys.exit(f"{options.video} is too short, expected more than {5 * BATCH} frames")
        return steps * options.cameras / seconds, last, decoders

    def show(what: str, rate: float) -> None:
        print(f"{what}: {rate:.0f} frames/s, {rate / 25:.0f} cameras of 25 frames/s")

    decoding, last, decoders = run(None, options.frames)
    shape = tuple(int(n) for n in last[0].shape)
    for decoder in decoders:
        decoder.end()
    with cusight.MotionDetector(shape, options.cameras, device="cuda") as detector:
        watched, last, decoders = run(detector, options.frames)
        boxes = sum(len(detector.found(camera).boxes) for camera in range(options.cameras))
        start = time.perf_counter()
        for _ in range(100):
            detector.step(last)
        torch.cuda.synchronize()
        alone = 100 * options.cameras / (time.perf_counter() - start)
        for decoder in decoders:
            decoder.end()
    print(f"{options.cameras} cameras of {shape[1]} x {shape[0]}, {boxes} boxes at the end")
    show("decoding", decoding)
    show("with motion", watched)
    show("motion alone", alone)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
