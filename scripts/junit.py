"""Reads what ctest --output-junit or pytest --junitxml wrote. As a program: prints "PASSED FAILED SKIPPED" of a report, "0 1 0" if there is none."""
import sys
import xml.etree.ElementTree as tree
from dataclasses import dataclass


@dataclass
class Test:
    name: str
    outcome: str  # "passed", "failed" or "skipped"; "not begun" of together.py
    text: str  # all that the test printed


def outcome(case):
    """ctest also reports a test as not run if its program is missing; that is a failure here. pytest writes no status."""
    if case.get("status") is None:
        bad = case.find("failure") is not None or case.find("error") is not None
        return "failed" if bad else "skipped" if case.find("skipped") is not None else "passed"
    status, skipped = case.get("status"), case.find("skipped")
    if status == "run":
        return "passed"
    if status == "disabled" or (skipped is not None and skipped.get("message", "").startswith("SKIP_")):
        return "skipped"
    return "failed"


def read(path):
    """The tests of a report; an empty list if there is none or it is incomplete."""
    try:
        root = tree.parse(path).getroot()
    except (OSError, tree.ParseError):
        return []
    return [Test(case.get("name"), outcome(case), case.findtext("system-out") or "") for case in root.iter("testcase")]


def count(tests):
    counts = {name: sum(test.outcome == name for test in tests) for name in ("passed", "failed", "skipped", "not begun")}
    return {name: number for name, number in counts.items() if number or name != "not begun"}


if __name__ == "__main__":
    found = read(sys.argv[1])
    print(*count(found).values() if found else (0, 1, 0))
