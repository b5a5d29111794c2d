# shellcheck shell=bash
film=$(clip vtest.avi synthetic:768x576@300)

section "Where a video changes" \
    "Each frame is compared with the one before it: blue has not changed, green has, and red has changed the most, on a scale that
suits the first two seconds. The sparse difference sends only the bytes that changed by more than a threshold; smaller changes add up until they exceed it."
run "Heatmap beside the film" cusight-heatmap "$film" --view side --frames 250 --output "$OUT/side.$ENDING"
video "$OUT/side.$ENDING" "Left, people walk across a courtyard; right, the same people as green and red outlines on blue." \
    "A camera above a courtyard, and its heatmap." 5

run "Noise view" cusight-heatmap "$film" --view noise --frames 120 --output "$OUT/noise.png"
picture "$OUT/noise.png" "Red outlines of walking people on black." \
    "Noise view of the last of 120 frames: red where the change, summed over blue, green and red, is above 30."

# Only for its times: Motion JPEG is fast to encode.
run "The whole clip as Motion JPEG" cusight-heatmap "$film" --output "$WORK/heatmap.avi"
