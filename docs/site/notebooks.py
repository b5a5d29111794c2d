#!/usr/bin/env python3
"""The notebooks of python/examples with their outputs, as pages of the site.

    notebooks.py ROOT FOLDER     runs each notebook, writes FOLDER/docs/examples/NAME.md and its pictures, and adds them to
                                 FOLDER/index.md, the first page

Needs the package cusight, nbformat, nbclient, ipykernel and matplotlib in the interpreter that runs it.
"""
import base64
import sys
from pathlib import Path

import nbclient
import nbformat


def fenced(language, text):
    return f"```{language}\n{text.rstrip()}\n```\n\n"


def outputs(cell, stem, number, folder):
    """The page's text for what a cell shows; writes its pictures."""
    text = ""
    for k, output in enumerate(cell.outputs):
        data = output.get("data", {})
        if output.output_type == "stream":
            text += fenced("text", output.text)
        elif "image/png" in data:
            name = f"{stem}-{number}-{k}.png"
            (folder / name).write_bytes(base64.b64decode(data["image/png"]))
            text += f"![Output of cell {number}]({name})\n\n"
        elif "text/plain" in data:
            text += fenced("text", data["text/plain"])
    return text


def page(notebook, folder):
    content = nbformat.read(notebook, as_version=4)
    nbclient.NotebookClient(content, timeout=120, kernel_name="python3").execute()
    text = ""
    for number, cell in enumerate(content.cells, 1):
        if cell.cell_type == "markdown":
            text += cell.source + "\n\n"
        else:
            source = "\n".join(line for line in cell.source.splitlines() if not line.startswith("%"))
            text += fenced("python", source) + outputs(cell, notebook.stem, number, folder)
    (folder / f"{notebook.stem}.md").write_text(text, encoding="utf-8")


def main():
    root, folder = Path(sys.argv[1]), Path(sys.argv[2]) / "docs" / "examples"
    folder.mkdir(parents=True, exist_ok=True)
    notebooks = sorted((root / "python/examples").glob("*.ipynb"))
    for notebook in notebooks:
        page(notebook, folder)
    listed = "\n".join(f"docs/examples/{notebook.stem}" for notebook in notebooks)
    with (Path(sys.argv[2]) / "index.md").open("a", encoding="utf-8") as index:
        index.write(f"\n```{{toctree}}\n:hidden:\n:caption: Examples in Python\n\n{listed}\n```\n")


if __name__ == "__main__":
    main()
