#!/usr/bin/env bash
# A build without OpenCV, as on clusters: cusight-events makes the frames that this build's program makes, and says what it lacks. With
# FFmpeg's libraries, cusight-heatmap reports what moves as this build's does. Arguments: build folder, source folder.
set -euo pipefail
. "$(dirname "$0")/../programs/support.sh"
[ -x "$bin/cusight-events" ] || { echo "skipped: cusight-events was not built"; exit 77; }
launchers=()
for language in C CXX; do
    launcher=$(option CMAKE_${language}_COMPILER_LAUNCHER)
    [ -z "$launcher" ] || launchers+=("-DCMAKE_${language}_COMPILER_LAUNCHER=$launcher")
done
copy_sources "$work/sources"
export CCACHE_BASEDIR=$work/sources CCACHE_NOHASHDIR=1
logged configure.log cmake -S sources -B sources/build -G "$(option CMAKE_GENERATOR)" -DCMAKE_BUILD_TYPE=Release -DCUSIGHT_WERROR=AUTO \
    -DCUSIGHT_OPENCV=OFF -DCUSIGHT_CUDA=OFF -DCUSIGHT_TESTS=OFF -DCUSIGHT_PERF=OFF "${launchers[@]}"
logged build.log cmake --build sources/build --target cusight_programs -j 2
built=$(cd sources/build/bin && echo *)
[ "${built/cusight-heatmap /}" = "cusight-events cusight-info" ] || die "built $built, expected cusight-events and cusight-info"
lean=$work/sources/build/bin/cusight-events
! readelf -d "$lean" | grep -E 'lib(opencv|av|sw)' || die "the program links OpenCV or FFmpeg's libraries"

# Both programs report and write the same, but for times.
made_events 64 48 40000 >r.txt
same() { # ARGUMENT...
    local program
    for program in "$bin/cusight-events" "$lean"; do
        [ ! -d new ] || { rm -rf old; mv new old; }
        mkdir new
        logged said bash -c 'cd new && exec "$0" "$@"' "$program" "$@"
        sed -E '/^(rate|stages):/d' said >new/said
    done
    diff -r old new || fail "$* differs"
}
same convert ../r.txt r.raw
cp new/r.raw .
same convert ../r.raw r.hdf5 --range 0.05: --flip x --compression gzip
same info ../r.raw
frames=(../r.raw --device cpu --headless --checksum)
same "${frames[@]}" --events-per-frame 1100 --output f.h5
cp new/f.h5 whole.h5
same "${frames[@]}" --us-per-frame 5ms --stride 2ms --representation voxel_grid --output f.raw
same "${frames[@]}" --crop 3,2,50,40 --resize 32x32 --flip both --hot-pixels 500 --activity 20ms --range 0.02:0.2 --output f.h5 --compression none
same "${frames[@]}" --save-events e.h5 --triggers t.csv
same "${frames[@]}" --device cpu:2 --output f.h5

# Shards, merged, are what one run stores.
for i in 1 2; do
    logged shard.log "$lean" r.raw --device cpu --events-per-frame 1100 --shard $i/2 --output part-$i.h5
done
logged merge.log "$lean" merge part-2.h5 part-1.h5 --output merged.h5
cmp merged.h5 whole.h5 || fail "merged shards differ from one run"

# What it lacks is not offered, and is named.
bin=$work/sources/build/bin
without="windows, pictures, videos and cameras need OpenCV, which this program was built without"
"$lean" --help >help
! grep -nE -- '--(fps|speed|codec|crf|preset|no-legend|web|threshold|leak-rate)|video' help || fail "--help offers what the program lacks"
for option in --web=8080 --fps=30 --threshold=0.2; do
    says 2 "unknown option ${option%=*}; $without" "$lean" r.raw "$option" --checksum
done
for name in frames.mp4 frames/ frame.png -; do
    says 2 "--output is '$name', expected NAME.raw or NAME.h5; $without" "$lean" r.raw --output $name
done
says 2 "--output, --checksum, --save-events or --triggers is required; $without" "$lean" r.raw
echo "no recording" >clip.mp4
says 3 "clip.mp4: not an event recording: " "$lean" clip.mp4 --checksum
grep -qF "; $without" said || fail "what a video needs is not said: $(cat said)"
says 3 "cusight-events: missing.raw: No such file or directory" "$lean" missing.raw --checksum
! grep OpenCV said || fail "a missing file needs no OpenCV"
logged info.log sources/build/bin/cusight-info

# What moves, with FFmpeg's libraries alone.
full=$(cd "$build/bin" && pwd)/cusight-heatmap
if [ -x "$bin/cusight-heatmap" ] && [ -x "$full" ]; then
    ! readelf -d "$bin/cusight-heatmap" | grep -E 'libopencv' || die "the program links OpenCV"
    logged clip.log "$full" synthetic:160x120@60 --view motion --device cpu --headless --output clip.mp4
    for options in "" "--region 20,10,100,90 --start 0.5 --crop 4,2,150,110 --frames 30"; do
        # shellcheck disable=SC2086
        logged full.log "$full" clip.mp4 $options --device cpu --report full.json
        # shellcheck disable=SC2086
        logged lean.log "$bin/cusight-heatmap" clip.mp4 $options --device cpu --report lean.json
        cmp lean.json full.json || fail "without OpenCV, other things move"
    done
    says 2 "unknown option --clips; $without" "$bin/cusight-heatmap" clip.mp4 --clips folder
fi
finish
