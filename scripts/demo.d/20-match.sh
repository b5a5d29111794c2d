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
    run "box.png in box_in_scene.png, where it is smaller and rotated" cusight-match "$DATA/box_in_scene.png" \
        --template "$DATA/box.png" --output "$OUT/box.png"
    picture "$OUT/box.png" "Boxes of food; an orange rectangle around most of the picture is labeled: no match." \
        "Nothing has the template's size and orientation: the best candidate is marked as below the limit."
fi

section "Filled or empty, on a conveyor belt" \
    "A generated video of soap capsules. The template is one capsule, with a mask that excludes its inside;
the color inside each match then tells filled (green) from empty (red). A limit above the default leaves out capsules that the edge cuts off."
run "Generating the video" cusight-belt "$WORK" --frames 200 --output "$WORK/belt.avi"
run "Inspecting it" cusight-match "$WORK/belt.avi" --template "$WORK/capsule.png" --mask "$WORK/capsule-mask.png" --top-k 4 --limit 0.95 \
    --hsv-lower 100,120,60 --hsv-upper 130,255,255 --save-matches "$WORK/matches.csv" --output "$OUT/inspected.$ENDING"
video "$OUT/inspected.$ENDING" "Capsules on a moving belt, the filled ones in green rectangles, the empty ones in red ones." \
    "Every capsule that is wholly in the picture, with the share of its pixels that are blue."
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
