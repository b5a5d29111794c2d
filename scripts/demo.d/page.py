#!/usr/bin/env python3
"""The page of scripts/demo: sections append records to a JSON-lines file, from which the page is rendered.

    page.py add FILE KIND [KEY VALUE]...     appends one record
    page.py render RECORDS PAGE              writes PAGE from page.html beside this script

Records, by kind:
    section  title, text                     starts a section of the page
    run      command, code, output           a program's command line, exit code and stdout; its "name: value" lines are shown
    figure   name, value                     one more such line
    picture  file, caption                   files are relative to PAGE
    video    file, caption
    skip     reason
All values are plain text.
"""
import html
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from string import Template

FRAGMENTS = {kind: Template(text) for kind, text in {
    "section": '<section id="$anchor">\n<h2>$title</h2>\n<p>$text</p>\n$body\n</section>\n',
    "link": '<a href="#$anchor">$title</a>',
    "command": "<pre>$command</pre>\n",
    "figures": "<dl>\n$rows</dl>\n",
    "row": "<dt>$name</dt><dd>$value</dd>\n",
    "failed": '<p class="failed">Failed with exit code $code.</p>\n',
    "skip": '<p class="skipped">Skipped: $reason</p>\n',
    "picture": '<figure><a href="$file"><img src="$file" alt="$caption" loading="lazy"></a>'
               "<figcaption>$caption</figcaption></figure>\n",
    "video": '<figure><video src="$file" controls loop muted autoplay playsinline></video>'
             '<figcaption>$caption <a href="$file">file</a></figcaption></figure>\n',
}.items()}


def fill(kind, **values):
    """A fragment with its values as text. Values that are HTML already are passed to Template.substitute instead."""
    return FRAGMENTS[kind].substitute({name: html.escape(str(value)) for name, value in values.items()})


def add(path, kind, *pairs):
    record = {"kind": kind, **dict(zip(pairs[::2], pairs[1::2]))}
    if kind == "run":
        lines = (line.split(": ", 1) for line in record.pop("output").splitlines())
        record["figures"] = [line for line in lines if len(line) == 2]
        record["code"] = int(record["code"])
    with open(path, "a", encoding="utf-8") as out:
        out.write(json.dumps(record) + "\n")


def figures(rows):
    return FRAGMENTS["figures"].substitute(rows="".join(fill("row", name=name, value=value) for name, value in rows))


def render_record(record):
    kind = record.pop("kind")
    if kind == "figure":
        return figures([(record["name"], record["value"])])
    if kind == "run":
        failed = fill("failed", code=record["code"]) if record["code"] else ""
        return fill("command", command=record["command"]) + figures(record["figures"]) + failed
    return fill(kind, **record)


def render_sections(records):
    """The sections, and links to them."""
    sections = []
    for record in records:
        if record["kind"] == "section" or not sections:
            sections.append(({"title": "", "text": "", **record}, []))
        if record["kind"] != "section":
            sections[-1][1].append(render_record(record))
    pages, links = [], []
    for number, (head, body) in enumerate(sections, 1):
        names = {"anchor": f"section-{number}", "title": html.escape(head["title"])}
        pages.append(FRAGMENTS["section"].substitute(names, text=html.escape(head["text"]), body="".join(body)))
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


def render(records, page):
    with open(records, encoding="utf-8") as lines:
        sections, contents = render_sections(json.loads(line) for line in lines)
    template = Template((Path(__file__).parent / "page.html").read_text(encoding="utf-8"))
    Path(page).write_text(template.substitute(sections=sections, contents=contents, machine=html.escape(machine()),
                                              date=time.strftime("%Y-%m-%d %H:%M")), encoding="utf-8")


if __name__ == "__main__":
    actions = {"add": add, "render": render}
    if len(sys.argv) < 4 or sys.argv[1] not in actions:
        sys.exit(__doc__)
    actions[sys.argv[1]](*sys.argv[2:])
