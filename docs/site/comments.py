#!/usr/bin/env python3
"""The headers' plain comments, as Doxygen and reStructuredText want them.

    comments.py HEADER      prints HEADER for Doxygen, line for line: its input filter

What a comment belongs to follows from where it stands: one that begins a line describes the declaration after it, one behind code
describes that code. Within a comment, lines such as "Errors: ..." or "stream: ..." become items of a list, tables and indented
lines are kept as they are, and everything else is paragraphs.
"""
import html
import re
import sys

SECTION = re.compile(r"(?:/\*|//) ---- (.*?) -+(?: \*/)?$")
# The first words of a list's items: a label, arguments, or an enumerator.
LABELS = "Accepted|Cost|Cost, [A-Za-z]+|Cost on the device|Errors|Errors of all functions|Limit|Limits|Method|Ready|Uses|Device memory|SIZE|Outside the image|Images"
ITEM = re.compile(rf"({LABELS}|[a-z_]+(?:, [a-z_]+)*|[A-Z][A-Z_0-9]+(?: \([^)]*\))?)(?:, which [^:]*|, after which [^:]*)?: ")
INLINE = re.compile(r"(?<=[.)] )((?:Errors|Cost|Cost, FFT|Ready|Limits?|Uses): )")
SEVERAL = re.compile(r"(\s*(?:const )?[\w:<>]+ )(\*?\w+(?:\[\w+\])?(?:, \*?\w+(?:\[\w+\])?)+);\s*$")
BACKSLASH = "\\"
WIDTH = 105  # a line that could have taken the next word within this many columns ends a paragraph
TABLE = re.compile(r"\S {2,}\S")


def blocks(lines):
    """[(kind, text or lines)] of a comment's lines; kind is text, item or verbatim."""
    found, previous, before = [], "", ""
    for line in lines:
        text, indent = line.strip(), len(line) - len(line.lstrip())
        last = found[-1] if found else None
        if not text:
            if last and last[0] != "verbatim":
                found.append(["text", ""])
        elif text.startswith("|") or (indent >= 2 and (TABLE.search(text) or (last and last[0] == "verbatim") or not previous or
                                                       previous.endswith(":"))):
            if not (last and last[0] == "verbatim"):
                found.append(["verbatim", []])
            found[-1][1].append(line.rstrip())
        elif indent < 2 and ITEM.match(text) and (not previous or previous[-1] in ".:;)"):
            found.append(["item", text])
        elif last and last[0] != "verbatim" and previous.endswith(".") and len(before) + len(text.split()[0]) < WIDTH:
            found.append(["text", text])  # the line before ends early: a paragraph does
        elif last and last[0] != "verbatim" and (last[1] or not previous):
            last[1] = f"{last[1]} {text}".strip()
        else:
            found.append(["text", text])
        previous, before = text, line
    split = []
    for kind, content in found:
        if kind == "verbatim":
            split.append((kind, content))
            continue
        first, *rest = INLINE.split(content)
        split.append((kind, first.strip()))
        split += [("item", (label + text).strip()) for label, text in zip(rest[::2], rest[1::2])]
    return [block for block in split if block[1]]


def lists(found):
    """The same with consecutive items joined: ("list", [text, ...])."""
    joined = []
    for kind, content in found:
        if kind == "item" and joined and joined[-1][0] == "list":
            joined[-1][1].append(content)
        else:
            joined.append(("list", [content]) if kind == "item" else (kind, content))
    return joined


def doxygen_text(text):
    text = re.sub(r"([\\@#%])", r"\\\1", html.escape(text, quote=False))
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
    return re.sub(r"\bhttps?://\S+", lambda match: match[0].replace("\\", ""), text)


def doxygen_item(text):
    match = ITEM.match(text)
    return f"<li><b>{doxygen_text(text[:match.end(1)])}</b>{doxygen_text(text[match.end(1):])}</li>"


def doxygen(lines):
    """A comment's lines in one line, verbatim blocks apart."""
    parts = []
    for kind, content in lists(blocks(lines)):
        if kind == "list":
            parts.append("<ul>" + "".join(map(doxygen_item, content)) + "</ul>")
        elif kind == "verbatim":
            shift = min(len(line) - len(line.lstrip()) for line in content)
            parts.append("\\verbatim " + "\n".join(line[shift:] for line in content) + "\n\\endverbatim ")
        else:
            parts.append(f"<p>{doxygen_text(content)}</p>" if parts else doxygen_text(content) + " ")
    return "".join(parts)


def rst_text(text):
    text = text.replace("``", "`")
    text = re.sub(r"([\\*|_])", r"\\\1", text)
    return re.sub(r"`([^`]+)`", lambda match: "``" + match[1].replace("\\", "") + "``", text)


def rst(lines):
    """A comment's lines as reStructuredText."""
    parts = []
    for kind, content in lists(blocks(lines)):
        if kind == "list":
            for text in content:
                match = ITEM.match(text)
                parts.append(f"- **{rst_text(text[:match.end(1)])}**{rst_text(text[match.end(1):])}")
        elif kind == "verbatim":
            parts.append("::\n\n" + "\n".join("   " + line for line in content))
        else:
            parts.append(rst_text(content))
    return "\n\n".join(parts) + "\n"


def bare(lines):
    """A comment's lines without its markers; indentation beyond the first column of text stays."""
    text = [re.sub(r"^\s*(/\*+|\*/|\*(?!/)|//+) ?", "", line.rstrip()) for line in lines]
    text[-1] = re.sub(r"\s*\*/\s*$", "", text[-1])
    return text


def code_end(line):
    """Where a comment begins behind code in this line, or -1."""
    quoted = re.sub(r'"(?:\\.|[^"\\])*"', lambda match: "x" * len(match[0]), line)
    found = [at for at in (quoted.find("/*"), quoted.find("//")) if at >= 0]
    return min(found) if found else -1


def comments(lines):
    """[(first, last, column)]: the comments of a header, runs of // lines as one. column is 0 for those that begin a line."""
    found, at = [], 0
    while at < len(lines):
        column = code_end(lines[at])
        if column < 0:
            at += 1
            continue
        last, leads = at, not lines[at][:column].strip()
        if lines[at].startswith("/*", column):
            while "*/" not in lines[last][column if last == at else 0:]:
                last += 1
        elif leads:
            while last + 1 < len(lines) and lines[last + 1].lstrip().startswith("//") and not SECTION.match(lines[last + 1].strip()):
                last += 1
        else:  # // behind code, continued by // lines in the same column
            while last + 1 < len(lines) and code_end(lines[last + 1]) == column and not lines[last + 1][:column].strip():
                last += 1
        found.append((at, last, 0 if leads else column))
        at = last + 1
    return found


def filtered(path):
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    name = path.rsplit("/", 1)[-1]
    for first, last, column in comments(lines):
        if SECTION.match(lines[first].strip()) or lines[first].startswith(("#if", "#en", "#el")):
            continue
        code, rest = lines[first][:column], ""
        source = [lines[first][column:], *lines[first + 1:last + 1]]
        if "*/" in source[-1]:
            source[-1], rest = re.split(r"(?<=\*/)", source[-1], maxsplit=1)
        if not column and first:  # nothing but a closing comment: "} // namespace", "#endif"
            if last + 1 >= len(lines) or not lines[last + 1].strip():
                continue
        text = bare(source)
        if column:
            text = doxygen_text(" ".join(part.strip() for part in text))
            if re.match(r"\s*}\s*$", code):  # "} // namespace"
                continue
            several = SEVERAL.match(code)  # the comment belongs to each of "int rows, cols;"
            each = [f"{several[1]}{name};" for name in several[2].split(", ")] if several else [code]
            made = " ".join(f"{declaration} /**< {text} */" for declaration in each) + rest
        else:
            made = f"/** {'' if first else f'{BACKSLASH}file {name} '}{doxygen(text)} */{rest}"
            several = SEVERAL.match(lines[last + 1])
            if several:
                again = doxygen_text(" ".join(part.strip() for part in text))
                lines[last + 1] = f"{several[1]}{several[2].replace(', ', f'; /** {again} */ {several[1].strip()} ')};"
        made = made.split("\n")
        lines[first:last + 1] = made + [""] * (last + 1 - first - len(made))
        assert len(made) <= last + 1 - first, f"{path}:{first + 1}: the comment grew"
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(filtered(sys.argv[1]))
