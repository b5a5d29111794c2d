#!/usr/bin/env bash
# A page of cusight-diffstream in headless Chromium, or in firefox if CUSIGHT_TEST_BROWSER says so: bit-exact pictures, late and slow
# viewers, a lost connection, many tabs, wrong tokens and origins, a session without a server. Skipped where there is no browser or no --web.
set -u
build=$1 source=$2
program=$build/bin/cusight-diffstream
[ -x "$program" ] || { echo "built without programs: skipped"; exit 77; }
if why=$("$program" send synthetic:64x48@2 --bind 127.0.0.1:0 --web 0 2>&1 | grep "not available"); then
    echo "$why: skipped"
    exit 77
fi
# Debian's package belongs to Debian's interpreter, which need not be the first in PATH.
for python in python3 /usr/bin/python3 ""; do
    [ -n "$python" ] || { echo "no python3-websockets: skipped"; exit 77; }
    ! "$python" -c 'import websockets' 2> /dev/null || break
done
export OMP_NUM_THREADS=1 # many processes share the cores here
"$python" "$source/test/live/browser.py" "$program" --patience 3 --only "${CUSIGHT_TEST_BROWSER:-chromium}"
