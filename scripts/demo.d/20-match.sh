# shellcheck shell=bash
section "Finding a picture in a picture" \
    "The result is exactly that of brute force: FFT correlation finds the candidates, and those that could be the best within
the FFT's error are computed again in integers. Template matching finds what has the template's size and orientation; if
nothing does, the program says so."
if [ -e "$DATA/pic1.png" ] && [ -e "$DATA/templ.png" ]; then
    run "templ.png in pic1.png" cusight-match "$DATA/pic1.png" --template "$DATA/templ.png" --output "$OUT/pic1.png"
    picture "$OUT/pic1.png" "Black shapes on white; a green rectangle around the one that looks like a face in profile." \
        "templ.png in pic1.png, and the correlation there."
fi
if [ -e "$DATA/smarties.png" ]; then
    run "One blue candy, and those like it" cusight-match "$DATA/smarties.png" --roi 319,209,58,58 --gray --top-k 8 \
        --hsv-lower 95,90,60 --hsv-upper 130,255,255 --output "$OUT/smarties.png"
    picture "$OUT/smarties.png" "Candies on white: green rectangles around the three blue ones, red ones around five others." \
        "One blue candy, cut out of the picture, finds candies of its shape in gray; the color then tells blue (green) from others (red)."
fi
if [ -e "$DATA/box_in_scene.png" ] && [ -e "$DATA/box.png" ]; then
    section "Finding it rotated and smaller" \
        "Every angle and every scale of a grid is searched, at all positions, and the answer is that of brute force over all of them:
poses that cannot be the best are ruled out by proven bounds, and Fourier transforms compute those that are left. Here 180 angles, the full
turn, at 13 scales are 2,340 poses. Angles are degrees, counterclockwise."
    run "box.png in box_in_scene.png" cusight-match "$DATA/box_in_scene.png" --template "$DATA/box.png" --angles -180:178:2 \
        --scales 0.3:0.9:0.05 --limit 0.5 --output "$OUT/box.png"
    cp "$DATA/box.png" "$OUT/template.png"
    picture "$OUT/template.png" "A box of cookies, seen from the front." "What is looked for: box.png, about twice as large as in the scene."
    picture "$OUT/box.png" "Boxes of food and a book; a green rectangle, slightly rotated, around the box of cookies." \
        "Found half behind another box, rotated, smaller and seen from the side. The line shows where its top is."
    run "The same without angles and scales: no match" cusight-match "$DATA/box_in_scene.png" --template "$DATA/box.png" --output "$OUT/upright.png"
    picture "$OUT/upright.png" "The same scene; an orange rectangle around most of it is labeled: no match." \
        "Without angles and scales nothing is found: the best candidate is marked as below the limit."
fi

section "Filled or empty, on a conveyor belt" \
    "A generated video of soap capsules. The template is one capsule, with a mask that excludes its inside;
the color inside each match then tells filled (green) from empty (red). A limit above the default leaves out capsules that the edge cuts off."
run "Generating the video" cusight-belt "$WORK" --overwrite --frames 200 --output "$WORK/belt.avi"
run "Inspecting it" cusight-match "$WORK/belt.avi" --template "$WORK/capsule.png" --mask "$WORK/capsule-mask.png" --top-k 4 --limit 0.95 \
    --hsv-lower 100,120,60 --hsv-upper 130,255,255 --save-matches "$WORK/matches.csv" --output "$OUT/inspected.$ENDING"
video "$OUT/inspected.$ENDING" "Capsules on a moving belt, the filled ones in green rectangles, the empty ones in red ones." \
    "Every capsule that is wholly in the picture, with the share of its pixels that are blue." 3
# The ground truth is known: every capsule must be found within two pixels and classified correctly, and nothing else found.
verdict=$(awk -F, '
    FNR == 1 { next }
    NR == FNR { truth[$1, ++count[$1], "x"] = $2; truth[$1, count[$1], "y"] = $3; truth[$1, count[$1], "f"] = $4; all++; next }
    {
        hit = 0
        for (i = 1; i <= count[$1]; i++)
            if (($4 - truth[$1, i, "x"]) ^ 2 <= 4 && ($5 - truth[$1, i, "y"]) ^ 2 <= 4 && !seen[$1, i]) {
                seen[$1, i] = hit = 1; found++; right += $8 == truth[$1, i, "f"]
            }
        if (!hit) false_positives++
    }
    END { printf "%d of %d capsules found, %d classified correctly, %d false positives", found, all, right, false_positives }
' "$WORK/truth.csv" "$WORK/matches.csv")
note_below "Compared with what the generator drew: $verdict."
capsules=$(($(wc -l <"$WORK/truth.csv") - 1))
[ "$verdict" = "$capsules of $capsules capsules found, $capsules classified correctly, 0 false positives" ] ||
    { echo "The matches differ from the ground truth: $verdict" >&2; false; }
