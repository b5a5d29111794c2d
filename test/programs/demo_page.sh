#!/usr/bin/env bash
# The page of scripts/demo, from records as sections write them: programs that print lines, and programs that print JSON.
# Usage: demo_page.sh BUILD SOURCE
set -euo pipefail
source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
page() { python3 "$source/scripts/demo.d/page.py" "$@"; }

page add r section title "Where a <video> changes" text "Text & more."
page add r run label "Lines" command "cusight-heatmap a.mp4 --view <side>" code 0 output "input: a.mp4, 64 x 48
device: CPU, 2 threads
frames: 250
rate: 20.3 frames/s
stages: decode 1.16 ms, compute 1.33 ms, write 48.86 ms; 49.22 ms per frame overall
changed: 1.630 % of the bytes on average, 2.776 % at most
output: side.mp4"
page add r run label "JSON" command "cusight-heatmap a.mp4" code 0 output '{"program": "cusight-heatmap", "device": "CPU, 2 threads", "frames": 250,
"frames_per_second": 20.3, "stages_ms": {"decode": 1.16, "compute": 1.33, "draw": 0.5, "write": 48.86, "overall": 49.22}, "changed_mean": 0.0163,
"changed_max": 0.02776, "output": "side.mp4", "exit_code": 0}'
page add r video file side.mp4 alt 'People "walk"' caption "Side by side." poster side-poster.jpg second 5
page add r picture file noise.png alt "Red outlines" caption "Noise."
page add r section title "A recording" text "Its rate is no speed."
page add r run label "Contents" command "cusight-events info a.h5" code 0 output "input: a.h5, M3ED
rate: 0.6118 million events/s"
page add r run label "Pose" command "cusight-match a.png" code 0 output '{"program": "cusight-match",
"first_match": {"x": 188.5, "y": 224, "angle": -6, "scale": 0.52, "score": 0.54435}, "matches": 1}'
page add r run label "Fails" command "cusight-events b" code 3 output ""
page add r note text "Below."
page add r section title "Nothing" text "No input."
page add r skip reason "there is no stereo pair"
page render r index.html

python3 - <<'END'
from html.parser import HTMLParser

class Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.ids, self.links, self.cells, self.tables, self.media, self.open, self.text = set(), [], [], 0, [], [], ""

    def handle_starttag(self, tag, attributes):
        a = dict(attributes)
        self.ids.add(a.get("id"))
        if tag == "a" and a["href"].startswith("#"):
            self.links.append(a["href"][1:])
        if tag in ("img", "video"):
            self.media.append(a)
        self.tables += tag == "table"
        if tag in ("td", "th"):
            self.cells.append("")
        if tag not in ("meta", "img", "br", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data):
        self.text += data
        if "td" in self.open[-3:] or "th" in self.open[-3:]:
            self.cells[-1] += data

page = Page()
page.feed(open("index.html", encoding="utf-8").read())

def expect(what, got, wanted):
    assert got == wanted, f"{what}: {got}, expected {wanted}"

expect("elements left open", page.open, [])
expect("contents", page.links, ["where-a-video-changes", "a-recording", "nothing"])
assert set(page.links) <= page.ids, "a link of the contents leads nowhere"
expect("tables", page.tables, 2)
columns = ["Run", "Frames", "Compute", "Decode", "Draw", "Encode and write", "All in all", "Result"]
expect("columns", page.cells[:8], columns)
expect("lines", page.cells[8:16], ["Lines", "250", "1.33 ms", "1.16 ms", "", "48.86 ms", "49.22 ms",
                                   "changed: 1.630 % of the bytes on average, 2.776 % at most"])
expect("JSON", page.cells[16:24], ["JSON", "250", "1.33 ms", "1.16 ms", "0.50 ms", "48.86 ms", "49.22 ms",
                                   "changed: 1.63 % of the bytes on average, 2.78 % at most"])
expect("a recording's rate", page.cells[24:28], ["Run", "Result", "Contents", "rate: 0.6118 million events/s"])
expect("a pose", page.cells[28:30], ["Pose", "matches: 1first match: x 188.5, y 224, angle -6, scale 0.52, score 0.5444"])
expect("alternative texts", [m.get("alt") or m.get("aria-label") for m in page.media], ['People "walk"', "Red outlines"])
expect("posters", [m.get("poster") for m in page.media], ["side-poster.jpg", None])
assert not any("autoplay" in m for m in page.media), "a video plays before it is seen"
for text in ("Where a <video> changes", "Computed on: CPU, 2 threads.", "--view <side>", "Fails failed with exit code 3.", "Below.",
             "Skipped: there is no stereo pair."):
    assert text in page.text, f"the page lacks: {text}"
END
echo "the page is as expected"
