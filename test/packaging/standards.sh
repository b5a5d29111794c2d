#!/usr/bin/env bash
# The public headers compile in programs of every standard that people use: C11 to C23, C++17 to C++23 (those that this compiler
# knows), by this compiler and by clang, if it is installed. Arguments: build folder, source folder.
set -u
. "$(dirname "$0")/../programs/support.sh"
compiled=0
echo 'int main(void) { return 0; }' | tee "$work/none.c" >"$work/none.cpp"
printf '#include <cusight/cusight.h>\nint main(void) { return cusVersion() == 0; }\n' >"$work/all.c"
printf '#include <cusight/cusight.hpp>\nint main() { return cusVersion() == nullptr; }\n' >"$work/all.cpp"
try() { # COMPILER ENDING STANDARD
    "$1" "-std=$3" -fsyntax-only "$work/none.$2" 2>/dev/null || return 0 # a standard that it does not know
    compiled=$((compiled + 1))
    "$1" "-std=$3" -Wall -Wextra ${CI:+-Werror} -I "$source/include" -fsyntax-only "$work/all.$2" 2>"$work/log" ||
        fail "$1 -std=$3: $(head -n 20 "$work/log")"
}
for pair in "$(option CMAKE_C_COMPILER) $(option CMAKE_CXX_COMPILER)" "clang clang++"; do
    read -r cc cxx <<<"$pair"
    command -v "$cc" >/dev/null && command -v "$cxx" >/dev/null || continue
    for standard in c11 c17 gnu11 gnu17 gnu2x; do try "$cc" c $standard; done
    for standard in c++17 c++20 c++2b gnu++17 gnu++20 gnu++2b; do try "$cxx" cpp $standard; done
done
[ $compiled -ge 8 ] || fail "only $compiled standards"
[ $failed = 0 ] && echo "$compiled standards"
exit $failed
