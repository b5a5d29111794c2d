#!/usr/bin/env bash
# The first minutes of a new user: in a fresh copy of the sources, scripts/demo, and then each command of README.md, as printed. The
# page out/index.html shows commands that scripts/demo has run. A command whose comment says what it needs ("needs a camera") is skipped
# by name where that is missing. The film is a generated one of ten seconds, since all of the real one takes minutes.
# Arguments: build folder, source folder.
set -euo pipefail
. "$(dirname "$0")/../programs/support.sh"
. "$source/scripts/common.sh"
shopt -s extglob
need_programs
[ -e "${CUSIGHT_TEST_DATA:-}/templ.png" ] || { echo "skipped: CUSIGHT_TEST_DATA is not set, or has no templ.png"; exit 77; }

copy_sources sources
mkdir -p home/data
for file in "$CUSIGHT_TEST_DATA"/*.png "$CUSIGHT_TEST_DATA"/*.jpg; do ln -s "$file" home/data; done
touch home/data/.opencv-doc home/data/.python3-skimage # nothing is fetched
ln -s "$(option CUSIGHT_ZSTD_SOURCE)" home/zstd
[ ! -e "$cache/unavailable-packages" ] || cp -p "$cache/unavailable-packages" home
"$bin/cusight-diffstream" demo synthetic:768x576@100 --fps 10 --unpaced --threshold 0 --device cpu --headless --quiet --output home/data/vtest.avi

export CUSIGHT_CACHE=$work/home CCACHE_BASEDIR=$work/sources
# With the flags of this build, whose objects ccache has.
export CMAKE_ARGS="-DCUSIGHT_WERROR=$(option CUSIGHT_WERROR)"
[ "$(option CUSIGHT_CUDA)" != OFF ] || CMAKE_ARGS+=" -DCUSIGHT_CUDA=OFF" # otherwise the demo builds it where there is a GPU
cd sources
ran=0 again='' unmade=() # what skipped commands would have made
skipped() { # COMMAND REASON
    echo "skipped: $1: $2"
    [[ ! $1 =~ --output\ ([^ ]+) ]] || unmade+=("${BASH_REMATCH[1]}")
}
# try FROM COMMAND [COMMENT]
try() {
    local command=$2 comment=${3:-} code=0 limit=1500 file begin=$SECONDS
    for file in "${unmade[@]}"; do
        [[ $command != *"$file"* ]] || { skipped "$command" "takes $file"; return; }
    done
    case $comment in
    *"a camera"*)
        [ -e /dev/video0 ] || { skipped "$command" "there is no camera"; return; }
        limit=20 ;;& # a camera has no end
    *"a GPU for itself"*) skipped "$command" "other tests may use the GPU"; return ;;
    *"a GPU"*) nvidia-smi >/dev/null 2>&1 || { skipped "$command" "there is no GPU"; return; } ;;
    *"needs a browser"*) [[ $(build/bin/cusight-diffstream send --help) == *"--web "* ]] || { skipped "$command" "built without --web"; return; } ;;
    esac
    ran=$((ran + 1))
    if [[ $comment =~ (http://[0-9.:]*) ]]; then
        serves "$command" "${BASH_REMATCH[1]}" || code=$?
    else
        timeout -s INT $limit bash -c "$command" >"$work/log" 2>&1 </dev/null || code=$?
        [ $code$limit != 12420 ] || code=0
    fi
    [ $code = 0 ] || fail "$1: '$command' ended with $code: $(tail -n 20 "$work/log")"
    echo "$1, $((SECONDS - begin)) s: $command"
}
# serves COMMAND ADDRESS: a page is there, until Ctrl-C.
serves() {
    $1 >"$work/log" 2>&1 </dev/null &
    local pid=$!
    python3 - "$2" <<'END' || { kill $pid; return 1; }
import sys, time, urllib.request
for attempt in range(60):
    try:
        sys.exit(b"<html" not in urllib.request.urlopen(sys.argv[1], timeout=10).read())
    except OSError:
        time.sleep(0.5)
sys.exit("no page")
END
    end_with INT $pid
    [ "$code" = 130 ] || return 1
    code=0
}

mapfile -t lines < <(sed -n '/^```/,/^```/d; s/^    \([a-z].*\)/\1/p' README.md)
for line in "${lines[@]}"; do
    comment=''
    [[ $line != *" # "* ]] || comment=${line#* # }
    command=${line%%*( )# *}
    case $command in
    gst-launch-1.0*) # as installed; no object of GStreamer's lives longer than the pipeline
        for file in "$build/plugins/gstreamer/libgstcusight.so" /usr/bin/{gst-launch-1.0,xvfb-run}; do
            [ -e "$file" ] || { skipped "$command" "there is no $file"; continue 2; }
        done
        installed="env GST_PLUGIN_PATH=$build/plugins/gstreamer GST_REGISTRY=$work/registry GST_TRACERS=leaks GST_DEBUG=GST_TRACER:7"
        try README.md "xvfb-run -a -s '-noreset -screen 0 1024x768x24' $installed $command"
        ! grep -E 'object-alive, type-name=\(string\)[A-Z]|ERROR' "$work/log" || fail "README.md: '$command' leaks or complains" ;;
    scripts/test) skipped "$command" "which runs this test" ;;
    *) try README.md "$command" "$comment" ;;
    esac
    [ "$command" != scripts/demo ] || { cp "$work/log" "$work/demo"; last=$(tail -n 1 "$work/log"); }
done
[ ${#lines[@]} -ge 12 ] || fail "README.md has only ${#lines[@]} commands"

[[ $last == *"programs are in build/bin"*"Try: "* ]] || fail "scripts/demo ends with '$last', expected where the programs are"
try "the last line of scripts/demo" "${last#*Try: }"
mapfile -t lines < <(python3 - <<'END'
import html, re
for commands in re.findall("<pre>(.*?)</pre>", open("out/index.html", encoding="utf-8").read(), re.S):
    print(html.unescape(commands))
END
)
[ ${#lines[@]} -ge 15 ] || fail "the page has only ${#lines[@]} commands"
for line in "${lines[@]}"; do # each program's first one once more, over its own files
    grep -qxF -- "         $line" "$work/demo" || fail "the page shows '$line', which scripts/demo has not run"
    if [[ " $again" != *" ${line%% *} "* ]]; then try "the page" "$line"; fi
    again+="${line%% *} "
done

# The build folder is the preset's: nothing is compiled again.
cmake --preset release >"$work/log" && cmake --build build --target cusight_programs >"$work/log" 2>&1 || fail "preset release: $(tail "$work/log")"
! grep -q Building "$work/log" || fail "preset release compiles what scripts/demo has built: $(grep Building "$work/log")"
echo "$ran commands, $SECONDS s"
finish
