"""Tests that ctest starts one by one, many in a process: on a GPU machine a process takes seconds to begin, with a sanitizer a fifth of a
second, and a test milliseconds. As a program: together.py BUILD AT_ONCE CTEST... runs what that ctest command selects in the build
folder BUILD, prints what failed and names what was skipped, and writes "PASSED FAILED SKIPPED" to BUILD/counts."""
import json
import os
import re
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import junit

OUTPUT = ["--test-output-size-passed", "100000000", "--test-output-size-failed", "100000000"]
ALONE = {"RUN_SERIAL", "RESOURCE_LOCK", "ENVIRONMENT", "DISABLED"}  # what is said of one test
RESULT = re.compile(r"^\[ +(OK|FAILED|SKIPPED) +\] (\S+)(?:,.*)? \(\d+ ms\)$", re.M)


def add_test(name, command, properties):
    """The lines of a CTestTestfile.cmake for one test; properties: [(name, value)]."""
    line = f"add_test([=[{name}]=] " + " ".join(f"[=[{word}]=]" for word in command) + ")"
    values = " ".join(f"{key} [=[{';'.join(value) if isinstance(value, list) else value}]=]" for key, value in properties)
    return f"{line}\nset_tests_properties([=[{name}]=] PROPERTIES {values})\n"


def is_set(value):
    """Whether a property of a test says anything; some versions of ctest list those that were set to nothing or FALSE."""
    return any(value) if isinstance(value, list) else value not in (False, None, "", "FALSE", 0)


def ended(text):
    """{test: "OK", "FAILED" or "SKIPPED"} of what GoogleTest printed."""
    return {name: result for result, name in RESULT.findall(text)}


def program_of(call, name):
    """The GoogleTest program that a test's command runs for this test alone, or None. CMake 4.4 starts it by a script."""
    if f"--gtest_filter={name}" in call:
        return call[0]
    by_script = [word.partition("=")[2] for word in call if word.startswith("TEST_EXECUTABLE=")]
    return by_script[0] if by_script and f"TEST_FILTER={name}" in call else None


def listed(command):
    """The tests that a ctest command selects, as ctest describes them."""
    shown = subprocess.run([*command, "--show-only=json-v1"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    return json.loads(shown.stdout or '{"tests": []}')["tests"]


def tests_of(text, names):
    """[junit.Test] of a process that ran the tests `names`; one that it has not ended has failed, and those after it have not begun."""
    outcomes = {"OK": "passed", "FAILED": "failed", "SKIPPED": "skipped"}
    results, parts = ended(text), re.split(r"^\[ RUN +\] (\S+)$", text, flags=re.M)
    begun = dict(zip(parts[1::2], parts[2::2]))
    return [junit.Test(name, outcomes.get(results.get(name), "failed") if name in begun else "not begun", begun.get(name, ""))
            for name in names]


def run(command, folder, at_once, seconds, environment):
    """Runs what a ctest command selects, `at_once` tests or processes of many tests at a time, for at most so many seconds:
    ([junit.Test], what ctest printed). Tests of which ctest knows something (to run alone, a lock, a variable) have a process each."""
    folder = folder.resolve()
    selected = listed(command)
    properties = {test["name"]: [(p["name"], p["value"]) for p in test["properties"] if is_set(p["value"])] for test in selected}
    words = {test["name"]: test["command"] for test in selected if "command" in test}
    plain = {}
    for name, call in words.items():
        program = program_of(call, name)
        if program and not ALONE & {key for key, _ in properties[name]}:
            plain.setdefault(program, []).append(name)
    folder.mkdir(parents=True, exist_ok=True)
    environment_file = folder.parent / "test" / "environment.cmake"
    lines, shares = [f"include([=[{environment_file}]=] OPTIONAL)\n"], {}
    for program, names in plain.items():
        count = min(len(names), 3 * at_once)
        for k in range(count):
            share = f"{Path(program).name} {k}"
            shares[share] = names[k::count]
            flags = folder / f"{share}.flags"
            flags.write_text("--gtest_filter=" + ":".join(shares[share]) + "\n", encoding="utf-8")
            limits = [(key, value) for key, value in properties[names[0]] if key == "WORKING_DIRECTORY"] + [("TIMEOUT", f"{seconds:g}")]
            lines.append(add_test(share, [program, f"--gtest_flagfile={flags}"], limits))
    together = {name for names in shares.values() for name in names}
    lines += [add_test(name, call, properties[name]) for name, call in words.items() if name not in together]
    (folder / "CTestTestfile.cmake").write_text("".join(lines), encoding="utf-8")
    print(f"{len(words)} tests in {len(lines) - 1} processes", flush=True)
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    end = datetime.now() + timedelta(seconds=seconds)
    done = subprocess.run(["ctest", "--test-dir", str(folder), "-j", str(at_once), "--stop-time", end.strftime("%H:%M:%S"),
                           "--output-junit", str(report), *OUTPUT],
                          env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    tests = []
    for test in junit.read(report):
        inside = tests_of(test.text, shares[test.name]) if test.name in shares else []
        is_shown = test.outcome != "failed" or any(t.outcome == "failed" for t in inside)  # else it failed at its end, by a leak
        tests += inside if inside and is_shown else [*inside, test]
    reported = {test.name for test in tests}
    tests += [junit.Test(name, "not begun", "") for name in words if name not in reported]
    return tests, done


def main(build, at_once, *command):
    folder = Path(build)
    (folder / "counts").unlink(missing_ok=True)
    tests, done = run(command, folder / "together", int(at_once), 3000, os.environ)
    if not tests or (done.returncode and all(test.outcome in ("passed", "skipped") for test in tests)):
        tests.append(junit.Test(f"ctest (exit status {done.returncode})", "failed", done.stdout))
    count = dict.fromkeys(("passed", "failed", "skipped"), 0)
    for test in tests:
        outcome = "failed" if test.outcome == "not begun" else test.outcome
        count[outcome] += 1
        if outcome != "passed":
            print(f"{outcome}: {test.name}" + (f" ({test.outcome})\n{test.text}" if outcome == "failed" else ""))
    (folder / "counts").write_text(" ".join(map(str, count.values())) + "\n", encoding="utf-8")
    return count["failed"] > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
