"""Replacing cv2.matchTemplate: the same scores, and the exact best match.

    python match_template.py
"""

from __future__ import annotations

import numpy as np

import cusight


def main() -> int:
    rng = np.random.default_rng(7)
    image = rng.integers(0, 256, (240, 320, 3), dtype=np.uint8)
    template = image[100:132, 200:248].copy()

    # Before: scores = cv2.matchTemplate(image, template, cv2.TM_SQDIFF)
    #         _, _, place, _ = cv2.minMaxLoc(scores)
    scores = cusight.match_template(image, template, "sqdiff")
    y, x = np.unravel_index(scores.argmin(), scores.shape)
    print(f"score map {scores.shape}: smallest at x {x}, y {y}")

    # Better for more than one frame: everything is prepared once, and position and score are exact.
    with cusight.Matcher(template, image.shape, max_matches=3, min_distance=20) as matcher:
        for hit in matcher(image):
            print(f"match at x {hit['x']}, y {hit['y']}, score {hit['score']:.3f}")

    try:
        import cv2  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        return 0
    theirs = cv2.matchTemplate(image, template, cv2.TM_SQDIFF)
    print(f"largest difference to cv2.matchTemplate, relative: {np.abs(theirs - scores).max() / theirs.max():.2e}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
