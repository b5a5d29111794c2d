# shellcheck shell=bash
section "Contour maps from stereo pairs" \
    "Between two cameras side by side, near objects shift more than far ones. Blue is far, red is near; lines show where the
elevation crosses a level, labeled with its shift."
if [ -f "$DATA/motorcycle_left.png" ] && [ -f "$DATA/motorcycle_right.png" ]; then
    run cusight-contour "$DATA/motorcycle_left.png" "$DATA/motorcycle_right.png" --shifts 64 --output "$OUT/motorcycle.png" \
        --save-lines "$OUT/lines.png" --save-edges "$OUT/edges.png" --save-elevation "$OUT/elevation16.png" --save-cloud "$OUT/cloud.ply"
    picture "$OUT/motorcycle.png" "Elevation and contour lines."
    picture "$OUT/lines.png" "The lines alone. The same folder holds elevation16.png, with 256 per shift, and cloud.ply, the points in space."
    picture "$OUT/edges.png" "Edges of the left image."
fi
if [ -f "$DATA/aloeL.jpg" ] && [ -f "$DATA/aloeR.jpg" ]; then
    run cusight-contour "$DATA/aloeL.jpg" "$DATA/aloeR.jpg" --reduce 2 --shifts 110 --output "$OUT/aloe.png"
    picture "$OUT/aloe.png" "The defaults: census, left-right check, occluded areas filled from the farther side, median filter."
    run cusight-contour "$DATA/aloeL.jpg" "$DATA/aloeR.jpg" --reduce 6 --preset classic --direction left --shifts 40 \
        --output "$OUT/classic.png"
    picture "$OUT/classic.png" "The algorithm as published in 1986, on the pair reduced six times."
else
    skip "there is no stereo pair"
fi
