"""compute-sanitizer over the quick CUDA tests: each tool in several processes, all of them side by side, run by ctest."""
import re
import shutil
import subprocess
from pathlib import Path

import junit
import together

PROCESSES = {"memcheck": 3, "racecheck": 6, "initcheck": 4, "synccheck": 3}  # more for the slow tools
# Tests that take minutes under a tool; other tests run the same kernels.
TOO_SLOW = {"racecheck": ("Match.HighWindows/cuda", "EventPipeline.PiecesEqualTheWhole/cuda", "Integral.SizesTypesAndLayouts/cuda",
                          "Stereo.FullAgreementGivesTheExtremeShiftByTheTieRule/cuda",
                          "Stereo.ElevationEqualsTheReferenceForAllWindowsAndShifts/cuda", "MatchWorstCuda.Graph",
                          "MatchWorstCuda.SubpixelBesideEarlierMatches"),
            "initcheck": ("IntegralAdversarial.OtherImagesInTurnInOneObject/cuda",)}
THOUSANDS_OF_LAUNCHES = ("GraphCuda.ReplaysGiveWhatPlainCallsGive", "Misuse.ChecksTakeLessThanAMicrosecond/cuda",
                         "MisuseCuda.SecondStreamWaits", "MotionScenes.LearnsByTime/cuda", "Match.BatchEqualsOneByOne/cuda",
                         "RawStreams.CountersWrap/cuda")
# Racecheck looks inside kernels only, and with launches from two threads it hangs (CUDA 13.0).
OF_THREADS = {"racecheck": "Threads|BesideEachOther"}
ENVIRONMENT = {"racecheck": "CUDA_LAUNCH_BLOCKING=1"}
# Tests of exhausted memory make calls fail on purpose: no findings.
FLAGS = {"memcheck": ["--report-api-errors", "no"]}
# Racecheck misses barriers of the whole block beside those of some warps (CUDA 13.0: it named stores and loads with a barrier of all
# threads between them); initcheck counts all 16 bytes of an asynchronous copy of fewer.
KERNELS = {"racecheck": "wgmmaKernel", "initcheck": "wgmmaKernel"}


def find_checker():
    """The path of compute-sanitizer, or None."""
    path = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    return path if Path(path).exists() else None


def run(tools, program, folder, times, seconds):
    """Runs `tools` over the tests in `times` ({name: milliseconds without a sanitizer}). Returns "clean" or what was found.
    All output stays in `folder`/report.xml."""
    checker = find_checker()
    if not checker:
        return "not run: there is no compute-sanitizer"
    if not times:
        return "not run: no test is quick enough"
    folder.mkdir(exist_ok=True)
    shares, left_out = deal(tools, times)
    write_tests(checker, program, folder, shares, seconds)
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    subprocess.run(["ctest", "--test-dir", str(folder), "-j", str(len(shares)), "--output-junit", str(report), *together.OUTPUT],
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    outputs = {test.name: test for test in junit.read(report)}
    found = [finding(name, names, outputs.get(name)) for name, names in shares.items()]
    return "; ".join([text for text in found if text] or ["clean", *left_out])


def deal(tools, times):
    """({"memcheck-0": [test, ...], ...}, what tools leave out). Slow tests are dealt first, in turn, so that all processes of a
    tool take about as long."""
    names = sorted(times, key=lambda name: -times[name])
    shares, left_out = {}, []
    for tool in tools:
        chosen = [name for name in names if name not in TOO_SLOW.get(tool, ()) + THOUSANDS_OF_LAUNCHES
                  and not (tool in OF_THREADS and re.search(OF_THREADS[tool], name))]
        if len(chosen) < len(names):
            left_out.append(f"{tool} without " + ", ".join(name for name in names if name not in chosen))
        if tool in KERNELS:
            left_out.append(f"{tool} without {KERNELS[tool]}")
        count = PROCESSES.get(tool, 3)
        shares.update({f"{tool}-{k}": chosen[k::count] for k in range(count) if chosen[k::count]})
    return shares, left_out


def write_tests(checker, program, folder, shares, seconds):
    """Makes `folder` one that ctest runs: a test for each share."""
    lines = []
    for name, tests in shares.items():
        tool = name.split("-")[0]
        flags = folder / f"{name}.flags"
        flags.write_text("--gtest_filter=" + ":".join(tests) + "\n", encoding="utf-8")
        left_out = ["--kernel-name-exclude", f"kns={KERNELS[tool]}"] if tool in KERNELS else []
        command = [checker, "--tool", tool, *FLAGS.get(tool, []), *left_out, str(program), f"--gtest_flagfile={flags}"]
        lines.append(together.add_test(name, command, [("TIMEOUT", f"{seconds:g}"), ("ENVIRONMENT", ENVIRONMENT.get(tool, ""))]))
    (folder / "CTestTestfile.cmake").write_text("".join(lines), encoding="utf-8")


def finding(name, planned, test):
    """What is wrong with one process, or "". Prints its details."""
    text = test.text if test else ""
    ended = together.ended(text)
    begun = re.findall(r"^\[ RUN +\] (\S+)", text, re.M)
    summary = re.search(r"(?:ERROR|RACECHECK) SUMMARY: (\d+) (?:error|hazard).*", text)
    progress = f"{len(ended)} of {len(planned)} tests done"
    if summary is None:
        what = f"no summary (out of time?), {progress}, the last begun is {begun[-1] if begun else 'none'}"
        print(f"--- {name} did not reach {', '.join(t for t in planned if t not in begun)}")
    elif int(summary.group(1)):
        first = re.search(r"^========= (?!COMPUTE-SANITIZER)(.+)$", text, re.M)
        what = f"{summary.group(0)} ({first.group(1).strip() if first else ''})"
    elif test.outcome != "passed" or len(ended) < len(planned):
        failed = [test for test, result in ended.items() if result == "FAILED"]
        what = ", ".join([progress, test.outcome, *failed])
    else:
        return ""
    print(f"--- {name}: {what}\n" + "\n".join(line for line in text.splitlines() if "=========" in line)[:2500])
    return f"{name}: {what}"
