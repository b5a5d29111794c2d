#!/usr/bin/env bash
# perf/variants: the tests pass with each older instruction set that this processor has, and rows are timed with each. The golden rows
# do not depend on the number of threads. A set that is unknown or unavailable is refused.
set -uo pipefail
# shellcheck source=test/programs/support.sh
. "$2/test/programs/support.sh"
tests=$build/test/cusight_tests
unset CUSIGHT_ISA
"$tests" --gtest_list_tests >/dev/null 2>&1 || {
    echo "skipped: the tests do not run on this machine without an emulator"
    exit 77
}
CUSIGHT_ISA=none runs 2 'CUSIGHT_ISA is none, but this processor has [a-z]' "$tests"
for threads in 1 5; do
    OMP_NUM_THREADS=$threads "$tests" --gtest_filter='Golden.*-*cuda*' >out.txt 2>&1 || fail "$threads threads: $(cat out.txt)"
done
variants=(python3 "$source/perf/variants" "$build" --but-best) # ctest runs the tests with the best set one by one
if ! command -v python3 >/dev/null; then
    echo "no python3: perf/variants was not run"
elif [ -x "$build/perf/cusight_perf" ]; then
    "${variants[@]}" --filter='Hsv.*' --samples=1 >out.txt 2>&1 || fail "perf/variants: $(cat out.txt)"
    grep -Eq '^hsv/.* 1.00x' out.txt || fail "perf/variants times nothing: $(cat out.txt)"
else
    "${variants[@]}" --filter= >out.txt 2>&1 || fail "perf/variants: $(cat out.txt)"
fi
exit $failed
