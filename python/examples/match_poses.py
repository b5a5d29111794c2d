"""A part at any angle and several sizes: every copy of it in a picture, with the exact best match.

    python match_poses.py [FOUND.PNG]    # with OpenCV's Python module the copies are drawn
"""

from __future__ import annotations

import sys

import numpy as np

import cusight


def main(arguments: list[str]) -> int:
    rng = np.random.default_rng(7)
    y, x = np.mgrid[:48, :72]
    part = (110 + 70 * np.sin(x / 7) * np.cos(y / 6) + 50 * np.sin((x + 2 * y) / 11)).clip(0, 255).astype(np.uint8)
    mask = np.zeros(part.shape, np.uint8)
    mask[2:-2, 2:-2] = 255  # without the edge, which mixes with the ground
    frame = rng.integers(60, 90, (300, 400), dtype=np.uint8)

    with cusight.PoseMatcher(part, frame.shape, angles=[-137.5, 30, 176], scales=[0.92, 1, 1.07]) as poses:
        for angle, scale, row, col in ((0, 1, 20, 30), (1, 0, 150, 60), (2, 2, 130, 230)):
            pixels, counts = poses.template(angle, scale)  # the part in a pose
            place = frame[row : row + counts.shape[0], col : col + counts.shape[1]]
            place[counts > 0] = pixels[counts > 0]

    with cusight.PoseMatcher(
        part,
        frame.shape,
        angles=range(-180, 180, 3),
        scales=[0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.15],
        method="ccoeff-normed",
        mask=mask,
        max_matches=5,
        min_distance=30,
        score_limit=0.8,
        refine=True,
    ) as matcher:
        found = matcher(frame)
    for match in found:
        print(
            f"x {match['x']:.1f}, y {match['y']:.1f}, angle {match['angle']:.1f}, scale {match['scale']:.2f}, score {match['score']:.3f}"
        )

    if arguments:
        import cv2

        picture = cv2.cvtColor(frame, cv2.COLOR_GRAY2BGR)
        for match in found:
            size = (part.shape[1] * match["scale"], part.shape[0] * match["scale"])
            corners = cv2.boxPoints(((match["x"], match["y"]), size, -match["angle"]))  # OpenCV's boxes turn clockwise
            cv2.polylines(picture, [corners.round().astype(np.int32)], True, (0, 220, 0), 2)
        cv2.imwrite(arguments[0], picture)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
