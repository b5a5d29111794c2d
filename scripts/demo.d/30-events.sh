# shellcheck shell=bash
film=$(clip vtest.avi synthetic:768x576@300)

section "Frames from an event camera" \
    "Each pixel of an event camera reports changes of its brightness independently, within microseconds. Here the events are
generated from a video, so that no such camera is needed; recordings (M3ED, DSEC, Prophesee RAW and DAT, text) work the same
way. Amber means brighter, azure means darker."
# Generated once and saved as a recording if this build has HDF5.
if run cusight-events "$film" --checksum --save-events "$OUT/events.h5" && [ -s "$OUT/events.h5" ]; then
    film=$OUT/events.h5
    run cusight-events info "$film"
fi
run cusight-events "$film" --representation histogram --us-per-frame 400000 --stride 100000 --range 0:20 --output "$OUT/histogram.$ENDING"
video "$OUT/histogram.$ENDING" "The events of 0.4 s by polarity, every 0.1 s."

run cusight-events "$film" --representation stacked_histogram --us-per-frame 1200000 --stride 100000 --range 0:20 \
    --output "$OUT/trails.$ENDING"
video "$OUT/trails.$ENDING" "The last 1.2 s in time bins: from blue (old) to red (new)."

show() {
    run cusight-events "$film" --representation "$1" --us-per-frame 800000 --range 20:20.85 --output "$OUT/$1.png"
    picture "$OUT/$1.png" "$2"
}
show mdes "mdes: the last polarity in each of ten windows, each half as long as the one before; brighter is more recent."
show mdes_count "mdes_count: the number of events in the same windows; the color shows the shortest window with an event at the pixel."
show tencode "tencode: red where the last event was positive, blue where it was negative; greener is older."
show voxel_grid "voxel_grid: polarity distributed over five time bins; the color shows the time, the brightness the sum."
show time_surface "time_surface: exponential decay since each pixel's last event."
show event_diff "event_diff: positive events minus negative ones."
