# shellcheck shell=bash
film=$(clip vtest.avi synthetic:768x576@300)

section "Live video as sparse differences" \
    "Sender and viewer in one program, over loopback: what the viewer rebuilt, with its figures in the corner. Only bytes that
changed by more than the threshold are sent, as a mask and their changes, compressed."
run cusight-diffstream demo "$film" --unpaced --max-frames 250 --overlay --record "$OUT/diffstream.$ENDING"
video "$OUT/diffstream.$ENDING" "The viewer's picture."

run cusight-diffstream demo "$film" --unpaced --max-frames 100 --threshold 0
figure "note" "Threshold 0: the viewer's picture is that of the camera, bit for bit."
