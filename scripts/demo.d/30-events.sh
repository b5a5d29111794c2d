# shellcheck shell=bash
film=$(clip vtest.avi synthetic:768x576@300)

section "Frames from an event camera" \
    "An event camera reports each pixel's change of brightness on its own, within microseconds. Here the events are made from
a video, so that all of this can be tried without such a camera: the program takes recordings (M3ED, DSEC, Prophesee RAW and
DAT, text) in the same way. Amber is brighter, azure is darker."
# Made once and saved as a recording, where this build has HDF5.
if run cusight-events "$film" --md5 --save "$OUT/events.h5" && [ -s "$OUT/events.h5" ]; then
    film=$OUT/events.h5
    run cusight-events info "$film"
fi
run cusight-events "$film" --repr histogram --window-us 400000 --stride 100000 --range 0:20 --output "$OUT/histogram.$ENDING"
video "$OUT/histogram.$ENDING" "Events of 0.4 s by polarity, every 0.1 s."

run cusight-events "$film" --repr stacked_histogram --window-us 1200000 --stride 100000 --range 0:20 \
    --output "$OUT/trails.$ENDING"
video "$OUT/trails.$ENDING" "The last 1.2 s in time bins: from blue (old) to red (new)."

show() {
    run cusight-events "$film" --repr "$1" --window-us 800000 --range 20:20.85 --output "$OUT/$1.png"
    picture "$OUT/$1.png" "$2"
}
show mdes "mdes: the last polarity in ten windows, each half as long as the one before; the brighter, the newer."
show mdes_count "mdes_count: events in the same windows; the color is the shortest window that saw the pixel."
show tencode "tencode: red where the last event was positive, blue where negative; the greener, the older."
show voxel_grid "voxel_grid: polarity spread over five time bins; the color is the time, the brightness the sum."
show time_surface "time_surface: exponential decay since each pixel's last event."
show event_diff "event_diff: positive events minus negative ones."
