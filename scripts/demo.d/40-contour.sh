# shellcheck shell=bash
section "Contour maps from stereo pairs" \
    "Between two cameras side by side, near objects shift more than far ones. Blue is far, red is near; lines show where the
elevation crosses a level, labeled with the shift there in pixels."
if [ -f "$DATA/motorcycle_left.png" ] && [ -f "$DATA/motorcycle_right.png" ]; then
    run "Motorcycle pair" cusight-contour "$DATA/motorcycle_left.png" "$DATA/motorcycle_right.png" --output "$OUT/motorcycle.png" \
        --save-lines "$OUT/lines.png" --save-edges "$OUT/edges.png" --save-elevation "$OUT/elevation16.png" --save-cloud "$OUT/cloud.ply"
    picture "$OUT/motorcycle.png" "A motorcycle in yellow and orange before a green and blue wall, with black contour lines." \
        "Elevation and contour lines."
    picture "$OUT/lines.png" "White contour lines on black." \
        "The lines alone. Beside this page are elevation16.png, the elevation in 16 bits (value / 256 - 1 is the shift in pixels; 0 is a \
hole), and cloud.ply, the scene as colored points."
    picture "$OUT/edges.png" "White edges of the motorcycle on black." "Edges of the left image."
fi
if [ -f "$DATA/aloeL.jpg" ] && [ -f "$DATA/aloeR.jpg" ]; then
    run "Aloe pair" cusight-contour "$DATA/aloeL.jpg" "$DATA/aloeR.jpg" --output "$OUT/aloe.png"
    picture "$OUT/aloe.png" "An aloe's leaves in yellow and light green before a darker green cloth, with black contour lines." \
        "With the default options: semi-global matching of census codes, left-right check, speckle filter, occluded areas filled from the \
farther side, median filter."
fi
python3 scripts/demo.d/scenes.py "$WORK"
for preset in smooth best; do
    how="semi-global matching: lines to a pixel decide, too"
    [ $preset = best ] || how="--stereo-preset smooth: a window around each pixel decides"
    for scene in plane fence; do
        run "A $scene, $preset" cusight-contour "$WORK/${scene}_left.pgm" "$WORK/${scene}_right.pgm" --stereo-preset $preset \
            --shifts 64 --output "$OUT/$scene-$preset.png"
    done
    picture "$OUT/plane-$preset.png" "A surface that turns from blue at the left to red at the right, with slanted contour lines." \
        "A photograph on a slanted plane, by $how."
    picture "$OUT/fence-$preset.png" "Thin upright posts in orange or red before a blue wall." "A fence of posts of 8 pixels before a wall, by $how."
done
