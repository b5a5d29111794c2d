# The scripts around the performance suite: compare, targets, report, and what gpu-check reads of other programs. Arguments:
# build folder, source folder.
set -eu
. "$(dirname "$0")/../programs/support.sh"
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
mkdir "$work/results"

result() { # heatmap's median, encode's median
    cat <<END
{
"gpu": "NVIDIA H100 80GB HBM3", "driver": "1", "cuda": "13.0", "copy_gbps": 4000, "fingerprint": "0123456789abcdef",
"tests": {"passed": 3, "failed": 0, "skipped": 1}, "sanitizer": "clean",
"profiles": [
{"row": "framediff/heatmap/3840x2160", "kernel": "heatmapKernel", "launches": 1, "metrics": {"us": 20.5, "dram_read_mb": 50, "dram_write_mb": 25, "dram_pct": 88, "issue_pct": 40, "stalls": {"long_scoreboard": 9.5}}},
{"row": "framediff/encode/3840x2160/3pct", "kernel": "encodeKernel", "launches": 2, "metrics": {"us": 10, "dram_read_mb": 50, "dram_write_mb": 2, "dram_pct": 50, "issue_pct": 40, "stalls": {"not_selected": 3, "barrier": 2}}}
],
"rows": [
{"id": "framediff/heatmap/3840x2160", "backend": "cuda", "median_ms": $1, "min_ms": $1, "max_ms": $1, "samples": 9, "bytes": 74649600, "fraction_of_copy": 0.9, "peers": {"published": 0.05, "npp": 0.01, "half alone": 0.001}},
{"id": "framediff/encode/3840x2160/3pct", "backend": "cuda", "median_ms": $2, "min_ms": $2, "max_ms": $2, "bytes": 49766400, "fraction_of_copy": 0.5, "peers": {}, "calls": {"count": 1010, "p50_us": 30.5, "p99_us": 31.5, "p99_9_us": 60, "p99_99_us": 90, "max_us": 950.5, "histogram_us": {"30": 1000, "31": 9, "950": 1}}, "note": "<&>"},
{"id": "sweep/framediff/heatmap/pixels=1e6", "backend": "cuda", "median_ms": 0.01, "min_ms": 0.01, "max_ms": 0.01, "bytes": 9000000, "fraction_of_copy": 0.2, "peers": {}},
{"id": "sweep/framediff/heatmap/pixels=1e8", "backend": "cuda", "median_ms": 0.3, "min_ms": 0.3, "max_ms": 0.3, "bytes": 900000000, "fraction_of_copy": 0.8, "peers": {}}
]
}
END
}
result 0.022 0.030 >"$work/old.json"
result 0.0286 0.029 >"$work/new.json"

"$source/scripts/compare" "$work/old.json" "$work/old.json" >"$work/same" || die "a file is slower than itself"
if "$source/scripts/compare" "$work/old.json" "$work/new.json" >"$work/slower"; then die "30 % slower goes unnoticed"; fi
grep -q '^slower  framediff/heatmap/3840x2160 .*+30.0 %' "$work/slower" || die "compare does not name what got slower"
grep -q '^faster  framediff/encode/3840x2160/3pct .*-3.3 %' "$work/slower" || die "compare does not name what got faster"

cp "$work/new.json" "$work/results/some-gpu.json"
report() {
    python3 "$source/perf/report" --results "$work/results" --docs "$work/docs" "$@"
}
page=$work/docs/performance.md
sed 's/NVIDIA H100 80GB HBM3/Another GPU/' "$work/new.json" >"$work/results/some-gpu.json"
report
if grep -qF '0.0274 ms' "$page"; then die "a target in milliseconds is shown for a GPU that it is not of"; fi
cp "$work/new.json" "$work/results/some-gpu.json"
if report --check >"$work/check"; then die "a page that is not there is called up to date"; fi
report
report --check || die "a page just written is called out of date"
touch "$work/docs/plots/some-gpu-gone.svg"
if report --check >"$work/check"; then die "a plot that is no longer shown goes unnoticed"; fi
report && report --check || die "a plot that is no longer shown stays"
report --site
page=$work/docs/performance.md
shows() { # TEXT REASON
    grep -qF "$1" "$page" || die "$2"
}
shows '| `framediff/heatmap/3840x2160` | 0.0286 ms | 0.0274 ms, **missed** |' "a missed target is not shown"
shows '| npp 0.0100 |' "the best of the others is not the one that does all the work"
shows 'faster than cusight are: npp at `framediff/heatmap/3840x2160` (2.86x)' "a faster one of the others is not named"
shows 'medians of 9 to 9 samples' "the number of samples is not that of the rows"
shows '0.0274 ms, **missed** | 0.0187 | 1.53 |' "the floor is not at the copy rate of the device"
shows '| `framediff/encode/3840x2160/3pct` | 1010 | 30 | 32 | 60 | 90 | 950 | <&> |' "single calls are not shown"
shows '`integral/8u32s/1920x1080` (cuda), ' "a target without a row is not named"
sed 's/"fingerprint": "0/"date": "2026-11-30", "fingerprint": "1/; s/NVIDIA H100 80GB HBM3/NVIDIA H200/' "$work/new.json" >"$work/results/newer.json"
report
shows '; **older** sources `0123456789ab`, file' "older sources are not called so"
[ "$(grep -c '0.0274 ms, \*\*missed' "$page")" = 2 ] || die "a target is not shown for each of its GPUs"
sed -n '/^## /p' "$page" | head -1 | grep -q H200 || die "the newest is not the first"
rm "$work/results/newer.json"
report
page=$work/docs/measurements.md
shows '| `framediff/encode/3840x2160/3pct` | 0.0290 | 0.0290 | 1716 | 50 % |  | <&> |' "a row is not shown"
shows '| `heatmapKernel` | 20.5 | 50 + 25 | 88 % |  |  | 40 % |  | long_scoreboard 9.5 | memory bandwidth |' "no limit by a ceiling"
shows '| `encodeKernel` x 2 | 10.0 | 50 + 2 | 50 % |  |  | 40 % |  | not_selected 3.0, barrier 2.0 | latency: waits for barriers |' "no limit by latency"
page=$work/docs/performance.md
for plot in floor peers calls sweep-framediff-pixels; do
    python3 -c 'import sys, xml.dom.minidom as x; x.parse(sys.argv[1])' "$work/docs/plots/some-gpu-$plot.svg" || die "$plot is no XML"
    grep -q "plots/some-gpu-$plot.svg" "$page" || die "$plot is not in the document"
done

# measure-video leaves out the start of a program, here one that takes 0.3 s and then makes 20,000 frames a second.
mkdir -p "$work/build/bin" "$work/clips"
cat >"$work/build/bin/cusight-heatmap" <<'PYTHON'
#!/usr/bin/env python3
import json, pathlib, sys, time
inputs = [pathlib.Path(word) for word in sys.argv if word.endswith(".h264")]
frames = len(inputs) * int(sys.argv[sys.argv.index("--frames") + 1])
once = b"".join(b"\0\0\0\1" + unit for unit in (b"sps", b"pps", b"first", b"2nd"))
assert all(one.read_bytes() == 2 * once for one in inputs), inputs[0].read_bytes()
time.sleep(0.3 + frames / 20000)
pathlib.Path(sys.argv[sys.argv.index("--report") + 1]).write_text("report")
print(json.dumps({"frames": frames, "stages_ms": {}}))
PYTHON
chmod +x "$work/build/bin/cusight-heatmap"
python3 - "$work/clips" <<'PYTHON'
import sys
def box(kind, content): return (8 + len(content)).to_bytes(4, "big") + kind + content
units = b"\0\0\0\5first\0\0\0\0032nd"
for i in range(5):
    open(f"{sys.argv[1]}/1080p-{i}.mp4", "wb").write(box(b"ftyp", b"isom") + box(b"mdat", units) + box(
        b"moov", box(b"trak", box(b"avcC", b"\1\144\0\50\377\341\0\3sps\1\0\3pps"))))
PYTHON
python3 "$source/scripts/measure-video" "$work/build" --clips "$work/clips" --only motion --seconds 10 >"$work/row" 2>"$work/said" || die "measure-video: $(cat "$work/said")"
python3 -c 'import json, sys
row = json.load(open(sys.argv[1]))
sys.exit(not (15000 < row["frames_per_second"] < 25000 and 0.25 < row["start_seconds"] < 2 and row["cores"] < 0.5))' "$work/row" || die "measure-video: $(cat "$work/row")"

# Neither package is needed; what is not there is said.
python3 "$source/perf/peers/python/torch_cupy.py" --check >"$work/packages" 2>"$work/said" || die "torch_cupy.py: $(cat "$work/said")"
grep -q '^{}$' "$work/packages" || die "torch_cupy.py --check measures"
for package in torch cupy; do
    grep -q "$package.*: " "$work/said" || die "torch_cupy.py says nothing of $package"
done

python3 - "$source" <<'END' || die "what is read from ncu's table"
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1] + "/perf/report")
import nsight as check

stall = "smsp__average_warps_issue_stalled_%s_per_issue_active.ratio"
columns = ["Kernel Name", *check.SUMS, "dram__throughput.avg.pct_of_peak_sustained_elapsed", stall % "barrier", stall % "selected",
           stall % "not_selected"]
lines = [columns, ["", "ns", "byte", "byte", "%", "", "", ""], ["a", "1,000", "4,000,000", "0", "10", "3", "1", "2"],
         ["b", "500", "0", "0", "1", "0", "1", "0"], ["a", "3,000", "2,000,000", "0", "50", "1", "1", "2"]]
text = "==PROF== something\n" + "\n".join(",".join(f'"{cell}"' for cell in line) for line in lines) + "\n"
a, b = check.kernels_of(text)
assert a["kernel"] == "a" and a["launches"] == 2 and b["kernel"] == "b" and b["launches"] == 1
assert a["metrics"] == {"us": 2, "dram_read_mb": 3, "dram_write_mb": 0, "dram_pct": 40, "stalls": {"not_selected": 2, "barrier": 1.5}}
assert check.kernels_of("") == [] == check.kernels_of("==ERROR== no counters\n")
END

python3 - "$source" "$work" <<'END' || die "sanitizers.py"
import os
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1] + "/scripts")
from pathlib import Path
import sanitizers

work = Path(sys.argv[2])
# A compute-sanitizer that finds an error if the test "Bad" runs under memcheck, and a program of tests.
(work / "compute-sanitizer").write_text("""#!/bin/sh
for flags; do :; done
tests=$(sed 's/--gtest_filter=//; s/:/ /g' "${flags#--gtest_flagfile=}")
for test in $tests; do echo "[ RUN      ] $test"; [ $test != Hangs ] || sleep 9
    [ $test = Fails ] && echo "[  FAILED  ] $test (1 ms)" || echo "[       OK ] $test (1 ms)"
done
case "$*,$tests" in
*memcheck*Bad*) echo "========= Invalid read"; echo "========= ERROR SUMMARY: 1 error"; exit 1 ;;
*racecheck*) [ "$CUDA_LAUNCH_BLOCKING" = 1 ] && echo "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)" ;;
*) echo "========= ERROR SUMMARY: 0 errors" ;;
esac
case $tests in *Fails*) exit 1 ;; esac
""")
(work / "compute-sanitizer").chmod(0o755)
os.environ["PATH"] = f"{work}:{os.environ['PATH']}"
program = work / "program"


def run(tools, names, seconds=60):
    return sanitizers.run(tools, program, work / "sanitizer", {name: 1 for name in names}, seconds)


tools = list(sanitizers.PROCESSES)
assert run(tools, ["A.b/cuda", "C.d/cuda", "E.f/cuda", "G.h/cuda"]) == "clean; racecheck without wgmmaKernel; initcheck without wgmmaKernel"
assert run(tools, ["A.b/cuda", "Match.HighWindows/cuda"]) == (
    "clean; racecheck without Match.HighWindows/cuda; racecheck without wgmmaKernel; initcheck without wgmmaKernel")
assert run(tools, ["A.b/cuda", "Bad"]) == "memcheck-1: ERROR SUMMARY: 1 error (Invalid read)"
late = run(["synccheck"], ["A.b/cuda", "Hangs"], 1)
assert late.startswith("synccheck-1: no summary (out of time?), 0 of 1 tests done, the last begun is Hangs"), late
assert run(["initcheck"], ["A.b/cuda", "Fails"]) == "initcheck-1: 1 of 1 tests done, failed, Fails"
assert run(tools, []) == "not run: no test is quick enough"
END

python3 - "$source" "$work" <<'END' || die "junit.py"
import subprocess
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1] + "/scripts")
from pathlib import Path
import junit

folder = Path(sys.argv[2]) / "junit"
folder.mkdir()
(folder / "CTestTestfile.cmake").write_text("""add_test(good true)\nadd_test(bad false)\nadd_test(missing /no/program)
add_test(skips sh -c "exit 77")\nset_tests_properties(skips PROPERTIES SKIP_RETURN_CODE 77)\n""")
subprocess.run(["ctest", "--test-dir", folder, "--output-junit", folder / "report.xml"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
found = junit.read(folder / "report.xml")
assert {test.name: test.outcome for test in found} == {"good": "passed", "bad": "failed", "missing": "failed", "skips": "skipped"}
assert junit.count(found) == {"passed": 1, "failed": 2, "skipped": 1}
assert junit.read(folder / "no report") == []
END

python3 - "$source" "$work" <<'END' || die "together.py"
import contextlib
import io
import os
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1] + "/scripts")
from pathlib import Path
import junit
import together

folder = Path(sys.argv[2]) / "together"
folder.mkdir()
program = folder / "tests"  # a program of tests that says how often it was started
program.write_text("""#!/bin/sh
echo >>"$(dirname "$0")/starts"
case $1 in --gtest_flagfile=*) flags=$(cat "${1#--gtest_flagfile=}") ;; *) flags=$1 ;; esac
for test in $(echo "$flags" | sed 's/--gtest_filter=//; s/:/ /g'); do
    echo "[ RUN      ] $test"; echo "text of $test"
    case $test in
    *Bad*) echo "[  FAILED  ] $test, where GetParam() = x (2 ms)"; status=1 ;;
    *Skips*) echo "[  SKIPPED ] $test (0 ms)" ;;
    *Dies*) kill -9 $$ ;;
    *Slow*) exec sleep 9 ;;
    *) echo "[       OK ] $test (1 ms)" ;;
    esac
    case $test in *Leaks*) status=1 ;; esac
done
exit ${status:-0}
""")
program.chmod(0o755)


def outcomes(names, alone=(), seconds=60):
    lines = [together.add_test(name, [str(program), f"--gtest_filter={name}", "--gtest_also_run_disabled_tests"],
                               [("TIMEOUT", "50")] + [("RUN_SERIAL", "True")] * (name in alone)) for name in names]
    (folder / "CTestTestfile.cmake").write_text("".join(lines))
    (folder / "starts").write_text("")
    tests, _ = together.run(["ctest", "--test-dir", str(folder)], folder / "work", 1, seconds, dict(os.environ))
    assert {test.name for test in tests} - {"tests 0"} == set(names), tests
    assert all(f"text of {test.name}\n" in test.text and test.text.count("text of") == 1 for test in tests if test.outcome == "passed")
    return {test.name: test.outcome for test in tests}, len((folder / "starts").read_text())


many = [f"A.Test{k}/cuda" for k in range(40)]
found, starts = outcomes([*many, "B.Bad/0", "B.Skips", "C.Alone"], ["C.Alone"])
assert found == {**dict.fromkeys(many, "passed"), "B.Bad/0": "failed", "B.Skips": "skipped", "C.Alone": "passed"}, found
assert starts == 4, starts
found, _ = outcomes(["A.A", "A.Dies", "B.B", "B.C", "B.D", "B.E"])  # A.Dies and B.D share a process
assert found == {"A.A": "passed", "A.Dies": "failed", "B.B": "passed", "B.C": "passed", "B.D": "not begun", "B.E": "passed"}, found
found, _ = outcomes(["A.Leaks"])
assert found == {"A.Leaks": "passed", "tests 0": "failed"}, found
found, _ = outcomes(["A.Slow", "B.B", "B.C"], ["B.C"], 3)
assert found["A.Slow"] == "failed" and "not begun" in found.values(), found
by_script = ["cmake", "-D", "TEST_EXECUTABLE=/b/tests", "-D", "TEST_FILTER=A.b/cuda", "-P", "LaunchTest.cmake"]
assert together.program_of(by_script, "A.b/cuda") == "/b/tests" and together.program_of(by_script, "A.b") is None
assert [together.is_set(v) for v in (True, ["lock"], 1, False, [], [""], 0, "FALSE")] == [True] * 3 + [False] * 5
outcomes(["A.A", "A.Dies", "B.B", "B.C", "B.D", "B.Skips"])
shown = io.StringIO()
with contextlib.redirect_stdout(shown):
    assert together.main(os.path.relpath(folder), "1", "ctest", "--test-dir", str(folder))
assert (folder / "counts").read_text() == "3 2 1\n", shown.getvalue()
assert "skipped: B.Skips\n" in shown.getvalue() and "failed: B.D (not begun)\n" in shown.getvalue() and "failed: A.Dies" in shown.getvalue()
assert junit.count(together.tests_of("", ["a"])) == {"passed": 0, "failed": 0, "skipped": 0, "not begun": 1}
END

# tidy.py keeps what passed, while neither the sources with their comments, nor the checks, nor the linter change; never what failed.
mkdir "$work/linted" "$work/linter"
cd "$work/linted"
printf '#!/bin/sh\nexec cc "$@"\n' >"$work/linter/clang"
cat >"$work/linter/tidy" <<'END'
#!/bin/sh
case $* in --version) cat "$0.version"; exit ;; esac
for file; do :; done
echo "$file" >>"$0.runs"
! grep -n BAD "$file"
END
chmod +x "$work/linter"/*
echo 1 >"$work/linter/tidy.version"
echo '#define WIDTH 3 // NOLINT' >a.h
echo 'int a[] = {0};' >a.c
printf '#include "a.h"\nint b[] = {WIDTH};\n' >b.c
echo 'int c; // BAD' >c.c
python3 - <<'END'
import json, os
here = os.getcwd()
json.dump([{"directory": here, "file": f"{here}/{name}.c", "command": f"ccache /usr/bin/cc -DX -Wall -o {name}.o -c {here}/{name}.c"} for name in "abc"],
          open("compile_commands.json", "w"))
END
lints() { # EXPECTED FILE...: those that clang-tidy runs over
    local expected=$1 code=0
    shift
    : >"$work/linter/tidy.runs"
    PATH=$work/linter:$PATH python3 "$source/scripts/tidy.py" "$work/linter/tidy" . "$work/kept" 2 "$@" >said || code=$?
    case " $* " in *c.c*) [ $code = 1 ] && grep -q BAD said || die "tidy.py: a bad file passes" ;; *) [ $code = 0 ] || die "tidy.py: $(cat said)" ;; esac
    [ "$(sed 's,.*/,,' "$work/linter/tidy.runs" | sort | paste -sd ' ')" = "$expected" ] || die "tidy.py runs over '$(cat "$work/linter/tidy.runs")', not '$expected'"
}
lints "a.c b.c c.c" a.c b.c c.c
lints "c.c" a.c b.c c.c
echo '#define WIDTH 3 // as it were' >a.h
lints "b.c" a.c b.c
echo 'Checks: -*' >.clang-tidy
lints "a.c b.c" a.c b.c
echo 2 >"$work/linter/tidy.version"
lints "a.c b.c" a.c b.c
lints "" a.c b.c
cd "$work"

# The fingerprint is what git would say of the committed files.
gpu_sources=(-- '*.cu' '*.cuh' 'src/*.h' 'modules/*/*.h' ':!perf' ':!modules/eventio' ':!modules/live')
if git -C "$source" diff --quiet HEAD "${gpu_sources[@]}" 2>/dev/null && [ -z "$(git -C "$source" ls-files -o --exclude-standard "${gpu_sources[@]}")" ]; then
    wanted=$(git -C "$source" ls-files -s "${gpu_sources[@]}" | git hash-object --stdin)
    got=$(PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$source/perf/report python3 -c 'import resultfile; print(resultfile.fingerprint())')
    [ "$got" = "$wanted" ] || die "the fingerprint is $got, git says $wanted"
fi

python3 - "$source" "$work/new.json" <<'END' || die "resultfile.py"
import sys
sys.path.insert(0, sys.argv[1] + "/perf/report")
import resultfile
from pathlib import Path

assert resultfile.slug("NVIDIA H100 80GB HBM3") == "nvidia-h100-80gb-hbm3"
assert resultfile.slug("Intel(R) Xeon(R) CPU @ 2.10GHz") == "intel-xeon-cpu-2-10ghz"
result = resultfile.load(sys.argv[2])
resultfile.save(Path(sys.argv[2]), result)
assert resultfile.load(sys.argv[2]) == result
row = {"id": "a", "backend": "host", "median_ms": 2, "peers": {"opencv": 3}}
measured = {("b", "host"): {"median_ms": 0.5}}
def met(target):
    return resultfile.judge({"backend": "host", **target}, row, measured)[0]
assert met({"ratio": 1.5, "peer": "opencv"}) is True
assert met({"ratio": 1.6, "peer": "opencv"}) is False
assert met({"ratio": 1.6, "peer": "published"}) is None
assert met({"target_ms": 2}) is True
row["calls"] = {"p99_us": 70}
assert met({"target_ms": 2, "p99_us": 70}) is True
assert met({"target_ms": 2, "p99_us": 69}) is False
assert met({"times": 4, "of": "b"}) is True
assert met({"times": 3.9, "of": "b"}) is False
assert met({"times": 4, "of": "c"}) is None
ids = [(target["id"], target["backend"]) for target in resultfile.targets()]
assert len(ids) == len(set(ids)) > 0
cuda = sum(backend == "cuda" for _, backend in ids)
lines, met, asked = resultfile.against_targets(result["rows"], "cuda", "NVIDIA H100 80GB HBM3", 3000)
assert (met, asked) == (0, cuda) and len(lines) == cuda

# Three runs of cusight_perf --json into one file: a row measured again replaces the first in place; a torn line is skipped.
output = Path(sys.argv[2]).with_name("rows.jsonl")
output.write_text("""{"cpu": "x", "threads": 2, "host_copy_gbps": 10}
{"id": "integral/1x1", "backend": "cuda", "median_ms": 1}
{"id": "integral/1x1", "backend": "host", "median_ms": 2}
{"cpu": "x", "host_copy_gbps": 11}
{"bus_gbps": {"up": 1}}
{"id": "integral/1x10", "backend": "cuda", "median_ms": 3}
{"id": "integral/1x1", "backend": "cuda", "median_ms": 4}
{"id": "integral/1x1", "back""", encoding="utf-8")
joined = resultfile.load_lines(output)
assert joined == resultfile.load(output)
assert [(row["id"], row["backend"], row["median_ms"]) for row in joined["rows"]] == [
    ("integral/1x1", "cuda", 4), ("integral/1x1", "host", 2), ("integral/1x10", "cuda", 3)]
assert {name: value for name, value in joined.items() if name != "rows"} == {
    "cpu": "x", "threads": 2, "host_copy_gbps": 11, "bus_gbps": {"up": 1}}
output.write_text("", encoding="utf-8")
assert resultfile.load_lines(output) == {"rows": []}
END

# The figures of README are those of the H200's file: three digits of one row in each line of "How fast", else two of some row of the module.
python3 - "$source" <<'END' || die "README"
import re
import sys
sys.path.insert(0, sys.argv[1] + "/perf/report")
import resultfile

rows = [row for row in resultfile.load(resultfile.RESULTS / "nvidia-h200.json")["rows"] if row["backend"] == "cuda"]
text = (resultfile.ROOT / "README.md").read_text(encoding="utf-8")
rounded = lambda value, digits: float(f"{value:.{digits}g}")
times = [{rounded(ms, 3) for ms in (row["median_ms"], *row["peers"].values())} for row in rows]
lines = [line.split("|") for line in text.split("\n## How fast")[1].split("\n## ")[0].splitlines() if line.startswith("| ")][2:]
assert len(lines) > 9
for line in lines:
    figures = {float(figure) for figure in re.findall(r"[0-9.]+", "|".join(line[2:]))}
    assert any(figures <= row for row in times), line
short = {(row["id"].split("/")[0], rounded(row["median_ms"], 2)) for row in rows}
listed = re.findall(r"^\| \[(?:event(?=frames))?(\w+)\].*\| ([0-9.]+) ms:", text, re.M)
assert len(listed) > 12
for name, ms in listed:
    assert (name, float(ms)) in short, (name, ms)
ratios = [row["peers"][name] / row["median_ms"] for row in rows for name in ("opencv", "opencv with findMinMaxLoc") if name in row["peers"]]
assert f"It is {rounded(min(ratios), 2):g} to {rounded(max(ratios), 2):g} times as fast as cv::cuda" in text, (min(ratios), max(ratios))
END

# Tests of another device or of other sources are not kept.
cpu=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -1)
for device in "Some GPU" "$cpu"; do
    case $device in "$cpu") wanted='other.json was measured with other sources' ;; *) wanted="other.json is not of $cpu" ;; esac
    echo "{\"cpu\": \"$device\", \"tested\": \"0123\"}" >"$work/other.json"
    if "$source/scripts/gpu-check" --cpu --tests-of "$work/other.json" --output "$work/no.json" >"$work/log" 2>&1; then
        die "gpu-check kept tests of $device"
    fi
    grep -qF "$wanted" "$work/log" || die "$(cat "$work/log")"
done

# Many devices and shards, at a small size: whole rows, and the table of the chapter.
if [ ! -x "$build/perf/cusight_scale" ] || [ ! -x "$bin/cusight-events" ]; then
    echo "skipped: perf/scale, since cusight_scale or cusight-events was not built"
    exit
fi
scale() { python3 "$source/perf/scale" "$@"; }
scale --build "$build" --no-build --cpu --events 2e6 --passes 1 --shards 1,2 --formats evt3 --output "$work/scale.json" >"$work/table" 2>"$work/log" ||
    die "perf/scale: $(cat "$work/log")"
python3 - "$work/scale.json" <<'END' || die "perf/scale: $(cat "$work/scale.json")"
import json, sys
result = json.load(open(sys.argv[1]))
assert [row["devices"] for row in result["memory"]["rows"]] == [[0], [1], [0, 1]]
assert [(row["shards"], row["output"]) for row in result["files"]][:2] == [(1, "checksum"), (2, "checksum")]
assert len(result["files"]) == 3 and all(row["events"] == 2000000 and row["frames"] == 10 for row in result["files"])
END
[ "$(grep -c '^|' "$work/table")" = 10 ] || die "perf/scale: $(cat "$work/table")"
for result in "$source"/perf/results/scale/*.json; do
    scale --table "$result" >"$work/table"
    [ "$(grep -c '^|' "$work/table")" -ge 5 ] || die "perf/scale --table $result: $(cat "$work/table")"
done
