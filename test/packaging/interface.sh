#!/usr/bin/env bash
# The interface as data (scripts/interface), and what it holds binaries to: sizes, offsets, values and symbols are those of the committed
# table, structs can grow or say why not, and the loader refuses a program that was built for another minor version.
set -euo pipefail
. "$(dirname "$0")/../programs/support.sh"
export LC_ALL=C
library=$build/libcusight.so
cc=$(option CMAKE_C_COMPILER)

# ---- The loader, before 1.0: a stand-in for the library of 0.2, and a program that was linked with it
mkdir old new linked
echo 'const char *cusVersion(void) { return "0.2.0"; }' >old.c
echo 'CUSIGHT_0 { global: cus*; local: *; };' >old.map
printf '#include <stdio.h>\nconst char *cusVersion(void);\nint main(void) { return puts(cusVersion()) < 0; }\n' >main.c
"$cc" -shared -fPIC old.c -Wl,-soname,libcusight.so.0.2 -Wl,--version-script=old.map -o old/libcusight.so.0.2
"$cc" main.c old/libcusight.so.0.2 -o program
"$cc" main.c "$library" -o newer
soname=$(readelf -d "$library" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
ln -s "$(realpath "$library")" "new/$soname"
ln -s "$(realpath "$library")" linked/libcusight.so.0.2
[ "$soname" != libcusight.so.0.2 ] || fail "the library has the name of 0.2"
[ "$(LD_LIBRARY_PATH=old ./program)" = 0.2.0 ] || fail "the program does not run with its own library"
runs 127 'libcusight.so.0.2: cannot open shared object file' env LD_LIBRARY_PATH=new ./program
runs 1 "linked/libcusight.so.0.2: version .CUSIGHT_0' not found (required by ./program)" env LD_LIBRARY_PATH=linked ./program
version=$(sed -n 's/^#define CUSIGHT_VERSION_M[A-Z]* //p' "$source/include/cusight/core.h" | paste -sd .)
[ "$soname" = "libcusight.so.$version" ] || fail "SONAME is $soname, expected libcusight.so.$version"
case $(LD_LIBRARY_PATH=new ./newer) in
"$version".*) ;;
*) fail "a program of this version does not run" ;;
esac

# ---- The description
if ! python3 "$source/scripts/interface" --library "$library" >interface.json 2>err.txt; then
    grep -q 'needs Python' err.txt || fail "scripts/interface: $(cat err.txt)"
    [ $failed = 0 ] || exit 1
    echo "skipped: no libclang for Python (Debian: python3-clang)"
    exit 77
fi
python3 "$source/scripts/interface" --library "$library" | cmp - interface.json || fail "two runs of scripts/interface differ"
python3 "$source/scripts/interface" --table >table.txt
if ! diff -u "$source/test/packaging/interface.txt" table.txt >difference.txt; then
    cat difference.txt
    fail "the headers differ from test/packaging/interface.txt. Before a minor version (0.3.0) is released, all of it may change; later" \
        "only new functions, enumerators, and fields in the place of reserved ones may come. If that is so, write it anew:" \
        "scripts/interface --table --output test/packaging/interface.txt"
fi
python3 - "$source/docs/internals/interface.md" <<'PYTHON' || fail "see above"
import json, re, sys
found, bad = json.load(open("interface.json")), []
fixed = set(re.findall(r"`(cus\w+)`", "\n".join(re.findall(r"^\|([^|]*)\|", open(sys.argv[1]).read(), re.M))))
structs = {each["name"]: each for each in found["structs"] if each["name"].startswith("cus")}
for name, struct in structs.items():
    last = struct["fields"][-1]
    grows = last["name"] == "reserved" and last["type"] == f"uint64_t[{last['size'] // 8}]"
    if not grows and name not in fixed:
        bad.append(f"{name} has no reserved fields: add `uint64_t reserved[8];`, or say in docs/internals/interface.md why it cannot grow")
    if grows and name in fixed:
        bad.append(f"{name} has reserved fields, but docs/internals/interface.md says that it cannot grow")
    if name.endswith("Options") and not struct["defaults"]:
        bad.append(f"no function returns the defaults of {name}")
    for call, values in struct["defaults"].items():
        if any(values["reserved"]):
            bad.append(f"{call} has reserved fields other than 0")
bad += [f"docs/internals/interface.md speaks of {name}, which is no struct" for name in fixed - set(structs)]
for kind in ("functions", "structs", "typedefs", "macros"):
    for each in found[kind]:
        bad += [f"{each['name']} has no comment"] if not each["comment"] else []
        bad += [f"{each['name']}.{field['name']} has no comment" for field in each.get("fields", []) if not field["comment"]]
# What this test knows to be there, as it is spelled in the headers.
options = structs["cusStereoOptions"]["defaults"]["cusStereoDefaults()"]
if (options["border"], options["threshold"]) != ("CUS_STEREO_ZERO", 0.2) or len(found["functions"]) < 190 or len(structs) < 40:
    bad.append(f"the description lacks something: {options}, {len(found['functions'])} functions, {len(structs)} structs")
print("\n".join(bad) or f"{len(found['functions'])} functions, {len(structs)} structs, {len(fixed)} of them fixed")
sys.exit(bool(bad))
PYTHON
finish
