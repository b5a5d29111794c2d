#!/usr/bin/env python3
"""The page of scripts/demo: sections append records to a JSON-lines file, from which the page is rendered.

    page.py add FILE KIND [KEY VALUE]...     appends one record
    page.py render RECORDS PAGE              writes PAGE from page.html beside this script

Records, by kind:
    section  title, text                     starts a section of the page
    run      label, command, code, output    a program's run: a row of the section's table; output is its stdout
    picture  file, alt, caption              files are relative to PAGE
    video    file, alt, caption, poster, second   poster: the frame at this second, where it starts to play
    note     text                            below the table
    link     file, text, rest                below the table: text links to file, a page relative to PAGE; rest follows it
    skip     reason
All values are plain text.
"""
import html
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from string import Template

FRAGMENTS = {kind: Template(text) for kind, text in {
    "section": '<section id="$anchor">\n<h2>$title</h2>\n<p>$text</p>\n$body</section>\n',
    "section link": '<li><a href="#$anchor">$title</a></li>',
    "link": '<p class="note"><a href="$file">$text</a>: $rest.</p>\n',
    "picture": '<figure><a href="$file"><img src="$file" alt="$alt" loading="lazy"></a><figcaption>$caption</figcaption></figure>\n',
    "video": '<figure><video src="$file#t=$second" poster="$poster" aria-label="$alt" controls loop muted playsinline '
             'preload="metadata"></video><figcaption>$caption</figcaption></figure>\n',
    "note": "<p class=\"note\">$text</p>\n",
    "skip": '<p class="note">Skipped: $reason.</p>\n',
    "failed": '<p class="failed">$label failed with exit code $code.</p>\n',
}.items()}


def fill(kind, **values):
    """A fragment with its values as text. Values that are HTML already are passed to Template.substitute instead."""
    return FRAGMENTS[kind].substitute({name: html.escape(str(value), quote=True) for name, value in values.items()})


# ---- What a program has said ---------------------------------------------------------------------------------------------

# Times by stage, in milliseconds a frame, as columns of the table.
STAGES = {"decode": "Decode", "capture": "Decode", "difference": "Compute", "compute": "Compute", "queue": "Compute", "draw": "Draw",
          "pack": "Compress", "send": "Send", "write": "Encode and write", "overall": "All in all"}
COLUMNS = ("Run", "Frames", "Compute", "Decode", "Draw", "Compress", "Send", "Encode and write", "All in all", "Result")
# Lines that are no results: the page says them elsewhere, or the command does.
ASIDE = {"input", "device", "output", "source", "view", "template", "method", "representation", "events in", "events_in", "frames in",
         "frames_in", "elevation in", "elevation_in"}


def object_lines(run):
    """What a run's JSON object says, as (name, value) with the values that the "name: value" lines have."""
    def has(*keys):
        return all(run.get(key) is not None for key in keys)
    yield from ((name, value) for name, value in run.items() if isinstance(value, str) and name not in ("program", "version"))
    if has("frames"):
        yield "frames", str(run["frames"])
    for stage, value in run.get("stages_ms", {}).items():
        yield stage, value
    if has("frames_per_second"):
        yield "rate", f"{run['frames_per_second']:.1f} frames/s"
    if has("events"):
        yield "events", f"{run['events']:,}"
    if has("events_per_second"):
        yield "rate", f"{run['events_per_second'] / 1e6:.2f} million events/s"
    if has("changed_mean", "changed_max"):
        yield "changed", f"{100 * run['changed_mean']:.2f} % of the bytes on average, {100 * run['changed_max']:.2f} % at most"
    for name, shown in (("capsules", "capsules"), ("matches", "matches"), ("things", "moving things")):
        if isinstance(run.get(name), int):
            yield shown, str(run[name])
    if has("first_match"):
        match = run["first_match"]
        score = f"{match['score']:,.0f}" if abs(match["score"]) >= 1000 else f"{match['score']:.4g}"
        pose = f", angle {match['angle']:.4g}, scale {match['scale']:.4g}" if "angle" in match else ""
        yield "first match", f"x {match['x']:.6g}, y {match['y']:.6g}{pose}, score {score}"
    if has("filled", "matches"):
        yield "filled", f"{run['filled']} of {run['matches']}"
    if has("frames_sent", "sent_per_second"):
        yield "frames sent", f"{run['frames_sent']}, {run['sent_per_second']:.1f} a second"
    if has("sent_bytes_per_frame", "frame_bytes", "changed"):
        yield "bytes a frame", (f"{run['sent_bytes_per_frame']:,.0f} of {run['frame_bytes']:,.0f}, {100 * run['changed']:.2f} % of the "
                                "bytes changed")
    if has("frames_received", "left_out"):
        yield "frames received", f"{run['frames_received']}; {run['left_out']} more are part of a later difference, or lost"
    if has("lowest_shift", "highest_shift"):
        yield "shifts", f"{max(0, run['lowest_shift']):.0f} to {run['highest_shift']:.0f} pixels"
    if has("holes", "holes_left"):
        yield "holes", f"{100 * run['holes']:.2f} % of the pixels, {100 * run['holes_left']:.2f} % after filling"
    if has("seconds"):
        yield "length", f"{run['seconds']:.1f} s"
    if has("active_pixels"):
        yield "active pixels", f"{run['active_pixels']:,}"


def said(output):
    """The figures of a run, (name, value): from its --json object, or else its "name: value" lines."""
    if output.lstrip().startswith("{"):
        run, rest = {}, output.strip()
        while rest:  # the last object is the run's, those before are its frames'
            run, end = json.JSONDecoder().raw_decode(rest)
            rest = rest[end:].lstrip()
        return list(object_lines(run))
    lines = (line.split(": ", 1) for line in output.splitlines())
    return [(line[0], line[1]) for line in lines if len(line) == 2]


def row(record):
    """A run as a row: {column: text}. Everything that depends on how programs report is here, in said() and object_lines()."""
    cells, results, lines = {"Run": record["label"]}, [], said(record["output"])
    made_frames = any(name in ("frames", "frames sent") for name, _ in lines)
    for name, value in lines:
        if name in STAGES:
            cells[STAGES[name]] = f"{value:.2f} ms" if value < 10000 else f"{value / 1000:.1f} s"
        elif name == "stages":
            for stage, number in re.findall(r"(\w+) ([\d.]+) ms", value):
                if stage in STAGES:
                    cells[STAGES[stage]] = f"{number} ms"
            overall = re.search(r"([\d.]+ ms) per frame overall", value)
            if overall:
                cells["All in all"] = overall[1]
        elif name in ("frames", "frames sent"):
            cells["Frames"] = re.match(r"\d+", value)[0]
            rest = value.partition(", ")[2]
            rate = re.search(r"([\d.]+) (?:frames/s|a second)", rest)
            if rate:
                cells.setdefault("All in all", f"{rate[1]} frames/s")
        elif name == "rate" and made_frames:  # otherwise the recording's rate
            cells.setdefault("All in all", value)
        elif name not in ASIDE:
            results.append((name, value))
    cells["Result"] = results
    return cells


# ---- The page ------------------------------------------------------------------------------------------------------------

def add(path, kind, *pairs):
    record = {"kind": kind, **dict(zip(pairs[::2], pairs[1::2]))}
    with open(path, "a", encoding="utf-8") as out:
        out.write(json.dumps(record) + "\n")


def cell(column, value):
    if column != "Result":
        return html.escape(value)
    return "<br>".join(f"{html.escape(name)}: <b>{html.escape(text)}</b>" for name, text in value)


def table(runs):
    """One table for a section's runs, without the columns that none of them fills, and their commands."""
    rows = [row(record) for record in runs]
    columns = [column for column in COLUMNS if any(cells.get(column) for cells in rows)]
    head = "".join(f'<th scope="col">{column}</th>' for column in columns)
    body = ""
    for cells in rows:
        body += "<tr>" + "".join(f'<td data-name="{column}">{cell(column, cells.get(column) or "")}</td>' for column in columns) + "</tr>\n"
    commands = html.escape("\n".join(record["command"] for record in runs))
    return (f'<div class="table"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n'
            f"<details><summary>The commands</summary><pre>{commands}</pre></details>\n")


def render_section(head, records):
    kinds = {kind: [record for record in records if record["kind"] == kind] for kind in ("run", "picture", "video", "note", "link", "skip")}
    shown = {kind: "".join(fill(**record) for record in kinds[kind]) for kind in ("video", "picture")}
    body = "".join(f'<div class="{kind}s">\n{figures}</div>\n' for kind, figures in shown.items() if figures)
    if 0 < len(kinds["picture"]) <= 2 * len(kinds["video"]):
        body = f'<div class="beside">\n{body}</div>\n'
    body += "".join(fill("failed", label=record["label"], code=record["code"]) for record in kinds["run"] if record["code"] != "0")
    body += table(kinds["run"]) if kinds["run"] else ""
    return body + "".join(fill(**record) for record in kinds["note"] + kinds["link"] + kinds["skip"])


def render_sections(records):
    """The sections, and links to them."""
    sections = []
    for record in records:
        if record["kind"] == "section" or not sections:
            sections.append(({"title": "", "text": "", **record}, []))
        if record["kind"] != "section":
            sections[-1][1].append(record)
    pages, links = [], []
    for head, body in sections:
        anchor = re.sub(r"\W+", "-", head["title"].lower()).strip("-")
        names = {"anchor": anchor, "title": html.escape(head["title"])}
        pages.append(FRAGMENTS["section"].substitute(names, text=html.escape(head["text"]), body=render_section(head, body)))
        links.append(FRAGMENTS["section link"].substitute(names))
    return "\n".join(pages), "\n".join(links)


def machine():
    model = "unknown CPU"
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    parts = [f"{model}, {len(os.sched_getaffinity(0))} processors"]
    try:
        gpus = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True,
                              timeout=30)
        parts += gpus.stdout.splitlines()[:1] if gpus.returncode == 0 else []
    except (OSError, subprocess.TimeoutExpired):
        pass
    return "; ".join(parts)


def devices(records):
    """What the programs computed on, each once."""
    found = []
    for record in records:
        found += [value for name, value in said(record.get("output", "")) if name == "device" and value not in found]
    return " and ".join(found) or "unknown"


def render(path, page):
    with open(path, encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    sections, contents = render_sections(records)
    template = Template((Path(__file__).parent / "page.html").read_text(encoding="utf-8"))
    Path(page).write_text(template.substitute(
        sections=sections, contents=contents, machine=html.escape(machine()), device=html.escape(devices(records)),
        date=time.strftime("%Y-%m-%d %H:%M")), encoding="utf-8")


if __name__ == "__main__":
    actions = {"add": add, "render": render}
    if len(sys.argv) < 4 or sys.argv[1] not in actions:
        sys.exit(__doc__)
    actions[sys.argv[1]](*sys.argv[2:])
