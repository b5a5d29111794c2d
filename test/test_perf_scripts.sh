# The scripts around the performance suite: compare, targets, report. Arguments: build folder, source folder.
set -eu
source=$2
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/results"

result() { # heatmap's median, encode's median
    cat <<END
{
"gpu": "Some GPU", "driver": "1", "cuda": "13.0", "copy_gbps": 4000, "fingerprint": "0123456789abcdef",
"tests": {"passed": 3, "failed": 0, "skipped": 1}, "sanitizer": "clean",
"rows": [
{"id": "framediff/heatmap/3840x2160", "backend": "cuda", "median_ms": $1, "min_ms": $1, "max_ms": $1, "bytes": 74649600, "fraction_of_copy": 0.9, "peers": {"published": 0.05, "npp": 0.01}},
{"id": "framediff/encode/3840x2160/3pct", "backend": "cuda", "median_ms": $2, "min_ms": $2, "max_ms": $2, "bytes": 49766400, "fraction_of_copy": 0.5, "peers": {}, "note": "<&>"},
{"id": "sweep/framediff/heatmap/pixels=1e6", "backend": "cuda", "median_ms": 0.01, "min_ms": 0.01, "max_ms": 0.01, "bytes": 9000000, "fraction_of_copy": 0.2, "peers": {}},
{"id": "sweep/framediff/heatmap/pixels=1e8", "backend": "cuda", "median_ms": 0.3, "min_ms": 0.3, "max_ms": 0.3, "bytes": 900000000, "fraction_of_copy": 0.8, "peers": {}}
]
}
END
}
result 0.020 0.030 >"$work/old.json"
result 0.026 0.029 >"$work/new.json"

fails() { # the message is shown and the exit status kept
    echo "FAILED: $1"
    exit 1
}
"$source/scripts/compare" "$work/old.json" "$work/old.json" >"$work/same" || fails "a file is slower than itself"
if "$source/scripts/compare" "$work/old.json" "$work/new.json" >"$work/slower"; then fails "30 % slower goes unnoticed"; fi
grep -q '^slower  framediff/heatmap/3840x2160 .*+30.0 %' "$work/slower" || fails "compare does not name what got slower"
grep -q '^faster  framediff/encode/3840x2160/3pct .*-3.3 %' "$work/slower" || fails "compare does not name what got faster"

cp "$work/new.json" "$work/results/some-gpu.json"
report() {
    python3 "$source/perf/report" --results "$work/results" --docs "$work/docs" "$@"
}
if report --check >"$work/check"; then fails "documents that are not there are called up to date"; fi
report
report --check || fails "documents just written are called out of date"
page=$work/docs/performance.md
grep -q '| `framediff/heatmap/3840x2160` | 0.026 ms | 0.021 ms, \*\*missed\*\* |' "$page" || fails "a missed target is not shown"
for plot in floor peers sweep-framediff-pixels; do
    python3 -c 'import sys, xml.dom.minidom as x; x.parse(sys.argv[1])' "$work/docs/plots/some-gpu-$plot.svg" || fails "$plot is no XML"
    grep -q "plots/some-gpu-$plot.svg" "$page" || fails "$plot is not in the document"
done

python3 - "$source" "$work/new.json" <<'END' || fails "resultfile.py"
import sys
sys.path.insert(0, sys.argv[1] + "/perf")
import resultfile
from pathlib import Path

assert resultfile.slug("NVIDIA H200") == "nvidia-h200"
assert resultfile.slug("Intel(R) Xeon(R) CPU @ 2.10GHz") == "intel-xeon-cpu-2-10ghz"
result = resultfile.load(sys.argv[2])
resultfile.save(Path(sys.argv[2]), result)
assert resultfile.load(sys.argv[2]) == result
row = {"id": "a", "backend": "host", "median_ms": 2, "peers": {"opencv": 3}}
assert resultfile.judge({"ratio": 1.5, "peer": "opencv"}, row)[0] is True
assert resultfile.judge({"ratio": 1.6, "peer": "opencv"}, row)[0] is False
assert resultfile.judge({"ratio": 1.6, "peer": "published"}, row)[0] is None
assert resultfile.judge({"target_ms": 2}, row)[0] is True
ids = [(target["id"], target["backend"]) for target in resultfile.targets()]
assert len(ids) == len(set(ids)) == 19
lines, met, asked = resultfile.against_targets(result["rows"], "cuda")
assert (met, asked) == (0, 11) and len(lines) == 11
END
