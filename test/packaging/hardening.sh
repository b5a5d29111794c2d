#!/usr/bin/env bash
# The built files, read from outside: exported symbols and their version, libraries needed, where the loader looks for them,
# and the protections of CUSIGHT_HARDENING.
set -euo pipefail
. "$(dirname "$0")/../programs/support.sh"
export LC_ALL=C
library=$build/libcusight.so

# ---- Exported symbols: exactly the functions of the committed table, all with the version node of cmake/exports.map
nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' >"$work/symbols"
sed 's/@.*//' "$work/symbols" | sort >"$work/exported"
sed -n 's/^function \([^ ]*\) .*/\1/p' "$source/test/packaging/interface.txt" | sort >"$work/declared"
diff -u "$work/declared" "$work/exported" || fail "exported (+) are other functions than test/packaging/interface.txt has (-)"
node=$(sed -n 's/^\(CUSIGHT_[0-9.]*\) {$/\1/p' "$source/cmake/exports.map")
[ -n "$node" ] || fail "cmake/exports.map has no version node"
! grep -v "@@$node\$" "$work/symbols" || fail "symbols above without version $node"

# ---- Libraries: cuFFT is opened when it is needed, so a program starts without it
! readelf -dW "$library" | grep 'NEEDED.*cufft' || fail "libcusight.so needs libcufft"
! nm -D --undefined-only "$library" | grep ' cufft' || fail "libcusight.so refers to cuFFT's functions"

# Nor is libhdf5 needed.
! readelf -dW "$library" | grep 'NEEDED.*hdf5' || fail "libcusight.so needs libhdf5"
! nm "$build/libcusight.a" 2>/dev/null | grep ' U H5' || fail "libcusight.a refers to libhdf5"

# ---- Threads: with GCC, the library's own answer what its parallel regions call (src/team.h)
if grep -q '^CMAKE_C_COMPILER_ID.*GNU\|"GNU"' "$build"/CMakeFiles/*/CMakeCCompiler.cmake; then
    ! nm -D --undefined-only "$library" | grep ' GOMP_' || fail "libcusight.so calls libgomp's threads: src/team.h lacks a function"
fi

# ---- RUNPATH: absolute folders and $ORIGIN only; an empty element is the current directory
programs=$(find "$build" -maxdepth 3 -type f -perm -u+x \( -name 'cusight-*' -o -name 'cusight_*' -o -name 'fuzz_*' \) ! -name '*.*')
[ -n "$programs" ] || fail "no programs found in $build"
# bad_runpath RUNPATH: its unacceptable elements
bad_runpath() {
    printf '%s:' "$1" | tr ':' '\n' | while IFS= read -r element; do
        case $element in
        /* | '$ORIGIN' | '$ORIGIN/'* | '${ORIGIN}' | '${ORIGIN}/'*) ;;
        *) echo "'$element'" ;;
        esac
    done
}
# The check itself, on what it must refuse and accept.
for path in "/usr/lib:" ":/usr/lib" "/a::/b" "lib" "." '/a:$ORIGINAL'; do
    [ -n "$(bad_runpath "$path")" ] || fail "this script accepts RUNPATH '$path'"
done
[ -z "$(bad_runpath '/usr/lib:$ORIGIN/../lib:${ORIGIN}')" ] || fail "this script refuses a good RUNPATH"
plugin=$(find "$build/plugins" "$build/lib" \( -name 'lib*.so' -o -name 'cusight-opencv.so' \) 2>/dev/null || true)
for file in $library $plugin $programs; do
    while IFS= read -r path; do
        [ -z "$(bad_runpath "$path")" ] || fail "$file: RUNPATH '$path' has the element $(bad_runpath "$path")"
    done < <(readelf -dW "$file" | sed -n 's/.*(R\(UN\)\?PATH).*\[\(.*\)\]$/\2/p')
done

# ---- No built file names the folders of sources and build; nor would one with debugging information. Sanitizers keep names of files.
if [ -z "$(option CUSIGHT_SANITIZE)" ]; then
    for file in $library $plugin $build/libcusight.a $build/bin/cusight-*; do
        [ ! -e "$file" ] || ! grep -qF -e "$source/" -e "$build/" "$file" || fail "$file names the folder that it was built in"
    done
    python3 - "$build" "$source" "$work" >"$work/paths" <<'PYTHON' || { cat "$work/paths"; fail "objects with debugging information name folders"; }
import json, os, shlex, subprocess, sys
build, source, work = sys.argv[1:]
entries, bad = json.load(open(os.path.join(build, "compile_commands.json"))), 0
for name in ("src/status.c", "src/build_information.c", "samples/diffstream/log.cpp"):
    for entry in (e for e in entries if os.path.relpath(e["file"], source) == name):
        command, made = shlex.split(entry["command"]), os.path.join(work, "debug.o")
        command[command.index("-o") + 1] = made
        subprocess.run([*command, "-g3", "-O0", "-U_FORTIFY_SOURCE", "-Wno-error"], cwd=entry["directory"], check=True)
        content = open(made, "rb").read()
        for folder in (source + "/", build):
            if folder.encode() in content:
                bad += 1
                print(name, "names", folder)
sys.exit(bad > 0)
PYTHON
fi

# ---- Protections
if [ "$(option CUSIGHT_HARDENING)" = OFF ] || [ -n "$(option CUSIGHT_SANITIZE)" ] || [ "$(option CUSIGHT_FUZZ)" = ON ]; then
    echo "the protections are not checked: they are off in this build"
else
    for file in $library $plugin $programs; do
        segments=$(readelf -lW "$file") dynamic=$(readelf -dW "$file")
        grep -q GNU_RELRO <<<"$segments" || fail "$file: no read-only relocations"
        grep -qE 'BIND_NOW|FLAGS_1.*NOW' <<<"$dynamic" || fail "$file: lazy binding, so the relocations stay writable"
        grep -q 'GNU_STACK.* RW ' <<<"$segments" || fail "$file: executable stack"
        [[ $file == *.so ]] || grep -q 'FLAGS_1.*PIE' <<<"$dynamic" || fail "$file: not position-independent"
    done
    undefined=$(nm -D --undefined-only "$library")
    for symbol in __stack_chk_fail __snprintf_chk; do
        grep -q " $symbol@" <<<"$undefined" || fail "libcusight.so does not use $symbol"
    done
    # Every source file of ours is compiled with the flags that the compiler has.
    python3 - "$build" "$source" "$(option CMAKE_BUILD_TYPE)" >"$work/flags" <<'PYTHON' || { cat "$work/flags"; fail "flags are missing"; }
import json, os, re, sys
build, source, kind = sys.argv[1:]
cache = open(os.path.join(build, "CMakeCache.txt")).read()
wanted = [flag for flag in ("-fstack-protector-strong", "-fstack-clash-protection", "-fcf-protection")
          if re.search("CUSIGHT_HAS%s:INTERNAL=1" % re.sub("[^A-Za-z0-9]", "_", flag), cache)]
bad = checked = 0
for entry in json.load(open(os.path.join(build, "compile_commands.json"))):
    name = os.path.relpath(entry["file"], source)
    # cusight_headers_alone compiles each public header and is linked into nothing.
    if name.startswith("..") or name.startswith("build") or "alone_cusight" in name:
        continue
    words = entry["command"].replace("-Xcompiler=", " ").replace(",", " ").split()
    needs = list(wanted)
    if not name.endswith(".cu") and kind != "Debug":
        needs.append("-D_FORTIFY_SOURCE=")
    for flag in needs:
        if not any(word.startswith(flag) for word in words):
            print("%s is compiled without %s" % (name, flag))
            bad += 1
    checked += 1
print("%d source files have %s" % (checked, " ".join(wanted)))
sys.exit(bad > 0 or checked < 50)
PYTHON
    cat "$work/flags"
fi

[ $failed = 0 ] || exit 1
echo "$(wc -l <"$work/exported") symbols, $(wc -w <<<"$programs") programs checked"
