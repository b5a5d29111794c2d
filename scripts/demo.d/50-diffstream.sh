# shellcheck shell=bash
film=$(clip vtest.avi synthetic:768x576@300)

section "Live video as sparse differences" \
    "Sender and viewer in one program, over loopback: what the viewer reconstructed, with its statistics in the corner. Only the
bytes that changed by more than the threshold are sent: a mask and the changes, compressed."
run "Every frame, as fast as the viewer records" cusight-diffstream demo "$film" --unpaced --frames 250 --overlay --output "$OUT/diffstream.$ENDING"
video "$OUT/diffstream.$ENDING" "People walk across a courtyard; numbers in the corner." "The viewer's picture."

run "Threshold 0: the viewer's picture equals the camera's bit for bit" cusight-diffstream demo "$film" --unpaced --frames 100 --threshold 0
note_below "Without --output, a viewer that is slower than the sender gets several frames as one difference; a recording has all of them."
