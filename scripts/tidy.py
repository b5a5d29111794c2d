"""tidy.py CLANG_TIDY FOLDER CACHE JOBS FILE...: clang-tidy over files by FOLDER/compile_commands.json, several at once, in their order.
A file that passed is not checked again while clang-tidy, the checks, the flags and all that the file includes are the same: hashes of
what passed are kept in CACHE, unused ones for a month. Exits with 1 if a file fails."""
import concurrent.futures
import functools
import hashlib
import json
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

MONTH = 30 * 86400


def preprocessor(tidy):
    """The clang of clang-tidy's version, or None."""
    name = Path(tidy).name
    return shutil.which(name.replace("clang-tidy", "clang")) if name.startswith("clang-tidy") else shutil.which("clang")


def checks_of(file):
    """The settings that hold for a file: those of its folder and of all above it."""
    return "".join(path.read_text() for folder in Path(file).resolve().parents if (path := folder / ".clang-tidy").exists())


@functools.lru_cache(maxsize=None)
def hash_of_file(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def hash_of(file, command, clang, version, root):
    """What clang-tidy's answer depends on, or None if that cannot be said."""
    words = [word for word in shlex.split(command["command"])[1:] if not word.startswith("-W")]
    while words and not words[0].startswith("-"):  # the compiler, after its launcher
        words.pop(0)
    at = words.index("-o")
    words = [word for word in words[:at] + words[at + 2:] if word != "-c"]
    done = subprocess.run([clang, "-M", "-w", *words], cwd=command["directory"], capture_output=True, text=True)
    if done.returncode != 0:
        return None
    included = done.stdout.split(":", 1)[1].replace("\\\n", " ").split()
    # The folder of the checkout and of the build are no matter.
    def anywhere(text):
        return text.replace(command["directory"], "build").replace(root, ".")
    parts = [version, checks_of(file), anywhere(" ".join(words))]
    for path in included:
        parts += [anywhere(path), hash_of_file(Path(command["directory"], path))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def check(job):
    file, command, tidy, clang, version, root, folder, cache = job
    key = hash_of(file, command, clang, version, root) if clang else None
    mark = cache / key if key else None
    if mark and mark.exists():
        mark.touch()
        return True, ""
    done = subprocess.run([tidy, "--quiet", "-p", folder, file], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if mark and done.returncode == 0 and not done.stdout:
        mark.touch()
    return done.returncode == 0, done.stdout


def main(tidy, folder, cache, jobs, *files):
    cache = Path(cache)
    cache.mkdir(parents=True, exist_ok=True)
    for mark in cache.iterdir():
        if mark.stat().st_mtime < time.time() - MONTH:
            mark.unlink()
    root = str(Path(__file__).resolve().parent.parent)
    commands = {command["file"]: command for command in json.loads(Path(folder, "compile_commands.json").read_text())}
    version = subprocess.run([tidy, "--version"], capture_output=True, check=True, text=True).stdout
    clang = preprocessor(tidy)
    passed = True
    with concurrent.futures.ThreadPoolExecutor(int(jobs)) as pool:
        names = [str(Path(file).resolve()) for file in files]
        for holds, said in pool.map(check, [(name, commands[name], tidy, clang, version, root, folder, cache) for name in names]):
            passed = passed and holds
            print(said, end="", flush=True)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
