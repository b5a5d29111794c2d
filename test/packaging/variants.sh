#!/usr/bin/env bash
# The library's C sources compile in the ways that other machines compile them: as strict ISO C without OpenMP, by this compiler and
# by clang, if it is installed. Syntax only; warnings are errors if they are in this build. Arguments: build folder, source folder.
set -euo pipefail
build=$(cd "$1" && pwd) source=$(cd "$2" && pwd)
command -v python3 >/dev/null || { echo "skipped: there is no python3"; exit 77; }
python3 - "$build" "$source" <<'PYTHON'
import concurrent.futures, json, os, shlex, shutil, subprocess, sys

build, source = sys.argv[1:]
folders = tuple(os.path.join(source, name) + os.sep for name in ("src", "modules"))
commands = []
for entry in json.load(open(os.path.join(build, "compile_commands.json"))):
    path = os.path.join(entry["directory"], entry["file"])
    if path.startswith(folders) and path.endswith(".c") and "cusight_objects.dir" in entry["command"]:
        words = shlex.split(entry["command"])
        start = next(i for i, word in enumerate(words) if word.startswith("-"))  # after the compiler and its launcher
        keep = [w for w in words[start:] if w != "-c" and not w.startswith(("-std=", "-fsanitize", "-fno-sanitize"))]
        at = keep.index("-o")
        commands.append((words[start - 1], keep[:at] + keep[at + 2:], entry["directory"], os.path.relpath(path, source)))
assert len(commands) > 40, f"only {len(commands)} sources in compile_commands.json"

variants = ["", "clang"] if shutil.which("clang") else [""]

def compile(job):
    other, (compiler, words, directory, path) = job
    words = [w for w in words if not w.startswith("-fopenmp")] + ["-std=c11", "-Wno-unknown-pragmas"]
    if other:  # flags that this clang may not know are not warnings of the source
        words += ["-Wno-unknown-warning-option", "-Wno-ignored-optimization-argument", "-Wno-unused-command-line-argument"]
    done = subprocess.run([other or compiler] + words + ["-fsyntax-only"], cwd=directory, capture_output=True, text=True)
    return None if done.returncode == 0 else f"{path}, {other or compiler}:\n{done.stderr}"

jobs = [(variant, command) for variant in variants for command in commands]
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    wrong = [message for message in pool.map(compile, jobs) if message]
if wrong:
    sys.exit("\n".join(wrong[:20]) + f"\nFAILED: {len(wrong)} of {len(jobs)}")
print(f"{len(commands)} sources compile as ISO C11 without OpenMP" + (", by clang too" if len(variants) > 1 else ""))
PYTHON
