#!/usr/bin/env python3
"""rust_interface.py FILE: writes the declarations of the C interface for Rust there, from scripts/interface; cusight-sys is made of them.

Enumerations are C's integers with constants, since a later library may return values that this one does not name. Handles are types without
a size, structs have the size that the C compiler gives them, which is checked when they are compiled. Comments become documentation.
"""
import importlib.machinery
import importlib.util
import re
import sys
from pathlib import Path

loader = importlib.machinery.SourceFileLoader("interface", str(Path(__file__).resolve().parent / "interface"))
interface = importlib.util.module_from_spec(importlib.util.spec_from_loader("interface", loader))
loader.exec_module(interface)

found = interface.describe()
PLAIN = {"void": "c_void", "char": "c_char", "int": "c_int", "float": "f32", "double": "f64", "size_t": "usize", "int8_t": "i8", "uint8_t": "u8",
         "int16_t": "i16", "uint16_t": "u16", "int32_t": "i32", "uint32_t": "u32", "int64_t": "i64", "uint64_t": "u64"}
# Those of Rust that can be names in C.
KEYWORDS = set("abstract as async await box dyn final fn impl in let loop match mod move mut override priv pub ref trait type unsafe use "
               "unsized virtual where yield".split())


def named(name):
    return f"r#{name}" if name in KEYWORDS else name


def rust(kind, parameter=False):
    """The type of a field, parameter or result; arrays are pointers as parameters, as in C."""
    kind = re.sub(r"\bstruct ", "", kind).strip()
    if "(*)" in kind:
        result, arguments = kind.removesuffix(")").split("(*)(")
        return f"Option<unsafe extern \"C\" fn({', '.join(rust(each, True) for each in arguments.split(', '))}){returned(result)}>"
    if kind.endswith("]"):
        element, count = re.fullmatch(r"(.*?)\[(\d+)\]", kind).groups()
        return rust(element + " *") if parameter else f"[{rust(element)}; {count}]"
    if kind.endswith("*"):
        pointee = kind[:-1].strip()
        if pointee.endswith("*const"):
            return f"*const {rust(pointee.removesuffix('const'))}"
        mutable = "const" if pointee.startswith("const ") and "*" not in pointee else "mut"
        return f"*{mutable} {rust(pointee if '*' in pointee else pointee.removeprefix('const '))}"
    return PLAIN.get(kind, kind)


def returned(kind):
    return "" if kind.strip() == "void" else f" -> {rust(kind)}"


def note(comment, indent=""):
    return "".join(f"{indent}/// {line.strip()}".rstrip() + "\n" for line in comment.splitlines())


lines = ["// Written by scripts/rust_interface.py.\n"]
for each in found["macros"]:
    lines.append(f"{note(each['comment'])}pub const {each['name']}: c_int = {each['value']};\n")
for each in found["enums"]:
    if each["name"]:
        lines.append(f"{note(each['comment'])}pub type {each['name']} = c_int;\n")
    lines += [f"{note(value['comment'])}pub const {value['name']}: {each['name'] or 'c_int'} = {value['value']};\n" for value in each["values"]]
for each in found["typedefs"]:
    name, kind = each["name"], each["type"]
    handle = re.fullmatch(r"struct (\w+)( \*)?", kind)
    if handle:
        lines.append(f"{note(each['comment'])}#[repr(C)]\npub struct {handle[1]} {{\n    _private: [u8; 0],\n"
                     "    _marker: PhantomData<(*mut u8, PhantomPinned)>,\n}\n")
    if not handle or handle[2]:
        lines.append(f"{note(each['comment'])}pub type {name} = {rust(kind)};\n")
for each in found["structs"]:
    fields = "".join(f"{note(one['comment'], '    ')}    pub {named(one['name'])}: {rust(one['type'])},\n" for one in each["fields"])
    lines.append(f"{note(each['comment'])}#[repr(C)]\n#[derive(Clone, Copy)]\npub struct {each['name']} {{\n{fields}}}\n"
                 f"#[cfg(target_pointer_width = \"64\")]\nconst _: () = assert!(size_of::<{each['name']}>() == {each['size']});\n")
lines.append("extern \"C\" {\n")
for each in found["functions"]:
    if each["exported"]:
        given = ", ".join(f"{named(one['name'])}: {rust(one['type'], True)}" for one in each["parameters"])
        lines.append(f"{note(each['comment'], '    ')}    pub fn {each['name']}({given}){returned(each['returns'])};\n")
exported = ", ".join(f"{each['name']} as *const ()" for each in found["functions"] if each["exported"])
lines.append(f"}}\n#[cfg(test)]\nfn functions() -> Vec<*const ()> {{\n    vec![{exported}]\n}}\n")
Path(sys.argv[1]).write_text("".join(lines), encoding="utf-8")
