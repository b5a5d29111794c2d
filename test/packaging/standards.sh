#!/usr/bin/env bash
# The public headers compile in programs of every standard that people use: C11 to C23, C++17 to C++23 (those that this compiler
# knows), by this compiler and by clang, if it is installed, without the warnings about casts and conversions that strict projects turn
# on; those for OpenCV as C++17, if it is installed. Arguments: build folder, source folder.
set -u
. "$(dirname "$0")/../programs/support.sh"
compiled=0
echo 'int main(void) { return 0; }' | tee "$work/none.c" >"$work/none.cpp"
printf '#include <cusight/cusight.h>\nint main(void) { return cusVersion() == 0; }\n' >"$work/all.c"
printf '#include <cusight/cusight.hpp>\nint main() { return cusVersion() == nullptr; }\n' >"$work/all.cpp"
printf '#include <cusight/opencv.hpp>\nint main() { return cusight::view(cv::Mat()).rows; }\n' >"$work/opencv.cpp"
opencv=$(pkg-config --cflags-only-I opencv4 2>/dev/null | sed 's/-I/-isystem /g')
try() { # COMPILER ENDING STANDARD [FILE]
    local strict=(-Werror=conversion -Werror=sign-conversion)
    [ "$2" = c ] || strict+=(-Werror=old-style-cast)
    "$1" "-std=$3" -fsyntax-only "$work/none.$2" 2>/dev/null || return 0 # a standard that it does not know
    compiled=$((compiled + 1))
    # shellcheck disable=SC2086 # options of OpenCV are several words
    "$1" "-std=$3" -Wall -Wextra "${strict[@]}" ${CI:+-Werror} -I "$source/include" $opencv -fsyntax-only "$work/${4:-all}.$2" 2>"$work/log" ||
        fail "$1 -std=$3: $(head -n 20 "$work/log")"
}
for pair in "$(option CMAKE_C_COMPILER) $(option CMAKE_CXX_COMPILER)" "clang clang++"; do
    read -r cc cxx <<<"$pair"
    command -v "$cc" >/dev/null && command -v "$cxx" >/dev/null || continue
    for standard in c11 c17 gnu11 gnu17 gnu2x; do try "$cc" c $standard; done
    for standard in c++17 c++20 c++2b gnu++17 gnu++20 gnu++2b; do try "$cxx" cpp $standard; done
    [ -z "$opencv" ] || try "$cxx" cpp c++17 opencv
done
[ $compiled -ge 8 ] || fail "only $compiled standards"
[ $failed = 0 ] && echo "$compiled standards"
exit $failed
