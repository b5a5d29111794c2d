# shellcheck shell=bash
section "Contour maps from stereo pairs" \
    "Two cameras side by side see near things shifted more. Blue is far, red is near; a line is drawn where the elevation
crosses a level, with its shift beside it."
if [ -f "$DATA/motorcycle_left.png" ] && [ -f "$DATA/motorcycle_right.png" ]; then
    run cusight-contour "$DATA/motorcycle_left.png" "$DATA/motorcycle_right.png" --shifts 64 --output "$OUT/motorcycle.png" \
        --lines-file "$OUT/lines.png" --edges-file "$OUT/edges.png" --elevation "$OUT/elevation16.png" --cloud "$OUT/cloud.ply"
    picture "$OUT/motorcycle.png" "Elevation and contour lines."
    picture "$OUT/lines.png" "The lines alone. Beside it lie elevation16.png, 256 to a shift, and cloud.ply, the points in space."
    picture "$OUT/edges.png" "Edges of the left image."
fi
if [ -f "$DATA/aloeL.jpg" ] && [ -f "$DATA/aloeR.jpg" ]; then
    run cusight-contour "$DATA/aloeL.jpg" "$DATA/aloeR.jpg" --reduce 2 --shifts 110 --output "$OUT/aloe.png"
    picture "$OUT/aloe.png" "The defaults: signs, left-right check, hidden areas filled from the farther side, median."
    run cusight-contour "$DATA/aloeL.jpg" "$DATA/aloeR.jpg" --reduce 6 --preset classic --direction left --shifts 40 \
        --output "$OUT/classic.png"
    picture "$OUT/classic.png" "The algorithm as published in 1986, on the pair made six times smaller."
else
    skip "no stereo pair was found"
fi
