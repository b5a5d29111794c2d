#!/usr/bin/env python3
"""The pages of the site, from the repository's documents and the headers.

    pages.py ROOT XML FOLDER     collects them in FOLDER for Sphinx; XML is Doxygen's output

README.md becomes the first page and the quick start. CHANGELOG.md, CONTRIBUTING.md, SECURITY.md and everything in docs/ keep their
paths, so that links between them hold here and on a code host alike. Each header gets a page with its symbols in their order.
"""
import ast
import os
import re
import shutil
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import comments

QUICK = ("Two commands", "In your program")  # README's sections on the page "Quick start"
TOP = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
FIRST = ("build", "memory-and-streams", "programs", "python", "rust", "opencv", "gstreamer", "options", "exactness", "web", "several-gpus", "cluster")
LAST = ("performance", "glossary", "wire-format", "stability", "from-0.2-to-0.3")
GENERATED = "docs/measurements"  # by perf/report, after this
# Functions of the compiled module, which is not there when the site is built.
COMPILED = {
    "device_count": ("device_count() -> int", "Number of usable GPUs; 0 without a GPU, a driver or CUDA support."),
    "device_info": ("device_info(device: int) -> dict[str, object]",
                    "Properties of a GPU, by the names of :c:type:`cusDeviceInfo`. Raises ValueError if there is no such device."),
}
WITHOUT_PAGE = ("cusight.h", "cusight.hpp", "opencv_arrays.hpp")  # they declare nothing to call
LINK = re.compile(r"(!?\[[^\]]*\])\(([^)#\s]*)(#[^)\s]*)?\)")


def slug(heading):
    """The anchor of a heading, as code hosts and MyST make it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


class Pages:
    def __init__(self, root, folder, known):
        self.root, self.folder, self.known, self.errors = root, folder, known, []
        self.headers = sorted(path.name for path in (root / "include/cusight").iterdir())
        self.described = [name for name in self.headers if name not in WITHOUT_PAGE]
        self.quick_anchors = set()

    def target(self, source, path, anchor):
        """The link in the site to `path`, as a document of the repository links to it; None: it is not on the site."""
        full = (self.root / source).parent / path
        if not full.exists():
            self.errors.append(f"{source}: link to {path}, which does not exist")
            return None
        wanted = os.path.relpath(full, self.root)
        if wanted in ("README.md", "docs", "."):
            wanted = "quickstart.md" if anchor and anchor[1:] in self.quick_anchors else "index.md"
        elif wanted.startswith("include/cusight/"):
            wanted = f"reference/{full.name}.rst"
        elif not (wanted in TOP or wanted.startswith("docs/")):
            return None
        return wanted

    def links(self, text, source, page):
        """A document with its links as they are on the site."""
        def replace(match):
            label, path, anchor = match[1], match[2], match[3] or ""
            if not path or "://" in path:
                return match[0]
            wanted = self.target(source, path, anchor)
            if wanted is None:
                return label.strip("![]")
            return f"{label}({os.path.relpath(wanted, os.path.dirname(page) or '.')}{anchor})"
        parts = re.split(r"(^```.*?^```)", text, flags=re.M | re.S)
        return "".join(part if part.startswith("```") else self.symbols(LINK.sub(replace, part), page) for part in parts)

    def symbols(self, text, page):
        """Names of C symbols and headers in code become links to the reference."""
        def replace(match):
            name = match[1].removeprefix("cusight/")
            if name in self.described:
                return f"[{match[0]}]({os.path.relpath(f'reference/{name}.rst', os.path.dirname(page) or '.')})"
            return "{c:type}`%s`" % name if name in self.known else match[0]
        return re.sub(r"(?<!\[)`([\w./]+)(?:\(\))?`(?!\])", replace, text)

    def write(self, page, text):
        path = self.folder / page
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def documents(self):
        """Copies the documents; returns their pages, without ending."""
        for name in TOP:
            self.write(name, self.links((self.root / name).read_text(encoding="utf-8"), name, name))
        names = []
        for path in sorted((self.root / "docs").rglob("*.md")):
            page = str(path.relative_to(self.root))
            self.write(page, self.links(path.read_text(encoding="utf-8"), page, page))
            names.append(page[:-3])
        for path in sorted((self.root / "docs").rglob("*")):  # pictures, and files to download
            page = path.relative_to(self.root)
            if path.is_file() and path.suffix != ".md" and page.parts[1] != "site":
                (self.folder / page).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, self.folder / page)
        return names

    def readme(self, names):
        """The first page and the quick start."""
        text = (self.root / "README.md").read_text(encoding="utf-8")
        opening, *sections = re.split(r"^## (.*)\n", text, flags=re.M)
        sections = list(zip(sections[::2], sections[1::2]))
        quick = [(title, body) for title, body in sections if title in QUICK]
        if len(quick) != len(QUICK):
            self.errors.append(f"README.md: expected the sections {', '.join(QUICK)}")
        self.quick_anchors = {slug(title) for title in QUICK}
        rest = [(title, body) for title, body in sections if title not in QUICK]

        def joined(parts):
            return "".join(f"## {title}\n{body}" for title, body in parts)
        self.write("quickstart.md", "# Quick start\n\n" + self.links(joined(quick), "README.md", "quickstart.md"))
        self.write("index.md", self.links(opening + joined(rest), "README.md", "index.md") + self.contents(names))

    def contents(self, names):
        docs = [name[5:] for name in names if name.count("/") == 1]
        modules = [name for name in docs if f"{name}.h" in self.headers]
        guides = sorted((name for name in docs if name not in modules and name not in LAST),
                        key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name))
        order = re.findall(r"\(docs/([\w-]+)\.md", (self.root / "README.md").read_text(encoding="utf-8").split("## Algorithms")[-1])
        modules.sort(key=lambda name: order.index(name) if name in order else len(order))
        parts = [
            ("Start", ["quickstart", *(f"docs/{name}" for name in guides)]),
            ("Chapters", [f"docs/{name}" for name in modules]),
            ("Reference", ["reference/c", "reference/cpp", "reference/python"]),
            ("More", [*(f"docs/{name}" for name in LAST if name in docs), GENERATED, "docs/internals/README", *(name[:-3] for name in TOP)]),
        ]
        return "".join("\n```{toctree}\n:hidden:\n:caption: %s\n\n%s\n```\n" % (title, "\n".join(pages)) for title, pages in parts)

    def internals(self, names):
        page = self.folder / "docs/internals/README.md"
        pages = [name.rsplit("/", 1)[1] for name in names if name.startswith("docs/internals/") and not name.endswith("/README")]
        page.write_text(page.read_text(encoding="utf-8") + "\n```{toctree}\n:hidden:\n\n" + "\n".join(pages) + "\n```\n", encoding="utf-8")


class Symbols:
    """What Doxygen found, by header: [(line, directive, name)]."""

    def __init__(self, xml):
        self.headers, self.anonymous, self.enumerators = {}, {}, set()
        paths = [path for path in sorted(xml.glob("*.xml")) if path.name not in ("index.xml", "Doxyfile.xml")]
        compounds = [ElementTree.parse(path).getroot().find("compounddef") for path in paths]
        classes = {compound.findtext("compoundname") for compound in compounds if compound.get("kind") in ("class", "struct")}
        for compound in compounds:
            kind, name = compound.get("kind"), compound.findtext("compoundname")
            if name.rpartition("::")[0] in classes: # shown with its class
                continue
            if kind in ("struct", "class", "union") and "<" not in name and compound.get("prot") != "private":
                self.add(compound, f"doxygen{kind}", name, "   :members:\n")
            elif kind == "file" or kind == "namespace":
                for member in compound.iter("memberdef"):
                    self.member(member, f"{name}::" if kind == "namespace" else "")

    def add(self, element, directive, name, options=""):
        location = element.find("location")
        header = os.path.basename(location.get("file"))
        if header.endswith((".h", ".hpp")):
            self.headers.setdefault(header, {})[int(location.get("line")), directive, name] = options

    def member(self, member, scope):
        kind, name = member.get("kind"), member.findtext("name")
        if member.get("prot") == "private" or member.get("static") == "yes" and kind == "variable":
            return
        if not scope:
            self.enumerators.update(value.findtext("name") for value in member.findall("enumvalue"))
        if kind == "enum" and (not name or name.startswith("@")):
            values = [(value.findtext("name"), value.findtext("initializer") or "") for value in member.findall("enumvalue")]
            self.anonymous[values[0][0]] = values
            return self.add(member, "enumerators", values[0][0])
        if kind == "function" and scope:  # overloads differ in their arguments
            types = [self.argument(param) for param in member.findall("param")]
            name += "({})".format(", ".join(types))
        directive = {"define": "doxygendefine", "enum": "doxygenenum", "function": "doxygenfunction", "typedef": "doxygentypedef",
                     "variable": "doxygenvariable"}[kind]
        self.add(member, directive, scope + name)

    @staticmethod
    def argument(param):
        def text(tag):
            element = param.find(tag)
            return "".join(element.itertext()).strip() if element is not None else ""
        return f"{text('type')} {text('declname')}".strip()


def heading(text, line):
    return f"{text}\n{line * len(text)}\n\n"


def sections(path):
    """[(line, title)] of a header's sections."""
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = comments.SECTION.match(line.strip())
        if match:
            found.append((number, match[1]))
    return found


def header_page(path, symbols):
    """A header's page, and its first sentence."""
    lines = path.read_text(encoding="utf-8").splitlines()
    first, last, _ = comments.comments(lines)[0]
    about = comments.bare(lines[first:last + 1])
    about[0] = re.sub(r"^cusight/[\w.]+: ", "", about[0])
    about[0] = about[0][:1].upper() + about[0][1:]
    text = heading(path.name, "=") + f".. code-block:: c\n\n   #include <cusight/{path.name}>\n\n" + comments.rst(about) + "\n"
    marks = sections(path)
    for (line, directive, name), options in sorted(symbols.headers.get(path.name, {}).items()):
        while marks and marks[0][0] < line:
            text += heading(marks.pop(0)[1], "-")
        if directive == "enumerators":
            text += "".join(f".. c:enumerator:: {value} {initial}\n\n" for value, initial in symbols.anonymous[name])
        else:
            text += f".. {directive}:: {name}\n{options}\n"
    return text, comments.lists(comments.blocks(about))[0][1].split(". ")[0].rstrip(".")


def public(root, module):
    """The names that a Python module exports, and the compiled ones among all that it imports."""
    path = root / "python" / module.replace(".", "/")
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    names, compiled = [], set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            names = ast.literal_eval(node.value)
        elif isinstance(node, ast.ImportFrom) and node.module == "_core":
            compiled.update(alias.asname or alias.name for alias in node.names)
    return names, compiled


def reference(pages, symbols):
    for name, title, ending in (("c", "C", ".h"), ("cpp", "C++", ".hpp")):
        text, rows = heading(f"{title} reference", "="), ""
        for header in pages.headers:
            if not header.endswith(ending) or header in WITHOUT_PAGE:
                continue
            page, about = header_page(pages.root / "include/cusight" / header, symbols)
            pages.write(f"reference/{header}.rst", page)
            rows += f":doc:`{header}`\n   {comments.rst_text(about)}.\n\n"
        listed = "\n".join(f"   {header}" for header in pages.headers if (pages.folder / f"reference/{header}.rst").exists()
                           and header.endswith(ending))
        every = "cusight/cusight.h" if ending == ".h" else "cusight/cusight.hpp"
        text += f"``{every}`` includes the headers below{' but dlpack.h' if ending == '.h' else '; opencv.hpp adds those for OpenCV'}.\n\n{rows}"
        pages.write(f"reference/{name}.rst", text + f".. toctree::\n   :hidden:\n\n{listed}\n")
    text = heading("Python reference", "=")
    listed = set()
    modules = ["cusight", *(f"cusight.{path.stem}" for path in sorted((pages.root / "python/cusight").glob("[!_]*.py")))]
    for module in modules:  # a name is described where it is public first
        names, compiled = public(pages.root, module)
        names = [name for name in names if name not in listed and f"cusight.{name}" not in modules]
        listed.update(names)
        text += heading(module, "-") + f".. automodule:: {module}\n"
        members = ", ".join(name for name in names if name not in compiled)
        text += f"   :imported-members:\n   :members: {members}\n\n" if members else "\n"
        for name in sorted(compiled.intersection(names)):
            if name in COMPILED:
                text += f".. py:function:: {module}.{COMPILED[name][0]}\n\n   {COMPILED[name][1]}\n\n"
            else:
                pages.errors.append(f"{module}.{name} is compiled: describe it in docs/site/pages.py")
    pages.write("reference/python.rst", text)


def main(root, xml, folder):
    shutil.rmtree(folder, ignore_errors=True)
    symbols = Symbols(xml)
    known = {name for header, found in symbols.headers.items() if header.endswith(".h") for _, _, name in found}
    pages = Pages(root, folder, known | symbols.enumerators)
    pages.quick_anchors = {slug(title) for title in QUICK}
    names = pages.documents()
    pages.readme(names)
    pages.internals(names)
    reference(pages, symbols)
    if pages.errors:
        sys.exit("\n".join(pages.errors))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*map(Path, sys.argv[1:]))
