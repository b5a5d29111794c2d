# shellcheck shell=bash
section "Finding a picture in a picture" \
    "The best match is the brute-force answer: FFT correlation narrows it down, and what may be the best within the FFT's error
is computed again in integers. Beneath each green rectangle stands its score."
if [ -e "$DATA/pic1.png" ] && [ -e "$DATA/templ.png" ]; then
    run cusight-match "$DATA/pic1.png" --template "$DATA/templ.png" --output "$OUT/pic1.png"
    picture "$OUT/pic1.png" "templ.png in pic1.png, smallest sum of squared differences."
fi
if [ -e "$DATA/box_in_scene.png" ] && [ -e "$DATA/box.png" ]; then
    run cusight-match "$DATA/box_in_scene.png" --template "$DATA/box.png" --method ccoeff-normed --output "$OUT/box.png"
    picture "$OUT/box.png" "box.png in box_in_scene.png, where it is smaller and turned: no place correlates with it, and the low score says so."
fi
if [ -e "$DATA/smarties.png" ]; then
    run cusight-match "$DATA/smarties.png" --roi 319,209,58,58 --method ccoeff-normed --top-k 8 --limit 0.6 \
        --hsv-lower 95,90,60 --hsv-upper 130,255,255 --min-fill 0.4 --output "$OUT/smarties.png"
    picture "$OUT/smarties.png" "One blue sweet, cut out of the picture, finds the others; beneath the correlation, the share of blue pixels."
fi

section "Filled or empty, live on the belt" \
    "A made video of soap capsules on a machine's output belt. The template is one capsule, its mask leaves the inside out; the
color inside each match then tells filled (green) from empty (red)."
run cusight-belt "$OUT" --frames 200 --output "$OUT/belt.avi"
run cusight-match "$OUT/belt.avi" --template "$OUT/capsule.png" --mask "$OUT/capsule-mask.png" --top-k 4 --limit 15 \
    --hsv-lower 100,120,60 --hsv-upper 130,255,255 --min-fill 0.2 --csv "$OUT/matches.csv" --output "$OUT/inspected.$ENDING"
video "$OUT/inspected.$ENDING" "Score and share of blue of every capsule that is wholly in the picture."
# The truth is known: every capsule found within two pixels, nothing else found, and each judged right.
verdict=$(awk -F, '
    FNR == 1 { next }
    NR == FNR { truth[$1, ++count[$1], "x"] = $2; truth[$1, count[$1], "y"] = $3; truth[$1, count[$1], "f"] = $4; all++; next }
    {
        hit = 0
        for (i = 1; i <= count[$1]; i++)
            if (($4 - truth[$1, i, "x"]) ^ 2 <= 4 && ($5 - truth[$1, i, "y"]) ^ 2 <= 4 && !seen[$1, i]) {
                seen[$1, i] = hit = 1; found++; right += $8 == truth[$1, i, "f"]
            }
        if (!hit) false_alarms++
    }
    END { printf "%d of %d capsules found, %d judged right, %d false alarms", found, all, right, false_alarms }
' "$OUT/truth.csv" "$OUT/matches.csv")
figure "against the truth" "$verdict"
capsules=$(($(wc -l <"$OUT/truth.csv") - 1))
[ "$verdict" = "$capsules of $capsules capsules found, $capsules judged right, 0 false alarms" ] ||
    { echo "The belt was not judged as it was made: $verdict" >&2; false; }
