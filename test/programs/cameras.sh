#!/usr/bin/env bash
# cusight-heatmap --report with cameras of the network that stall, break, return and change their size, and where videos are decoded.
# Arguments: the build folder, the source folder.
# shellcheck source=SCRIPTDIR/support.sh
. "$(dirname "$0")/support.sh"
need_programs

# Clips of so many frames; those to a pipe do not tell how long they are, so that they are live.
clip() { "$bin/cusight-heatmap" "synthetic:$1" --view motion --device cpu --headless --output "$2" >said 2>&1 || die "no clip: $(cat said)"; }
clip 160x120@60 file.mp4
clip 128x96@45 other.mp4
live() { "$bin/cusight-heatmap" "synthetic:$1" --no-legend --device cpu --headless --output "-.mkv" "${@:3}" >"$2" 2>said || die "no clip: $(cat said)"; }
live 160x120@40 small.mkv
live 96x64@40 tiny.mkv
live 320x240@150 long.mkv --codec ffv1 # megabytes: a server cannot send it ahead

# A server of cameras. PATH is a list of what happens at each connection: small.mkv:20000 sends so many bytes, and closes; hold:3 sends
# nothing more for 3 s; gone is not found. Writes to its log what it has done, and when.
cat >server.py <<'PYTHON'
import http.server, sys, threading, time
served, lock, start = {}, threading.Lock(), time.monotonic()
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with lock:
            turn = served[self.path] = served.get(self.path, -1) + 1
        plans = self.path[1:].split(",")
        if turn >= len(plans) or plans[turn] == "gone":
            return self.send_error(404)
        self.send_response(200)
        self.end_headers()
        try:
            for step in plans[turn].split("+"):
                name, _, number = step.partition(":")
                if name == "hold":
                    time.sleep(float(number))
                else:
                    content = open(name, "rb").read()
                    self.wfile.write(content[:int(number)] if number else content)
            self.log_message("sent %s", plans[turn])
        except OSError:
            pass
    def log_message(self, words, *values):
        print(f"{time.monotonic() - start:.3f}", words % values, flush=True)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
open("port", "w").write(str(server.server_port))
server.serve_forever()
PYTHON
python3 server.py >log 2>&1 &
server=$!
at_end() { kill "$server" 2>/dev/null; }
awaited test -s port || die "no server: $(cat log)"
at=http://127.0.0.1:$(cat port)

# report CODE TEXT INPUT...: with the report in report.json.
report() { says "$1" "$2" "$bin/cusight-heatmap" "${@:3}" --report report.json --min-frames 4 --device cpu; }
holds() { # EXPRESSION: of the reported inputs
    python3 -c "import json, sys
i = json.load(open('report.json'))['inputs']
sys.exit(not ($1))" || fail "not so: $1 of $(cut -c -1500 report.json)"
}
report 0 "file.mp4: 60 frames" file.mp4
python3 -c 'import json; print(json.load(open("report.json"))["inputs"][0])' >alone

echo "-- a camera that stalls disturbs no other"
report 3 "other.mp4: 45 frames" file.mp4 "$at/small.mkv:20000+hold:10" other.mp4 "$at/long.mkv" --reconnect 1
python3 -c 'import json; print(json.load(open("report.json"))["inputs"][0])' | cmp - alone || fail "beside a camera that stalls, a file is reported otherwise"
holds "i[3]['frames'] == 150 and 'stopped after 150 frames' in i[3]['error']"
holds "0 < i[1]['frames'] < 40 and 'lost' not in i[1]"
awk '/sent long/ { long = $1 } /sent small/ { stalled = $1 } END { exit !(long && stalled && long < stalled - 1) }' log ||
    fail "the others waited for the camera that stalled: $(cat log)"

echo "-- cameras that return"
report 3 "; lost 1 times, for " "$at/small.mkv:20000,small.mkv" file.mp4 --reconnect 4
grep -q "is back after [0-9.]* s" said || fail "a camera that is back is not told: $(cat said)"
holds "i[0]['frames'] > 40 and len(i[0]['lost']) == 1 and 'stopped after' in i[0]['lost'][0]['reason']"
holds "i[0]['lost'][0]['t'] > 0 and 0.4 < i[0]['lost'][0]['seconds'] < 30"
python3 -c 'import json; print(json.load(open("report.json"))["inputs"][1])' | cmp - alone || fail "beside a camera that returns, a file is reported otherwise"
# It comes back with another size: a detector of its own, tracks of their own.
report 3 "; lost 1 times, for " "$at/small.mkv,tiny.mkv" file.mp4 --reconnect 4
holds "i[0]['frames'] == 80 and 'lost' not in i[1] and i[1]['frames'] == 60"
holds "len({t['id'] for t in i[0]['things']}) == len(i[0]['things'])"
# One that is not there yet.
report 3 "404 Not Found" "$at/gone" file.mp4
report 3 "file.mp4: 60 frames" "$at/gone,small.mkv" file.mp4 --reconnect 4
holds "i[0]['frames'] == 40 and 'lost' not in i[0]"
report 3 "file.mp4: 60 frames" "$at/small.mkv" file.mp4
holds "i[0]['frames'] == 40 and 'stopped after 40 frames' in i[0]['error'] and 'lost' not in i[0]"

echo "-- forty inputs"
inputs=()
for ((i = 0; i < 20; ++i)); do inputs+=(file.mp4 other.mp4); done
report 0 "40 inputs, 0 of which failed" "${inputs[@]}"
holds "len(i) == 40 and all(a == i[k % 2] for k, a in enumerate(i)) and str(i[0]) + '\n' == open('alone').read()"

echo "-- Ctrl-C while a camera stalls"
"$bin/cusight-heatmap" file.mp4 "$at/small.mkv:20000+hold:20" --report report.json --device cpu >said 2>&1 &
pid=$!
awaited grep -q "hold:20 HTTP" log
end_with INT $pid
[ $code = 130 ] || fail "Ctrl-C while a camera stalls: exit code $code: $(cat said)"

echo "-- where videos are decoded"
says 2 "--decoder is 'gpu', expected auto|cpu|cuda" "$bin/cusight-heatmap" file.mp4 --decoder gpu
report 0 "60 frames" file.mp4 --decoder cpu
! grep -q "decoded on the CPU" said || fail "--decoder cpu explains itself: $(cat said)"
if [ ! -e /dev/nvidiactl ]; then # the CPU's decoder takes over, and says why
    report 0 "file.mp4: decoded on the CPU: " file.mp4 other.mp4 --decoder cuda
    [ "$(grep -c "decoded on the CPU: " said)" = 2 ] || fail "two inputs are decoded on the CPU: $(cat said)"
    python3 -c 'import json; print(json.load(open("report.json"))["inputs"][0])' | cmp - alone || fail "--decoder cuda without a GPU changes the report"
    clip 96x64@3 raw.y4m
    report 0 "raw.y4m: decoded on the CPU: this libavcodec has no decoder on the GPU for rawvideo" raw.y4m --decoder cuda
fi

# Stand-ins for the driver and its decoder, whose functions do nothing: libavcodec tries them, and is refused where each says so.
if [ ! -e /dev/nvidiactl ] && grep -q libcuda.so.1 "$bin/cusight-heatmap" && command -v cc strings ldd >/dev/null; then
    libraries=$(ldd "$bin/cusight-heatmap" | awk '/libav(util|codec)/ { print $3 }')
    # shellcheck disable=SC2086
    strings $libraries | grep -xE 'cu(vid)?[A-Z][A-Za-z0-9_]*' | sort -u >names
    does() { sed -E "/^$2\$/!d; s/.*/int &(void) { return 0; }/" names | sed "/ \($1\)(/d"; } # all of them but those that do more
    {
        does "cuDevicePrimaryCtxRetain\\|cuGetErrorName\\|cuGetErrorString\\|cuDeviceGetAttribute\\|cuMemcpy2DAsync_v2" 'cu[A-Z].*'
        echo 'int cuMemcpy2DAsync_v2(void) { return 2; }
            int cuDeviceGetAttribute(int *value) { return *value = 512, 0; }
            int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)16; return device; }
            int cuGetErrorName(int error, const char **words) { *words = "CUDA_ERROR_OUT_OF_MEMORY"; return 0 * error; }
            int cuGetErrorString(int error, const char **words) { *words = "out of memory"; return 0 * error; }'
    } >cuda.c
    {
        does "cuvidCreateDecoder\\|cuvidGetDecoderCaps\\|cuvidMapVideoFrame64" 'cuvid[A-Z].*'
        echo 'int cuvidMapVideoFrame64(void *decoder, int i, unsigned long long *at, unsigned *pitch) { return *at = 4096, *pitch = 1, 0; }
            int cuvidCreateDecoder(void) { return 2; } /* CUDA_ERROR_OUT_OF_MEMORY */
            struct caps { int in[6]; unsigned char supported, engines; unsigned short formats; unsigned width, height, blocks; };
            int cuvidGetDecoderCaps(struct caps *caps) { caps->supported = 1; caps->width = caps->height = 8192; caps->blocks = 1 << 30; return 0; }'
    } >cuvid.c
    mkdir driver
    logged cc.log cc -shared -fPIC -w -o driver/libcuda.so.1 cuda.c
    for why in "Cannot load libnvcuvid.so.1" "CUDA_ERROR_OUT_OF_MEMORY: out of memory"; do # no NVDEC; no session left
        LD_LIBRARY_PATH=$PWD/driver report 0 "$why" file.mp4 --decoder cuda
        grep -q "file.mp4: decoded on the CPU: the GPU does not take h264 .*160 x 120: .*$why" said || fail "why the GPU does not decode: $(cat said)"
        python3 -c 'import json; print(json.load(open("report.json"))["inputs"][0])' | cmp - alone || fail "the CPU's decoder begins late: $why"
        logged cc.log cc -shared -fPIC -w -o driver/libnvcuvid.so.1 cuvid.c
    done
    # Of these it would make other pictures than the CPU. JPEGs in gray, whose blocks are two zero bits: 8 bits are a unit of 4:2:2, 12 of 4:2:0.
    python3 - <<'PYTHON'
def jpeg(width, height, rows):
    def part(kind, *data):
        return bytes([0xff, kind, 0, len(data) + 2, *data])
    table = [1] + 15 * [0] + [0]
    units = -(-width // 16) * -(-height // (8 * rows))
    return (b"\xff\xd8" + part(0xdb, 0, *64 * [1]) + part(0xc0, 8, *height.to_bytes(2, "big"), *width.to_bytes(2, "big"), 3, 1, 32 + rows, 0, 2, 17, 0, 3, 17, 0)
            + part(0xc4, 0, *table, 16, *table) + part(0xda, 3, 1, 0, 2, 0, 3, 0, 0, 63, 0) + bytes(-(-units * (2 + 2 * rows) * 2 // 8)) + b"\xff\xd9")
for name, *size in ("even", 160, 120, 2), ("odd", 161, 120, 2), ("422", 160, 120, 1):
    open(name + ".mjpeg", "wb").write(5 * jpeg(*size))
PYTHON
    for name in even odd 422; do
        case $name in odd) why="it decodes odd sizes in another way" ;; 422) why="of 4:2:2 it drops every other row of chroma" ;; *) why="CUDA_ERROR_OUT_OF_MEMORY" ;; esac
        LD_LIBRARY_PATH=$PWD/driver report 0 "$name.mjpeg: decoded on the CPU: the GPU does not take mjpeg " $name.mjpeg --decoder cuda
        grep -q ": .*$why" said || fail "why the GPU does not decode $name.mjpeg: $(cat said)"
        holds "i[0]['frames'] == 5 and not i[0].get('damaged')"
    done
    # A decoder that works, of whose memory nothing can be fetched: that input ends, and no other.
    sed -i 's/cuvidCreateDecoder(void) { return 2; }/cuvidCreateDecoder(void **decoder) { *decoder = (void *)16; return 0; }/' cuvid.c
    logged cc.log cc -shared -fPIC -w -o driver/libnvcuvid.so.1 cuvid.c
    rm report.json
    LD_LIBRARY_PATH=$PWD/driver report 1 "file.mp4: 0 frames" file.mp4 raw.y4m --decoder cuda
    holds "'cannot be fetched from the GPU' in i[0]['error'] and i[1]['frames'] == 3 and 'error' not in i[1]"
fi
finish
