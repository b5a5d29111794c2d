# shellcheck shell=bash
film=$(clip vtest.avi synthetic:768x576@300)

section "Where a video changes" \
    "Each frame is compared with the one before it: blue has not changed, green has, and red has changed the most. The
sparse difference sends only the bytes that changed by more than a threshold and carries the rest over to the next frame."
run cusight-heatmap "$film" --view side --full-scale 450 --frames 250 --output "$OUT/side.$ENDING"
video "$OUT/side.$ENDING" "A street camera and its heatmap, side by side."

run cusight-heatmap "$film" --view noise --frames 120 --output "$OUT/noise.png"
picture "$OUT/noise.png" "Noise view: red where the change, summed over the channels, is above 30."

run cusight-heatmap "$film" --full-scale 450 --output "$OUT/heatmap.avi"
figure "note" "The whole clip as Motion JPEG, which is fast to encode, so the rate is closer to that of the computation."
