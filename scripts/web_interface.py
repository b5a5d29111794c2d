#!/usr/bin/env python3
"""web_interface.py FOLDER NAMES: writes interface.js and interface.d.ts there, from scripts/interface: what cusight.js needs to call the functions
that the file NAMES lists, and their types. interface.js has the layout of structs for WebAssembly.

A function is a word for its result and one for each parameter, CODE:NAME:STRUCT. Codes, of which capitals are results:
    i status  v nothing  n number  l 64 bits  z string  m M matrix  s S struct  N number  p bytes or a typed array  h object  H new object
    a A array of structs, d of matrices; the number of elements follows   c count   _ nothing that a caller gives: stream, space
    B A after its capacity  E array of numbers after its capacity  F a matrix for each representation  O a matrix if the caller names one
"""
import importlib.machinery
import importlib.util
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
loader = importlib.machinery.SourceFileLoader("interface", str(ROOT / "scripts/interface"))
interface = importlib.util.module_from_spec(importlib.util.spec_from_loader("interface", loader))
loader.exec_module(interface)

folder, names = Path(sys.argv[1]), Path(sys.argv[2]).read_text(encoding="utf-8").split()
found = interface.describe(target=("--target=wasm32", "-ffreestanding"))
# Callbacks, batches and what only a GPU needs have no place in this interface.
functions = [each for each in found["functions"] if each["name"] in names and not re.search("EventFilter|EventPipeline|GeneratorRun|Batch$|Check$|MatWrap|MatRegion", each["name"])]
structs = {each["name"]: each for each in found["structs"]}
enums = {each["name"] for each in found["enums"]}
handles = {each["name"] for each in found["typedefs"] if each["type"].startswith("struct")}
NUMBERS = {"uint8_t": "u8", "char": "u8", "uint16_t": "u16", "int16_t": "i16", "int": "i32", "int32_t": "i32", "uint32_t": "u32", "size_t": "u32",
           "float": "f32", "double": "f64", "int64_t": "i64", "uint64_t": "u64"}
ARRAYS = {"u8": "Uint8Array", "u16": "Uint16Array", "i16": "Int16Array", "i32": "Int32Array", "u32": "Uint32Array", "f32": "Float32Array",
          "f64": "Float64Array", "i64": "BigInt64Array", "u64": "BigUint64Array"}


def number(kind):
    return "i32" if kind in enums else NUMBERS.get(kind)


def is_count(each):
    return each["type"] in ("int", "size_t") and each["name"] in ("count", "window_count", "size", "capacity", "bytes")


def code(each, following, before):
    """The code of a parameter; following: those after it; before: the name before it."""
    kind, name = each["type"], each["name"]
    constant, pointee = kind.startswith("const "), kind.removeprefix("const ").rstrip(" *")
    counted = following[:1] and is_count(following[0])
    if "*" not in kind:
        skipped = kind in ("cusStream", "cusSpace")
        return "_" if skipped else f"{'l' if kind in ('int64_t', 'uint64_t') else 'n'}:{name}"
    if kind.endswith("**"):
        return f"H:{name}" if pointee in handles else f"N:{name}:u32"
    if pointee in handles or pointee == "cusSparseDiff":
        return f"h:{name}:{pointee}"
    if pointee == "cusMat":
        several = constant and (counted or name == "frames")
        return f"{'d' if several else 'm' if constant else 'O' if name == 'scores' else 'F' if name == 'frames' else 'M'}:{name}"
    if pointee in structs:
        array = counted and pointee != "cusEventArrays" or pointee in ("cusEventWindow", "cusEventSpan")
        kinds = "sa" if constant else "SA"
        return f"{'B' if before == 'capacity' else kinds[array]}:{name}:{pointee}"
    if name in "xypt" and not constant:
        return f"E:{name}:{number(pointee)}"
    if kind == "const char *":
        return f"z:{name}"
    return f"p:{name}:{number(pointee) or 'u8'}" if constant or counted else f"N:{name}:{number(pointee)}"


def signature(each):
    given = each["parameters"]
    words = [code(one, given[i + 1:], given[i - 1]["name"]) for i, one in enumerate(given)]
    for i in range(1, len(words)):
        if words[i - 1][0] in "aAdp" and is_count(given[i]):
            words[i] = "c" + words[i][1:]
    returns = each["returns"]
    first = {"cusStatus": "i", "void": "v", "const char *": "z"}.get(returns)
    pointee = returns.rstrip(" *")
    first = first or (f"s::{returns}" if returns in structs else f"h::{pointee}" if pointee in handles else "n")
    return " ".join([first, *words])


def field(each):
    kind = re.sub(r"\[.*", "", each["type"])
    pointee = kind.removeprefix("const ").rstrip(" *")
    if "*" in kind:
        what = "m" if pointee == "cusMat" else "z" if kind == "const char *" else f"*{pointee}" if pointee in structs else f"p{number(pointee) or 'u8'}"
    else:
        what = "text" if kind == "char" else kind if kind in structs else number(kind)
    return [each["offset"], what or "u32", each["count"]]


used = set()


def use(name):
    if name in structs and name not in used and not name.startswith(("cusEventFrames", "cusDevice")):
        used.add(name)
        for each in structs[name]["fields"]:
            use(re.sub(r"\[.*", "", each["type"]).removeprefix("const ").rstrip(" *"))


for function in functions:
    for kind in [function["returns"], *(one["type"] for one in function["parameters"])]:
        use(kind.removeprefix("const ").rstrip(" *"))
described = {name: [structs[name]["size"], {each["name"]: field(each) for each in structs[name]["fields"] if each["name"] != "reserved"}]
             for name in sorted(used)}
constants = {value["name"]: value["value"] for each in found["enums"] for value in each["values"] if value["name"].startswith("CUS_")}
(folder / "interface.js").write_text("// Written by scripts/web_interface.py.\n" + "".join(
    f"export const {name} = {json.dumps(value, separators=(',', ':'))};\n" for name, value in (
        ("constants", constants), ("structs", described), ("functions", {each["name"]: signature(each) for each in functions}))), encoding="utf-8")


# ---- Types ----

def note(text, indent=""):
    return "".join(f"{indent}{'/**' if i == 0 else ' *'} {line}".rstrip() + "\n" for i, line in enumerate(text.replace("*/", "* /").splitlines())) + \
        f"{indent} */\n" if text else ""


def member_type(each):
    _, what, count = field(each)
    kind = re.sub(r"\[.*", "", each["type"])
    if what == "m":
        return "Picture | null"
    if what in ("text", "z"):
        return "string | null" if what == "z" else "string"
    if what[0] in "*p":
        return f"{what[1:]} | null" if what[0] == "*" else f"{ARRAYS[what[1:]]} | null"
    one = what if what in structs else kind if kind in enums else "number | bigint" if what in ("i64", "u64") else "number"
    return f"({one})[]" if count > 1 else one


# Matrices that may be left out; of structs, only options may.
NULLABLE = {"cusDiffEncoderReset frame", "cusDiffDecoderReset frame", "cusMotionDetectorWatch mask", "cusStereoPicture contours"}


def typed(word, each, function=""):
    kind, pointee = word[0], each["type"].removeprefix("const ").rstrip(" *")
    if each["type"] == "const cusEventArrays *":
        return "Events"
    if kind in "nl":
        return pointee if pointee in enums else "number | bigint" if kind == "l" else "number"
    optional = " | null" if f"{function} {each['name']}" in NULLABLE or each["name"] in ("options", "windowing") else ""
    return {"m": f"Picture{optional}", "d": "Picture | Picture[]", "z": "string | null", "a": f"Partial<{pointee}>[]", "A": f"{pointee}[]", "s": f"Partial<{pointee}>{optional}",
            "S": pointee, "M": "Mat", "F": "Mat[]", "O": "Mat", "B": f"{pointee}[]", "N": "number", "h": pointee.removeprefix("cus"),
            "p": "Bytes" if "void" in each["type"] else ARRAYS.get(number(pointee) or "u8")}[kind]


def method(handle, name):
    """cusMatcherRun of cusMatcher is run; cusEventStackSpans of cusEventStacker is stackSpans."""
    stem = handle if name.startswith(handle) else re.sub("[A-Z][a-z0-9]*$", "", handle)
    rest = name[len(stem):]
    return rest[0].lower() + rest[1:]


CREATES = re.compile("Create$|OpenMemory$")
ENDS = re.compile("Destroy$|Close$|Release$")
# What cusight.js does in its own way.
OVERRIDES = {
    "cusEventReaderRead": "(capacity: number): Events", "cusEventGeneratorPush": "(frame: Picture, time: number | bigint): Events",
    "cusEventDecoderRun": "(bytes: Bytes, capacity: number): {events: Events; decoded: cusEventDecoded}",
    "cusMotionDetectorGet": "(camera: number): {status: cusMotionStatus; boxes: cusMotionBox[]; tracks: cusMotionTrack[]}",
    "cusMotionDetectorRun": "(frames: (Picture | null)[], times?: (number | bigint)[] | null): void",
    "cusViewerInput": "(data: Bytes, updated: (update: cusViewerUpdate) => void): void", "cusViewerOutput": "(): Uint8Array", "cusLastError": None,
}
by_class, lines = {}, ["// Written by scripts/web_interface.py.\n", "import type {Bytes, Mat, Picture, Events} from \"./index.js\";\n"]
for each in found["enums"]:
    if each["name"].startswith("cus"):
        lines.append(note(each["comment"]) + f"export type {each['name']} = {' | '.join(str(value['value']) for value in each['values'])};\n")
lines.append("/** The numbers that the headers name. */\nexport declare const constants: {\n" +
             "".join(f"  readonly {name}: {value};\n" for name, value in constants.items()) + "};\n")
for name in sorted(used):
    lines.append(note(structs[name]["comment"]) + f"export interface {name} {{\n" + "".join(
        note(each["comment"], "  ") + f"  {each['name']}: {member_type(each)};\n" for each in structs[name]["fields"] if each["name"] != "reserved") + "}\n")
for each in functions:
    words = signature(each).split()[1:]
    pairs = list(zip(words, each["parameters"]))
    handle = next((word.split(":")[2] for word in words[:1] if word[0] == "h"), None)
    if CREATES.search(each["name"]) and (words[0][0] == "H" or handle == "cusSparseDiff"):
        handle, pairs = each["parameters"][0]["type"].rstrip(" *"), pairs[1:]
        name, result = "constructor", ""
    else:
        pairs = pairs[1:] if handle else pairs
        name = method(handle, each["name"]) if handle else each["name"][3].lower() + each["name"][4:]
        outs = [(one["name"], typed(word, one)) for word, one in pairs if word[0] in "MSNABF"]
        numbers = [out for out in outs if out[0] in ("count", "found", "used")] if any(word[0] in "AB" for word, _ in pairs) else []
        outs = [out for out in outs if out not in numbers]
        returns = each["returns"]
        plain = "string" if returns == "const char *" else returns if returns in structs else returns if returns in enums else "number"
        result = plain if returns not in ("cusStatus", "void") else outs[0][1] if len(outs) == 1 else "void" if not outs else \
            "{" + "; ".join(f"{out}: {kind}" for out, kind in outs) + "}"
        result = f": {result}"
    if ENDS.search(each["name"]) or each["name"].startswith("cusMat") and not each["name"].startswith("cusMatcher"):
        continue
    inputs = [("capacity", "number") if word[0] == "A" else (one["name"], typed(word, one, each["name"])) for word, one in pairs if word[0] in "nlmdzaspAh"]
    last = len(inputs)
    while last and "null" in inputs[last - 1][1]:
        last -= 1
    arguments = [f"{one}{'?' if i >= last else ''}: {kind}" for i, (one, kind) in enumerate(inputs)]
    if any(word[0] in "MO" for word, _ in pairs):
        arguments.append("into?: {" + "; ".join(f"{one['name']}?: Mat | null" for word, one in pairs if word[0] in "MO") + "}")
    declared = OVERRIDES.get(each["name"], f"({', '.join(arguments)}){result}")
    if declared:
        by_class.setdefault(handle, []).append(note(each["comment"], "  ") + f"  {name}{declared};\n")
by_class["cusSparseDiff"].append("  /** Indices of changed bytes, and their differences modulo 256. */\n  positions(): Uint32Array;\n  values(): Uint8Array;\n")
for handle, members in by_class.items():
    if handle:
        comment = next((each["comment"] for each in found["typedefs"] + found["structs"] if each["name"] == handle), "")
        lines.append(note(comment) + f"export declare class {handle.removeprefix('cus')} {{\n" + "".join(members) +
                     "  /** Frees its memory; the object cannot be used afterwards. */\n  dispose(): void;\n  [Symbol.dispose](): void;\n}\n")
lines.append("/** The library: its functions without an object, and the classes of its objects. */\nexport interface Functions {\n" +
             "".join(by_class.get(None, [])) +
             "".join(f"  {handle.removeprefix('cus')}: typeof {handle.removeprefix('cus')};\n" for handle in by_class if handle) + "}\n")
(folder / "interface.d.ts").write_text("".join(lines), encoding="utf-8")
