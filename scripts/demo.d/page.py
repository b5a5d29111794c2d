#!/usr/bin/env python3
"""The page of scripts/demo: sections append records to a JSON-lines file, from which the page is rendered.

    page.py add FILE KIND [KEY VALUE]...     appends one record
    page.py render RECORDS PAGE              writes PAGE from page.html beside this script

Records, by kind:
    section  title, text                     starts a section of the page
    run      label, command, code, output    a program's run: a row of the section's table; output is its stdout
    picture  file, alt, caption              files are relative to PAGE
    video    file, alt, caption
    note     text                            below the table
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
    "link": '<li><a href="#$anchor">$title</a></li>',
    "picture": '<figure><a href="$file"><img src="$file" alt="$alt" loading="lazy"></a><figcaption>$caption</figcaption></figure>\n',
    "video": '<figure><video src="$file" aria-label="$alt" controls loop muted playsinline preload="metadata"></video>'
             '<figcaption>$caption</figcaption></figure>\n',
    "note": "<p class=\"note\">$text</p>\n",
    "skip": '<p class="note">Skipped: $reason.</p>\n',
    "failed": '<p class="failed">$label failed with exit code $code.</p>\n',
}.items()}


def fill(kind, **values):
    """A fragment with its values as text. Values that are HTML already are passed to Template.substitute instead."""
    return FRAGMENTS[kind].substitute({name: html.escape(str(value), quote=True) for name, value in values.items()})


# ---- What a program has said ---------------------------------------------------------------------------------------------

# Times by stage, in milliseconds a frame, as columns of the table.
STAGES = {"decode": "Decode", "capture": "Decode", "difference": "Compute", "compute": "Compute", "pack": "Compress", "send": "Send",
          "write": "Encode and write"}
COLUMNS = ("Run", "Frames", "Compute", "Decode", "Compress", "Send", "Encode and write", "All in all", "Result")


def flat(value, prefix=""):
    """The scalars in a JSON value, with names such as "stages compute"."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from flat(inner, f"{prefix} {name}".strip().replace("_", " "))
    elif isinstance(value, list):
        if value and not any(isinstance(inner, (dict, list)) for inner in value):
            yield prefix, ", ".join(map(str, value))
    else:
        yield prefix, f"{value:.4g}" if isinstance(value, float) else str(value)


def said(output):
    """The figures of a run, (name, value): its --json object, or else the "name: value" lines."""
    for line in output.splitlines():
        if line.startswith("{"):
            try:
                return list(flat(json.loads(line)))
            except ValueError:
                break
    lines = (line.split(": ", 1) for line in output.splitlines())
    return [(line[0], line[1]) for line in lines if len(line) == 2]


def row(record):
    """A run as a row: {column: text}. Everything that depends on how programs report is here and in said()."""
    cells, results = {"Run": record["label"]}, []
    for name, value in said(record["output"]):
        stage = re.fullmatch(r"(?:stages |ms |time )?(decode|capture|difference|compute|pack|send|write)(?: ms)?(?: per frame)?", name)
        if stage:
            cells[STAGES[stage[1]]] = f"{value} ms"
        elif name == "stages":
            for stage, number in re.findall(r"(\w+) ([\d.]+) ms", value):
                if stage in STAGES:
                    cells[STAGES[stage]] = f"{number} ms"
            overall = re.search(r"([\d.]+ ms) per frame overall", value)
            if overall:
                cells["All in all"] = overall[1]
        elif name in ("frames", "frames sent"):
            first, _, rest = value.partition(", ")
            cells["Frames"] = first
            rate = re.search(r"[\d.]+ (?:frames/s|a second)", rest)
            if rate:
                cells.setdefault("All in all", rate[0].replace("a second", "frames/s"))
        elif name == "rate":
            cells.setdefault("All in all", value)
        elif name not in ("input", "device", "output", "source", "view", "template", "version", "program"):
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
    kinds = {kind: [record for record in records if record["kind"] == kind] for kind in ("run", "picture", "video", "note", "skip")}
    shown = "".join(fill(**record) for record in records if record["kind"] in ("picture", "video"))
    body = f'<div class="figures">\n{shown}</div>\n' if shown else ""
    body += "".join(fill("failed", label=record["label"], code=record["code"]) for record in kinds["run"] if record["code"] != "0")
    body += table(kinds["run"]) if kinds["run"] else ""
    return body + "".join(fill(**record) for record in kinds["note"] + kinds["skip"])


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
        links.append(FRAGMENTS["link"].substitute(names))
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
