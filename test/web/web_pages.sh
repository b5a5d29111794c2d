#!/usr/bin/env bash
# The pages that show the library, in headless Chromium, or in firefox if CUSIGHT_TEST_BROWSER says so: golden rows, files, the keyboard
# alone, axe, requests, the policy.
set -u
build=$1 source=$2
[ -e "$build/web/pages/golden/golden.wasm" ] || { echo "built without the library for browsers, or without libc++ for its golden rows: skipped"; exit 77; }
# Debian's package belongs to Debian's interpreter, which need not be the first in PATH.
for python in python3 /usr/bin/python3 ""; do
    [ -n "$python" ] || { echo "no python3-websockets: skipped"; exit 77; }
    ! "$python" -c 'import websockets' 2> /dev/null || break
done
"$python" "$source/test/web/pages.py" "$build/web/pages" "$source/fuzz/seeds/eventio" --axe "${CUSIGHT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/cusight}/axe/axe.min.js" \
    --only "${CUSIGHT_TEST_BROWSER:-chromium}"
