#!/usr/bin/env bash
# Every block of C and C++ in the documents compiles without a warning: programs as they are, other blocks as the body of a function
# after consumers/snippets/given.h or given.hpp, which declare what they take as given. Programs of C run and print what their comments
# "prints: ..." say. Commands have options that exist. install.sh builds and runs the README's programs, commands.sh runs the README's
# commands, python/tests/test_documents.py the blocks of Python. Arguments: build folder, source folder.
set -euo pipefail
. "$(dirname "$0")/../programs/support.sh"
given=$source/test/packaging/consumers/snippets
warnings=(-Wall -Wextra -Wno-unused -Wno-missing-field-initializers -Werror)
mkdir c cpp
for file in "$source"/*.md "$source"/docs/*.md "$source"/docs/*/*.md; do
    awk -v name="$(basename "$file" .md)" -v file="${file#"$source"/}" '
        /^```/ { language = substr($0, 4); if (language == "c" || language == "cpp") {
            out = language "/" name "-" NR "." language; print "#line " NR + 1 " \"" file "\"" >out } else out = ""; next }
        out { print >out }' "$file"
done
# wrapped BLOCK GIVEN: what it includes, what it takes as given, and the rest in a function.
wrapped() {
    grep '^#include' "$1" || true
    printf '#include "%s"\ncusStatus snippet(void);\ncusStatus snippet(void) {\n' "$2"
    sed 's/^#include.*//' "$1"
    printf '\nreturn CUS_OK;\n}\n'
}
compiled=0 ran=0
cc=$(option CMAKE_C_COMPILER) cxx=$(option CMAKE_CXX_COMPILER)
for block in c/*; do
    compiled=$((compiled + 1))
    if grep -q '^int main(' "$block"; then
        "$cc" -std=c11 "${warnings[@]}" -I "$source/include" "$block" -o program "$build/libcusight.so" "-Wl,-rpath,$build" -pthread 2>log ||
            { fail "$(head -n 12 log)"; continue; }
        sed -nE 's|.*/\* prints: (.*) \*/.*|\1|p' "$block" >expected
        ./program >printed 2>log || fail "$(head -n 1 "$block"): ended with $?: $(cat log)"
        [ ! -s expected ] || diff expected printed || fail "$(head -n 1 "$block"): prints something else"
        ran=$((ran + 1))
    else
        wrapped "$block" "$given/given.h" >wrapped.c
        "$cc" -std=c11 "${warnings[@]}" -I "$source/include" -fsyntax-only wrapped.c 2>log || fail "$(head -n 12 log)"
    fi
done
if opencv=$(pkg-config --cflags-only-I opencv4 2>/dev/null | sed 's/-I/-isystem /g') && [ -n "$opencv" ]; then
    for block in cpp/*; do
        compiled=$((compiled + 1))
        if grep -q '^int main(' "$block"; then cp "$block" wrapped.cpp; else wrapped "$block" "$given/given.hpp" >wrapped.cpp; fi
        # shellcheck disable=SC2086
        "$cxx" -std=c++17 "${warnings[@]}" -I "$source/include" $opencv -fsyntax-only wrapped.cpp 2>log || fail "$(head -n 12 log)"
    done
else
    echo "skipped: blocks of C++, which need OpenCV and pkg-config"
fi

# Each option that a command in the documents has is one of the program's.
if [ -x "$bin/cusight-heatmap" ]; then
    python3 - "$bin" "$source" <<'END' || fail "the documents name options that do not exist"
import pathlib, re, subprocess, sys
bin, source = map(pathlib.Path, sys.argv[1:])
helps, seen, wrong = {}, 0, 0
for file in [*source.glob("*.md"), *source.glob("docs/*.md"), *source.glob("docs/*/*.md")]:
    for line in file.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
        for program, command in re.findall(r"(?:^ *|`|[|] |-n \d+ )(?:build/bin/)?(cusight-[a-z-]+)( [^|`;#]*)", line):
            if not (bin / program).exists():
                continue
            verb = tuple(re.findall(r"^ (info|convert|merge|send|view|demo|page)\b", command))
            if (program, verb) not in helps:
                text = subprocess.run([bin / program, *verb, "--help"], capture_output=True, text=True).stdout
                helps[program, verb] = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text))
            for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", command):
                seen += 1
                if option not in helps[program, verb]:
                    wrong += 1
                    print(f"{file.relative_to(source)}: {program} has no {option}: {line.strip()}")
print(f"{seen} options of {len(helps)} programs and verbs")
sys.exit(wrong > 0 or seen < 60)
END
fi
[ $compiled -ge 20 ] && [ $ran -ge 2 ] || fail "only $compiled blocks, $ran programs"
echo "$compiled blocks compiled, $ran programs ran"
finish
