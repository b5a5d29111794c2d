# shellcheck shell=bash
film=$(clip vtest.avi synthetic:768x576@300)

section "Frames from an event camera" \
    "Each pixel of an event camera reports changes of its brightness independently, within microseconds. Here the events are
generated from a video, so that no such camera is needed; recordings (M3ED, DSEC, Prophesee RAW and DAT, CSV) work the same
way. Amber means brighter, azure means darker."
# Generated once and saved as a recording if this build has HDF5.
if run "Events from the film" cusight-events "$film" --range 0:10 --checksum --save-events "$WORK/events.h5" && [ -s "$WORK/events.h5" ]; then
    film=$WORK/events.h5
    run "What the recording contains" cusight-events info "$film"
fi
run "histogram: 0.4 s of events, every 0.1 s" cusight-events "$film" --representation histogram --us-per-frame 400000 --stride 100000 --range 0:9.9 \
    --output "$OUT/histogram.$ENDING"
video "$OUT/histogram.$ENDING" "Walking people as amber and azure shapes on black." "histogram: the events of the last 0.4 s, by polarity." 5

run "The same frames, without writing a video" cusight-events "$film" --representation histogram --us-per-frame 400000 --stride 100000 --range 0:9.9 --checksum

run "stacked_histogram: 1.2 s of events, every 0.1 s" cusight-events "$film" --representation stacked_histogram --us-per-frame 1200000 --stride 100000 \
    --range 0:9.9 --output "$OUT/trails.$ENDING"
video "$OUT/trails.$ENDING" "Walking people on black, each with a trail in the colors of the rainbow." \
    "stacked_histogram: the last 1.2 s in time bins, from blue (old) to red (new)." 5

show() {
    run "$1: 0.8 s of events" cusight-events "$film" --representation "$1" --us-per-frame 800000 --range 9:9.8 --output "$OUT/$1.png"
    picture "$OUT/$1.png" "$2" "$1: $3"
}
show mdes "People as amber and azure shapes that fade behind them." \
    "the last polarity in each of ten windows, each half as long as the one before; brighter is more recent."
show mdes_count "People as shapes from blue through green to red." \
    "the number of events in the same windows; the color shows the shortest window with an event at the pixel."
show tencode "People as shapes of red, yellow and blue." \
    "red where the last event was positive, blue where it was negative; greener is older."
show voxel_grid "People as shapes in the colors of the rainbow." \
    "polarity distributed over five time bins; the color shows the time, the brightness the sum."
show time_surface "People as sharp amber and azure shapes." "exponential decay since each pixel's last event."
show event_diff "Each person twice: azure where they are, amber where they were." "positive events minus negative ones."
