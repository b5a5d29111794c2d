#!/usr/bin/env bash
# docs/options.md is what headers, Python package and --help say: no option is missing, and no default differs without a reason.
# Arguments: build folder, source folder.
set -u
. "$(dirname "$0")/../programs/support.sh"
skip() {
    echo "skipped: $*"
    exit 77
}
[ -z "$(option CUSIGHT_SANITIZE)" ] || skip "Python cannot load a library built with a sanitizer"
for file in libcusight.so bin/cusight-{belt,contour,diffstream,events,heatmap,info,match}; do
    [ -e "$build/$file" ] || skip "no $file in this build"
done
python3 -c 'import sys; sys.path.append("/usr/lib/python3/dist-packages"); import clang.cindex' 2>/dev/null || skip "needs python3-clang"
"$source/scripts/options" "$build" --check 2>"$work/log" || die "$(head -n 20 "$work/log")"
