# shellcheck shell=bash
film=$(clip vtest.avi synthetic:768x576@300)

section "Live video as sparse differences" \
    "Sender and viewer in one program, over loopback: what the viewer reconstructed, with its statistics in the corner. Only the
bytes that changed by more than the threshold are sent: a mask and the changes, compressed."
run "Every frame, as fast as the viewer records" cusight-diffstream demo "$film" --unpaced --frames 250 --overlay --output "$OUT/diffstream.$ENDING"
video "$OUT/diffstream.$ENDING" "People walk across a courtyard; numbers in the corner." "The viewer's picture." 5

run "Threshold 0: the viewer's picture equals the camera's bit for bit" cusight-diffstream demo "$film" --unpaced --frames 100 --threshold 0
note_below "Without --output, a viewer that is slower than the sender gets several frames as one difference; a recording has all of them."

# The same page that --web serves, with a session of 60 frames: about 4 MB.
if "$BIN/cusight-diffstream" send "$film" --device "$DEVICE" --unpaced --frames 60 --bind 127.0.0.1:0 --save-wire "$WORK/session.cusd" >"$WORK/session.log" 2>&1 &&
    "$BIN/cusight-diffstream" page "$WORK/session.cusd" "$OUT/session" 2>>"$WORK/session.log"; then
    link "$OUT/session/index.html" "Watch a recorded session in this browser" "decoded by the library's own code compiled to WebAssembly, as with cusight-diffstream send --web"
else
    note_below "No recorded session: $(tail -n 1 "$WORK/session.log")"
fi
