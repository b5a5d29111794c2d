# Files that a stranger could send, and what killed programs leave: times far apart, escape sequences, pipes. hostile.sh BUILD SOURCE
set -u
# shellcheck source=test/programs/support.sh
. "$2/test/programs/support.sh"
need_programs
program=$bin/cusight-events
events() { "$program" --device cpu --headless "$@"; }

# Times far apart. The last event is a second one at its time, so that no window of 1 us is left open.
printf '64 48\n0 1 1 1\n4000000000000000000 1 1 0\n' >gap.txt
printf '8 8\n0 1 1 1\n1001001 1 1 0\n1002000 1 1 0\n' >small.txt # windows 1 to 1000 of 1 ms are empty
printf '8 8\n0 1 1 1\n1002001 1 1 0\n1003000 1 1 0\n' >more.txt
for device in cpu cpu:2; do
    says 1 "3999999999999999 windows in a row have no events, from 0 to 4000000000000000000 us, expected at most --max-gap 1000" \
        "$program" gap.txt --device $device --headless --us-per-frame 1000 --output gap.raw
    says 0 "frames: 1003 of" "$program" small.txt --device $device --headless --us-per-frame 1000 --checksum
    says 1 "1001 windows in a row have no events" "$program" more.txt --device $device --headless --us-per-frame 1000 --checksum
    says 0 "frames: 1004 of" "$program" more.txt --device $device --headless --us-per-frame 1000 --max-gap 1001 --checksum
done
says 0 "frames: 1 of" "$program" gap.txt --headless --events-per-frame 2 --checksum
says 2 "--max-gap is '0'" "$program" gap.txt --max-gap 0 --checksum
[ ! -e gap.raw ] && [ -z "$(find . -name '.cus*')" ] || fail "a gap leaves $(ls -A)"

# A gap that is asked for is made; one signal ends it.
printf '64 48\n0 1 1 1\n2000000000 1 1 0\n' >long.txt
for how in INT TERM; do
    "$program" --device cpu --headless long.txt --us-per-frame 1 --max-gap 2000000000 --checksum >out.txt 2>err.txt &
    pid=$!
    ready $pid
    sleep 0.7
    start=$(date +%s%N)
    end_with "$how" $pid
    took=$((($(date +%s%N) - start) / 1000000))
    [ $code = 130 ] && [ $took -lt "$(patience 1500)" ] || fail "exit code $code, $took ms after $how: $(cat err.txt)"
done
# Nor does --save-events make an entry for each of 2^30 milliseconds.
printf '64 48\n0 1 1 1\n1099511627776 1 1 0\n' >far.txt
events far.txt --save-events far.h5 >/dev/null 2>said
grep -q "ms_map_idx has an entry for each" said || fail "--save-events says: $(cat said)"
[ ! -e far.h5 ] || fail "--save-events leaves far.h5"

# Escape sequences, in the header of a recording and in names.
printf '%% evt 3.0\n%% plugin_name \033[2J\033]0;pwn\007\302\233evil\233\n%% end\n\000\200\001 ' >escape.raw
odd=$(printf 'no\033[2J\177\nsuch.raw')
escaped='no\x1b[2J\x7f\x0asuch.raw'
shown='\x1b[2J\x1b]0;pwn\x07\xc2\x9bevil\x9b'
says 0 "camera: $shown" "$program" info escape.raw
says 0 '"camera":"\u001b[2J\u001b]0;pwn\u0007\u009bevil\ufffd"' "$program" info escape.raw --json
says 3 "$escaped" "$program" "$odd" --checksum --headless
says 3 "$escaped" "$program" info "$odd" --json
says 0 "frames in: zoë, 日本.raw" "$program" small.txt --headless --events-per-frame 2 --output "zoë, 日本.raw"
[ ! -x "$bin/cusight-diffstream" ] || says 2 "$escaped" "$bin/cusight-diffstream" view "$odd:1:2" --headless
[ ! -x "$bin/cusight-diffstream" ] || says 3 "$escaped" "$bin/cusight-diffstream" send "$odd" --bind 127.0.0.1:0
"$program" "$odd" --checksum --headless 2>&1 | LC_ALL=C grep -q '[[:cntrl:]]' && fail "control characters reach the terminal"

# What is no video, whatever its name: an error within 2 s of processor time. FFmpeg takes some text for art of a terminal and draws it.
head -c 3000000 /dev/zero | tr '\0' ' ' >spaces
seq 500000 >numbers
for name in spaces numbers; do
    for ending in "" .txt .nfo .mp4 .mkv .ts .mpg; do
        [ "$ending" = "" ] || cp $name $name$ending
        says 3 "$name$ending is not a video that can be decoded" bash -c "ulimit -t 2; exec '$bin/cusight-heatmap' $name$ending --device cpu --headless --output x.png"
    done
done
says 3 "stdin is not a video" bash -c "ulimit -t 2; '$bin/cusight-heatmap' - --device cpu --headless --output x.png <spaces.txt"

# Keys and certificates that are pipes: refused at once.
mkfifo pipe
for files in "--key pipe" "--cert pipe --cert-key pipe --ca pipe"; do
    if [ -x "$bin/cusight-diffstream" ]; then
        says 2 "${files%% *} pipe: expected a regular file" timeout 5 "$bin/cusight-diffstream" send synthetic:64x48@1 --bind 127.0.0.1:0 $files
    fi
done

# What a killed run has left is removed by the next run of the same output, but not what a run that lives is writing.
killed() { # LEFT HOW...
    local left=$1 pid
    shift
    "$@" long.txt --us-per-frame 1 --max-gap 2000000000 >out.txt 2>&1 &
    pid=$!
    left_there() { [ -n "$(find . -path "./$left" -print -quit)" ]; }
    awaited left_there || fail "$*: no $left: $(cat out.txt)"
    kill -"${signal:-KILL}" $pid
    [ "${signal:-KILL}" != KILL ] || wait $pid 2>/dev/null
    last=$pid
}
mkdir -p folder
outputs="a.raw folder/ a.mp4"
events small.txt --events-per-frame 2 --output a.h5 >/dev/null 2>&1 && outputs="$outputs a.h5"
for output in $outputs; do
    left="$(dirname "$output"x)/.cusight-*" left=${left#./}
    killed "$left" "$program" --headless --device cpu --output $output
    events small.txt --events-per-frame 2 --output $output --overwrite >/dev/null 2>err.txt || fail "$output: $(cat err.txt)"
    [ -z "$(find . -name '.cusight-*')" ] ||
        fail "$output: a killed run leaves $(find . -path '*/.cusight-*' | head -n 5), processes $(ps -eLo pid,lwp,comm | tr '\n' ';')"
done
signal=STOP killed '.cusight-*' "$program" --headless --device cpu --output a.raw
events small.txt --events-per-frame 2 --output a.raw >/dev/null 2>err.txt || fail "two runs: $(cat err.txt)"
[ "$(find . -name '.cusight-*' | wc -l)" = 1 ] || fail "the file of a run that lives is gone"
kill -KILL $last
wait $last 2>/dev/null
events small.txt --events-per-frame 2 --output b.raw >/dev/null 2>&1 # another output
[ "$(find . -name '.cusight-*' | wc -l)" = 1 ] || fail "a run of another output removes it"
finish
