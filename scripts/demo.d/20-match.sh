# shellcheck shell=bash
section "Finding a picture in a picture" \
    "The result is exactly that of brute force: FFT correlation finds the candidates, and those that could be the best within
the FFT's error are computed again in integers. The score is written at each green rectangle."
if [ -e "$DATA/pic1.png" ] && [ -e "$DATA/templ.png" ]; then
    run cusight-match "$DATA/pic1.png" --template "$DATA/templ.png" --output "$OUT/pic1.png"
    picture "$OUT/pic1.png" "templ.png in pic1.png, by the smallest sum of squared differences."
fi
if [ -e "$DATA/box_in_scene.png" ] && [ -e "$DATA/box.png" ]; then
    run cusight-match "$DATA/box_in_scene.png" --template "$DATA/box.png" --method ccoeff-normed --output "$OUT/box.png"
    picture "$OUT/box.png" "box.png in box_in_scene.png, where the box is smaller and rotated: nothing correlates with it, hence the low score."
fi
if [ -e "$DATA/smarties.png" ]; then
    run cusight-match "$DATA/smarties.png" --roi 319,209,58,58 --method ccoeff-normed --top-k 8 --limit 0.6 \
        --hsv-lower 95,90,60 --hsv-upper 130,255,255 --min-fill 0.4 --output "$OUT/smarties.png"
    picture "$OUT/smarties.png" "One blue candy, cut out of the picture, finds the others. The labels are the correlation and the share of blue pixels."
fi

section "Filled or empty, live on the belt" \
    "A generated video of soap capsules on a conveyor belt. The template is one capsule, with a mask that excludes its inside;
the color inside each match then tells filled (green) from empty (red)."
run cusight-belt "$OUT" --frames 200 --output "$OUT/belt.avi"
run cusight-match "$OUT/belt.avi" --template "$OUT/capsule.png" --mask "$OUT/capsule-mask.png" --top-k 4 --limit 15 \
    --hsv-lower 100,120,60 --hsv-upper 130,255,255 --min-fill 0.2 --save-matches "$OUT/matches.csv" --output "$OUT/inspected.$ENDING"
video "$OUT/inspected.$ENDING" "Score and share of blue of every capsule that is completely in the picture."
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
' "$OUT/truth.csv" "$OUT/matches.csv")
figure "ground truth" "$verdict"
capsules=$(($(wc -l <"$OUT/truth.csv") - 1))
[ "$verdict" = "$capsules of $capsules capsules found, $capsules classified correctly, 0 false positives" ] ||
    { echo "The matches differ from the ground truth: $verdict" >&2; false; }
