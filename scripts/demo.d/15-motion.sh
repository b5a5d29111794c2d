# shellcheck shell=bash
film=$(clip vtest.avi synthetic:768x576@300)

section "What moves in a video" \
    "The background is learned as a running average; what differs from it becomes boxes, and boxes of successive frames become
tracks. Everything is computed in integers, so CPU and GPU give the same boxes. A report says what moved, where, and from when to when."
run "Boxes and paths of moving people" cusight-heatmap "$film" --view motion --frames 400 --report "$OUT/motion.json" --output "$OUT/motion.$ENDING"
video "$OUT/motion.$ENDING" "People walk across a courtyard, each in a colored box that draws a line behind it." \
    "Boxes, numbers and paths of what moves. Where somebody has stood for long, a box may stay behind for a while." 9

run "One frame" cusight-heatmap "$film" --view motion --frames 250 --output "$OUT/frame.png"
picture "$OUT/frame.png" "A courtyard with colored boxes around seven walking people, and the lines they have come along." \
    "The 250th frame."

run "Only the street at the upper right, as CSV" cusight-heatmap "$film" --region 440,60,328,200 --frames 250 --report "$OUT/street.csv"
