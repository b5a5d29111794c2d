#!/usr/bin/env bash
# The recipes of packaging/: what they copy and call exists, their shell and Python parse, conda's recipe renders with and without CUDA,
# vcpkg's has this version. Nothing is built: scripts/test-elsewhere builds those for Conan and vcpkg. Arguments: build folder, source folder.
set -euo pipefail
. "$(dirname "$0")/../programs/support.sh"
for recipe in "$source"/packaging/*Dockerfile; do
    name=$(basename "$recipe")
    # Its RUN commands, continued lines joined.
    sed -e ':join' -e '/\\$/{N;s/\\\n//;b join' -e '}' "$recipe" | sed -n 's/^RUN //p' >"$work/commands"
    [ -s "$work/commands" ] || die "$name runs nothing"
    bash -n "$work/commands" || die "$name: syntax"
    for script in $(grep -o 'scripts/[a-z]*' "$work/commands" | sort -u); do
        [ -x "$source/$script" ] || die "$name calls $script"
    done
    grep -q "^FROM.* AS build$" "$recipe" || die "$name has no stage build"
done
grep -q '"name": "package"' "$source/CMakePresets.json" || die "the Dockerfile's preset is missing"
for script in "$source"/packaging/conda/*.sh; do
    bash -n "$script" || die "conda: syntax"
done
# conda-build runs a script of this name before those of the outputs, without their compilers.
[ ! -e "$source/packaging/conda/build.sh" ] || die "conda: build.sh belongs to no output"
python3 - "$source" <<'PYTHON' || die "recipes for vcpkg and Conan"
import glob, json, re, sys

def text(path):
    return open(f"{sys.argv[1]}/{path}").read()

project = text("CMakeLists.txt")
options = set(re.findall(r"(?:option|set)\(CUSIGHT_([A-Z0-9]+) ", project))
port, portfile, conan = json.loads(text("packaging/vcpkg/cusight/vcpkg.json")), text("packaging/vcpkg/cusight/portfile.cmake"), text("packaging/conan/conanfile.py")
version = re.search(r"project\(cusight VERSION ([0-9.]+)", project)[1]
assert port["version"] == version, f"vcpkg.json has version {port['version']}, expected {version}"
features = dict(re.findall(r"^    ([a-z0-9]+) CUSIGHT_(\w+)", portfile, re.MULTILINE))
assert features.keys() == port["features"].keys(), features
assert {*features.values(), *re.findall(r"-DCUSIGHT_(\w+)=", portfile)} <= options, portfile
compile(conan, "conanfile.py", "exec")
compile(text("packaging/conan/test_package/conanfile.py"), "conanfile.py", "exec")
assert {*re.search("for name in (.*):", conan)[1].replace('"', "").split(", ")} <= options, conan
for pattern in re.search("for pattern in (.*):", conan)[1].replace('"', "").split(", "):
    assert glob.glob(f"{sys.argv[1]}/{pattern}"), pattern
PYTHON
if python3 -c 'import jinja2, yaml' 2>/dev/null; then
    python3 - "$source" <<'PYTHON' || die "packaging/conda/meta.yaml"
import re, sys
import jinja2, yaml

source = sys.argv[1]
text = open(source + "/packaging/conda/meta.yaml").read()
for cuda in None, "13.0":
    names = {
        "load_file_regex": lambda path, regex_pattern, from_recipe_dir: re.search(regex_pattern, open(source + "/packaging/conda/" + path).read()),
        "compiler": lambda language: language, "pin_subpackage": lambda name, max_pin: name,
    }
    if cuda:
        names["cuda_compiler_version"] = cuda
    recipe = yaml.safe_load(jinja2.Environment(undefined=jinja2.StrictUndefined).from_string(text).render(names))
    assert re.fullmatch(r"\d+\.\d+\.\d+", recipe["package"]["version"]), recipe["package"]
    assert [output["name"] for output in recipe["outputs"]] == ["libcusight", "cusight"]
    for output in recipe["outputs"]:
        assert ("cuda" in output["requirements"]["build"]) == bool(cuda), output
        open(source + "/packaging/conda/" + output["script"]).close()
PYTHON
else
    echo "skipped: conda's recipe needs Python's jinja2 and yaml"
fi
echo "the recipes are well-formed"
