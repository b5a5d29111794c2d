# cusight-events-mpi: the bytes of cusight-events for any number of ranks; bad days. events_mpi.sh BUILD SOURCE
set -u
# shellcheck source=test/programs/support.sh
. "$2/test/programs/support.sh"
export OMP_NUM_THREADS=1
one=$bin/cusight-events
many=$bin/cusight-events-mpi
scale=$build/perf/cusight_scale
[ -x "$many" ] || { echo "skipped: cusight-events-mpi was not built"; exit 77; }
[ -x "$one" ] && [ -x "$scale" ] || { echo "skipped: cusight-events or cusight_scale was not built"; exit 77; }
command -v mpirun >/dev/null || { echo "skipped: there is no mpirun"; exit 77; }
[ "$(id -u)" != 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_pml=ob1 # looking for fast networks takes longer than most runs here
export OMPI_MCA_odls_base_sigkill_timeout=0 # nor does mpirun wait a second for ranks that end
# A leak check of each rank would be one of Open MPI.
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0
ranks() { # N COMMAND...; a run that hangs fails, with exit code 124
    timeout -k 5 120 mpirun --oversubscribe --bind-to none --mca btl_vader_single_copy_mechanism none --mca mpi_yield_when_idle 1 -n "$@"
}
mpi() { # N ARGUMENTS
    local n=$1
    shift
    ranks "$n" "$many" --device cpu "$@" >out.txt 2>err.txt
}
expect() { # CODE TEXT N ARGUMENTS: exits with CODE, and says TEXT once
    local code=$1 text=$2
    shift 2
    mpi "$@"
    local got=$?
    [ $got -eq "$code" ] || fail "$*: exit code $got, not $code: $(cat err.txt)"
    [ "$(grep -c "cusight-events-mpi: " err.txt)" -eq 1 ] || fail "$*: not one message: $(cat err.txt)"
    grep -q -e "$text" err.txt || fail "$*: no '$text' in: $(cat err.txt)"
}
clean() { # no unfinished file is left
    [ -z "$(find . -name '.*' ! -name . -print -quit)" ] || fail "$1: left $(find . -name '.*' ! -name .)"
}
formats="evt2 evt3 dat text m3ed"
for format in $formats; do # 20 s, so that the counter of EVT3 wraps
    "$scale" generate r.$format --format $format --events 30000 --rate 1500 || fail "generate $format"
done

# ---- What it prints --------------------------------------------------------------------------------------------------------
mpi 2 r.evt2 --events-per-frame 2500 --checksum --json --output j.raw || fail "--json: $(cat err.txt)"
python3 -c 'import json
o = json.loads(open("out.txt").read())
assert o["program"] == "cusight-events-mpi" and o["ranks"] == 2 and o["frames"] == 12 and o["events"] == 30000, o
assert o["exit_code"] == 0 and o["frames_in"] == "j.raw" and 0 <= o["scan_seconds"] <= o["seconds"], o
assert all(key.replace("_", "").isalpha() and key.islower() for key in o), o' || fail "--json printed $(cat out.txt)"
mpi 2 none.evt2 --checksum --json
python3 -c 'import json; o = json.loads(open("out.txt").read()); assert o["exit_code"] == 3 and "No such file" in o["error"], o' ||
    fail "--json after an error printed $(cat out.txt)"
mpi 2 r.evt2 --events-per-frame 2500 --quiet --output j.raw && [ ! -s out.txt ] && [ ! -s err.txt ] || fail "--quiet printed: $(cat out.txt err.txt)"
(
    unset "${!OMPI_@}" "${!PMIX_@}" "${!PMI_@}" "${!SLURM_@}"
    "$many" r.evt2 --device cpu --checksum >alone.txt 2>&1 # what a user without mpirun sees
)
grep -q "^one process only; for N of them: mpirun -n N cusight-events-mpi" alone.txt || fail "alone it says: $(cat alone.txt)"
page=$(ls "$build"/manuals/cusight-events-mpi.1*)
case $page in *.gz) gzip -cd "$page" >page ;; *) cp "$page" page ;; esac
grep -q '^\\fB\\-\\-resume' page && grep -q "^.SH EXIT STATUS" page || fail "the manual page lacks something: $(head page)"
if command -v groff >/dev/null; then
    groff -man -Tutf8 -wall page >text 2>warned || fail "groff: $(cat warned)"
    [ ! -s warned ] || fail "groff warns: $(cat warned)"
fi
rm -f j.raw alone.txt page text warned

# ---- Every format, 1 to 7 ranks, and seven kinds of windows and outputs in turn -------------------------------------------
kind() {
    case $1 in
    0) echo "--events-per-frame 2500 --resize 320x180" raw ;;
    1) echo "--events-per-frame 2000 --stride 750 --resize 160x90 --representation voxel_grid" h5 ;;
    2) echo "--us-per-frame 900000 --representation tencode --resize 320x180 --compression none" h5 ;;
    3) echo "--us-per-frame 1000000 --stride 300000 --keep-incomplete --resize 160x90" h5 ;;
    4) echo "--events-per-frame 350 --stride 2500 --keep-incomplete --range 2.5:17 --resize 320x180" raw ;;
    5) echo "--us-per-frame 100000 --stride 1500000 --range 3: --representation mdes --resize 320x180 --compression none" h5 ;;
    6) echo "--events-per-frame 3000 --skip-bad --range 1:15 --resize 160x90 --representation stacked_histogram" h5 ;;
    esac
}
for k in 0 1 2 3 4 5 6; do
    set -- $(kind $k)
    eval "type=\${$#}"
    arguments=$(kind $k) arguments=${arguments% *}
    "$one" --device cpu --headless r.evt2 ${arguments/--compression none/} --checksum --output whole$k.raw >sum$k 2>err.txt ||
        fail "cusight-events $arguments: $(cat err.txt)"
    [ "$type" = raw ] || "$one" --device cpu --headless r.evt2 $arguments --output whole$k.h5 >/dev/null 2>&1 || fail "whole$k.h5"
done
turn=0
for format in $formats; do
    for n in 1 2 3 4 7; do
        k=$((turn % 7)) turn=$((turn + 1))
        arguments=$(kind $k) type=${arguments##* } arguments=${arguments% *}
        [ -e whole$k.$type ] || continue
        mpi $n r.$format $arguments --output part.$type || fail "$n ranks, $format, $arguments: $(cat err.txt)"
        cmp whole$k.$type part.$type || fail "$n ranks, $format, $arguments: another file"
        rm -f part.$type
    done
done
clean "every format"
"$many" --version | grep -qx "cusight-events-mpi [0-9.]* (cusight [0-9.]*, CUDA \(yes\|no\))" || fail "--version"
"$many" --help | grep -q -e "--resume" || fail "--help"
# Nothing but the checksum; more ranks than windows.
mpi 3 r.dat --events-per-frame 2500 --resize 320x180 --checksum || fail "--checksum: $(cat err.txt)"
[ "$(grep checksum out.txt)" = "$(grep checksum sum0)" ] || fail "--checksum: $(cat out.txt), not $(cat sum0)"
"$one" --device cpu --headless r.evt3 --events-per-frame 12000 --output whole.raw >/dev/null 2>&1
mpi 7 r.evt3 --events-per-frame 12000 --output part.raw || fail "more ranks than windows: $(cat err.txt)"
cmp whole.raw part.raw || fail "more ranks than windows"
# A recording that does not say how large the sensor is.
sed 1d r.text >small.text
"$one" --device cpu --headless small.text --us-per-frame 3000000 --output whole.raw >/dev/null 2>&1
mpi 3 small.text --us-per-frame 3000000 --output part.raw || fail "no sensor size: $(cat err.txt)"
cmp whole.raw part.raw || fail "no sensor size: another file"

# Real recordings, where there are any.
for recording in "${CUSIGHT_TEST_DATA_EVENTS:-/none}"/*.{raw,txt,h5,dat}; do
    [ -e "$recording" ] || continue
    "$one" --device cpu --headless "$recording" --events-per-frame 5000 --output whole.raw >/dev/null 2>err.txt || continue
    mpi 3 "$recording" --events-per-frame 5000 --output part.raw || fail "$recording: $(cat err.txt)"
    cmp whole.raw part.raw || fail "$recording: another file"
done
rm -f whole.raw part.raw

# ---- Raw bytes, which pipelines decode where events are needed for nothing else; --resize needs them ------------------------
head -c 90001 r.evt2 >cut.evt2
for how in "3 r.evt3 --events-per-frame 7000 --stride 5000" "2 r.dat --us-per-frame 1900000 --stride 5000000 --keep-incomplete" \
    "4 r.evt2 --events-per-frame 8000 --skip-bad" "3 cut.evt2 --us-per-frame 2000000 --representation tencode"; do
    "$one" --device cpu --headless ${how#* } --output whole.raw >/dev/null 2>one.txt
    mpi $how --output part.raw
    [ $? -eq $(($(wc -l <one.txt) ? 3 : 0)) ] && cmp whole.raw part.raw || fail "$how, by bytes: $(cat err.txt)"
    [ ! -s one.txt ] || grep -q "$(sed 's/^cusight-events: //' one.txt)" err.txt || fail "$how: by bytes it says $(cat err.txt)"
    mpi $how --resize 1280x720 --output part.raw
    cmp whole.raw part.raw || fail "$how, by events: $(cat err.txt)"
done
grep -q "the file ends at byte 90001, within an event" err.txt || fail "by events it says $(cat err.txt)"
expect 3 "the recording ends at byte 90001, within a word" 2 cut.evt2 --us-per-frame 2000000 --checksum # bytes were decoded
rm -f whole.raw part.raw

# ---- Bad days ------------------------------------------------------------------------------------------------------------
# A file that ends early, and an event that is not one: the frames before that, one message, exit code 3.
awk 'NR == 19000 { $2 = 5000 } { print }' r.text >bad.text
for input in cut.evt2 bad.text; do
    for how in "--events-per-frame 1500 --stride 500 --keep-incomplete" "--us-per-frame 700000"; do
        "$one" --device cpu --headless $input $how --resize 160x90 --output whole.raw >/dev/null 2>one.txt
        expect 3 "$(sed 's/^cusight-events: //' one.txt)" 4 $input $how --resize 160x90 --output part.raw
        cmp whole.raw part.raw || fail "$input $how: another file"
    done
done
rm -f part.raw
expect 3 "No such file" 2 none.evt2 --output part.raw
expect 2 "\-\-stride is 'x', expected an integer" 2 r.evt2 --stride x --output part.raw
expect 2 "\-\-stride is 7000 us, expected a number of events like --events-per-frame" 2 r.evt2 --stride 7ms --output part.raw
"$one" --device cpu --headless r.evt2 --us-per-frame 2000000 --representation voxel_grid --output whole.raw >/dev/null 2>one.txt
mpi 2 r.evt2 --us-per-frame 2s --representation VOXEL-GRID --output part.raw || fail "units and spellings: $(cat err.txt)"
cmp whole.raw part.raw || fail "2s gives other frames than 2000000"
rm -f part.raw
cp r.evt2 same.raw
expect 2 "expected another file than INPUT 'same.raw'" 2 same.raw --output ./same.raw
expect 4 "--output: none/ cannot be written: No such file" 2 r.evt2 --output none/part.raw
expect 3 "no frame: --events-per-frame is 40000, more than there is in 30000 events" 2 r.evt2 --events-per-frame 40000 --no-keep-incomplete --output part.raw
ranks 2 "$many" r.evt2 --device cuda --output part.raw >out.txt 2>err.txt
if [ $? -ne 0 ]; then
    grep -q "no usable GPU" err.txt && [ "$(grep -c "cusight-events-mpi: " err.txt)" -eq 1 ] || fail "no GPU: $(cat err.txt)"
fi
# A full disk, known at the start and not; each rank has the limit. Open MPI 5 keeps its shared memory in files, which the limit would
# cut too: messages go through sockets.
export OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=lo
for type in raw h5; do
    ranks 3 bash -c "ulimit -f 400; exec '$many' --device cpu r.evt3 --events-per-frame 100 --output part.$type" >out.txt 2>err.txt
    [ $? -eq 4 ] || fail "full disk, $type: exit code: $(cat err.txt)"
    [ "$(grep -c "cusight-events-mpi: .*part.$type cannot be written: File too large" err.txt)" -eq 1 ] ||
        fail "full disk, $type: $(cat err.txt)"
done
[ ! -e part.raw ] && [ ! -e part.h5 ] || fail "a failed run leaves an output"
clean "a full disk"
unset OMPI_MCA_btl OMPI_MCA_btl_tcp_if_include
# Another run with the same output.
flock --no-fork .part.raw.lock sleep 30 &
holder=$!
is_locked() { ! flock -n .part.raw.lock true; }
awaited is_locked
expect 4 "part.raw cannot be written: another run is writing it" 2 r.evt2 --output part.raw
kill $holder
wait $holder 2>/dev/null
mpi 2 r.evt2 --events-per-frame 2500 --resize 320x180 --output part.raw && cmp whole0.raw part.raw || fail "a lock that nobody holds"
rm -f .part.raw.lock part.raw
clean "two runs"

# A rank that dies ends all within seconds; with --resume, what was finished is kept, and another number of ranks goes on.
"$scale" generate long.evt3 --format evt3 --events 400000 --rate 100000
victim() { pgrep -f "^$many .*--output part" | sed -n 2p; }
# All ranks are up and have opened the output, and with --resume something is finished. Open MPI itself hangs if one dies while it is
# being started, and has a lock file beside an output for a moment while it opens it.
at_work() {
    if [ -n "$resume" ]; then
        find part.$type.resume -name 'done.*' -size +0 2>/dev/null | grep . >/dev/null
    else
        [ -e .part.$type.lock ] && sleep 0.4
    fi
}
for type in raw h5; do
    how="long.evt3 --events-per-frame 2000 --representation voxel_grid --resize 640x360 --output part.$type"
    "$one" --device cpu --headless ${how/part/whole} >/dev/null 2>&1 || fail "one process"
    for resume in "" --resume; do
        OMPI_MCA_odls_base_sigkill_timeout=1 mpi 3 $how $resume & # the others remove what they have not finished
        run=$!
        awaited at_work
        kill -9 "$(victim)" || fail "nobody to kill"
        start=$SECONDS
        wait $run && fail "killed, $type $resume: exit code 0"
        [ $((1000 * (SECONDS - start))) -le "$(patience 8000)" ] || fail "killed, $type $resume: ended after $((SECONDS - start)) s"
        grep -q "signal 9" err.txt || fail "killed: $(cat err.txt)"
        [ ! -e part.$type ] || fail "killed, $type $resume: there is an output"
        rm -f .part.$type.lock
        clean "killed, $type $resume"
    done
    [ -d part.$type.resume ] || fail "$type: nothing is kept"
    expect 3 "this is not the run that part.$type.resume belongs to: .*stride 7, .*but it was .*stride 0" 2 $how --resume --stride 7
    touch -d '1 hour ago' long.evt3
    expect 3 "this is not the run that part.$type.resume belongs to: \"input of .*but it was" 2 $how --resume
    touch -d "$(stat -c %y r.evt3)" long.evt3
    sed -i "s/changed at [0-9.]*/changed at $(stat -c %.9Y long.evt3)/" part.$type.resume/run
    mpi 2 $how --resume || fail "--resume, $type: $(cat err.txt)"
    cmp whole.$type part.$type || fail "--resume, $type: another file"
    [ ! -e part.$type.resume ] || fail "--resume, $type: $(ls -a part.$type.resume) left"
    rm -f part.$type whole.$type
done
clean "resumed"

# The measurement, at a small size: whole rows, and the table of the chapter.
python3 "$source/perf/scale" --build "$build" --no-build --cpu --events 2e6 --passes 1 --ranks 1,2 --formats evt2 --output s.json >table.txt 2>err.txt ||
    fail "perf/scale: $(cat err.txt)"
python3 - <<'END' || fail "perf/scale: $(cat s.json)"
import json
result = json.load(open("s.json"))
assert [row["devices"] for row in result["memory"]["rows"]] == [[0], [1], [0, 1]]
assert [(row["ranks"], row["output"]) for row in result["files"]][:2] == [(1, "checksum"), (2, "checksum")]
assert len(result["files"]) == 3 and all(row["events"] == 2000000 and row["frames"] == 10 for row in result["files"])
END
[ "$(grep -c '^|' table.txt)" -eq 10 ] || fail "perf/scale: $(cat table.txt)"
exit $failed
