#!/usr/bin/env bash
# The sample programs from the command line: options and versions of all, and of cusight-heatmap exit codes, messages, views, no
# display. many_devices.sh and outputs.sh: Ctrl-C, full disks, inputs that end early; window.sh: windows.
set -uo pipefail
# shellcheck source=test/programs/support.sh
. "$2/test/programs/support.sh"
need_programs
program=$bin/cusight-heatmap
# expect CODE TEXT ARGUMENT...: the program exits with CODE and prints TEXT on either stream.
expect() { says "$1" "$2" "$program" "${@:3}"; }

# Every program explains itself and its exit codes, and says what it was built with.
for each in belt contour diffstream events heatmap info match; do
    program=$bin/cusight-$each
    expect 0 "Exit codes" --help
    expect 0 "(cusight " --version
    grep -qx "cusight-$each [0-9.]* (cusight [0-9.]*, CUDA \(yes\|no\))" said || fail "--version of $each: $(cat said)"
    expect 2 "unknown option --nonsense" --nonsense
done
program=$bin/cusight-info
expect 0 "Build type: "
for name in cusight Compiler Processor OpenCV system cpu driver; do
    grep -q "^$name: ." said || fail "cusight-info says no $name: $(cat said)"
done
expect 0 '"build_type":"' --json
program=$bin/cusight-heatmap
expect 0 "Exit codes" -h
expect 2 "INPUT is required"
expect 2 "--view is 'x', expected heatmap|noise|side" clip.avi --view x
expect 3 "missing.avi: No such file" missing.avi
expect 5 "--device cuda:99" synthetic:64x64@3 --device cuda:99
expect 4 "No such file or directory" synthetic:64x64@3 --device cpu --headless --output no/folder/a.mp4

# Every view, and the results that scripts read.
for view in heatmap noise side; do
    expect 0 "frames: 5" synthetic:64x48@5 --device cpu --headless --view $view --output $view.png
done
expect 0 "frames: 1" side.png --device cpu --headless --output x.png
grep -q "side.png, 128 x 48" said || fail "side.png is read back as: $(cat said)"
expect 0 "frames: 3" synthetic:64x48@5 --device cpu --headless --frames 3 --output x.avi
expect 0 "changed: 0.000 %" x.png --device cpu --headless --output y.png

# Without a display, a file and a line that says so. The same if the display does not respond.
expect 0 "no display (neither DISPLAY nor WAYLAND_DISPLAY is set): writing heatmap.mp4" synthetic:64x48@5 --device cpu
[ "$(frames_in heatmap.mp4)" = 5 ] || fail "heatmap.mp4 was not written"

# Names of outputs: all endings that work are listed, and each of them works.
expect 2 "--output is 'x.gif', expected a name that ends in .mp4 .mkv .mov .webm .avi .y4m .png .jpg" synthetic:64x48@2 --device cpu --headless --output x.gif
for ending in $(sed -n 's/.*ends in \(.*\) or \/.*/\1/p' said); do
    expect 0 "output: x$ending" synthetic:64x48@2 --device cpu --headless --output "x$ending"
done
program=$bin/cusight-events
expect 2 "expected NAME.raw or NAME.h5 for the frames themselves, or a name that ends in .mp4" synthetic:64x48@2 --device cpu --headless --output x.gif
program=$bin/cusight-heatmap

# Why a camera or a URL cannot be opened.
expect 3 "camera 997 cannot be opened: there is no /dev/video997" 997 --headless
expect 3 "cannot be opened: Connection refused" http://127.0.0.1:1/x.mp4 --headless
expect 3 "cannot be opened: Connection refused" "rtsp://user@[::1]:1/x" --headless
expect 3 "cannot be opened: Failed to resolve hostname nowhere.invalid" rtsp://nowhere.invalid/x --headless
python3 -c 'import http.server
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
print(server.server_port, file=open("port.new", "w"))
import os; os.rename("port.new", "port")
server.serve_forever()' 2>/dev/null &
server=$!
awaited test -s port
expect 3 "cannot be opened: Server returned 404 Not Found" "http://127.0.0.1:$(cat port)/none.mp4" --headless
expect 3 "cannot be opened: it is not recognized as a video" "http://127.0.0.1:$(cat port)/port" --headless
# A file that comes from a server ends as a file does, and one that is cut off as such a file.
expect 0 "frames: 2" "http://127.0.0.1:$(cat port)/x.avi" --device cpu --headless
"$program" synthetic:64x48@50 --device cpu --headless --output long.avi >/dev/null
head -c $(($(stat -c %s long.avi) / 2)) long.avi >cut.avi
expect 3 "ends early" "http://127.0.0.1:$(cat port)/cut.avi" --device cpu --headless
kill $server
wait $server 2>/dev/null
# Servers that ignore requests for ranges, claim to know them, or refuse them: a video whose index is at its end is copied.
cat >server.py <<'SERVER'
import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        kind, name = self.path.split("/")[1:]
        refused = kind == "refuses" and "Range" in self.headers
        self.send_response(416 if refused else 200)
        if kind == "claims":
            self.send_header("Accept-Ranges", "bytes")
        content = b"" if refused else open(name, "rb").read()
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, file=open("port.new", "w"))
os.rename("port.new", "ranges.port")
server.serve_forever()
SERVER
python3 server.py 2>/dev/null &
server=$!
for video in large.mp4 large.mkv; do
    expect 0 "frames: 50" synthetic:640x480@50 --device cpu --headless --codec mpeg4 --crf 2 --output $video
done
awaited test -s ranges.port
for kind in ignores claims refuses; do
    for video in large.mp4 large.mkv; do
        expect 0 "frames: 50" "http://127.0.0.1:$(cat ranges.port)/$kind/$video" --device cpu --headless
        case $kind-$video in *.mp4) grep -q "copied to a temporary file" said || fail "$kind: a copy is not said: $(cat said)" ;; esac
    done
done
kill $server
wait $server 2>/dev/null
rm heatmap*.mp4
DISPLAY=:4711 expect 0 "the display cannot be used: writing heatmap.mp4" synthetic:64x48@5 --device cpu
finish
