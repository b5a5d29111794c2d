# shellcheck shell=bash
section "In this browser" \
    "The library itself, compiled to WebAssembly: heatmap and motion of your camera or video, parts of pictures, event recordings, differences
of pictures, and a check that this browser gives the same bits as every other machine."
[ -e build/web/pages/index.html ] || skip "this build has no library for browsers"
rm -rf out/try
cp -r build/web/pages out/try
link out/try/index.html "Try it on your own files" "pages with modules need a server: python3 -m http.server -d out, then http://127.0.0.1:8000/try/"
