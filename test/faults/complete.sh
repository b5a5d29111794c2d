#!/usr/bin/env bash
# complete.sh ARCHIVE FOLDER: every function of another library that the library calls is either redirected (interposed.txt) or
# exempt for a stated reason (exempt.txt), and every public function is called in a walk or cannot fail (unwalked.txt), so the fault
# walk misses none.
set -euo pipefail
export LC_ALL=C
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
nm "$1" 2>/dev/null | awk 'NF == 3 && $2 ~ /[A-TV-Zi]/ { print $3 }' | sort -u >"$work/defined"
nm -u "$1" 2>/dev/null | awk '$1 == "U" { print $2 }' | sort -u | comm -23 - "$work/defined" >"$work/called"
sed 's/ *#.*//; /^$/d; s/.*/^(&)$/' "$2/exempt.txt" >"$work/exempt"
redirected=$(grep -c '^faulty_' "$work/called")
left=$(grep -v '^faulty_' "$work/called" | grep -vE '^__(asan|ubsan|lsan|sanitizer)' | grep -vEf "$work/exempt" || true)
if [ -n "$left" ]; then
    echo "The library calls functions that no fault test makes fail:" $left
    echo "Add each to test/faults/interposed.txt and a faulty_ function beside its siblings in test/faults/faults_*.cpp, or, if it"
    echo "cannot fail, to exempt.txt with the reason."
    exit 1
fi
[ "$redirected" -ge 5 ] || { echo "only $redirected functions are redirected"; exit 1; }
for function in $(sed -n 's/^function \([^ ]*\) .*/\1/p' "$2/../packaging/interface.txt"); do
    grep -qw "$function" "$2"/test_faults_*.cpp || echo "$function"
done >"$work/unwalked"
sed 's/ *#.*//; /^$/d; s/.*/^(&)$/' "$2/unwalked.txt" >"$work/infallible"
left=$(grep -vEf "$work/infallible" "$work/unwalked" || true)
if [ -n "$left" ]; then
    echo "No fault test calls:" $left
    echo "Add a walk to test/faults/test_faults_*.cpp or, if the function cannot fail, the reason to unwalked.txt."
    exit 1
fi
echo "$redirected functions are made to fail, $(($(wc -l <"$work/called") - redirected)) are exempt"
