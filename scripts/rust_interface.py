#!/usr/bin/env python3
"""rust_interface.py FILE: writes the C interface in Rust, from scripts/interface: the crate cusight-sys is this file. It compiles only
if structs have C's sizes, and its test compares the offsets of fields."""
import importlib.machinery
import importlib.util
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("interface", str(Path(__file__).resolve().parent / "interface"))
interface = importlib.util.module_from_spec(importlib.util.spec_from_loader("interface", loader))
loader.exec_module(interface)

found = interface.describe()
SCALARS = {"void": "c_void", "char": "c_char", "int": "c_int", "size_t": "usize", "float": "f32", "double": "f64",
           **{f"{sign}int{bits}_t": f"{sign or 'i'}{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}}
structs = {each["name"] for each in found["structs"]}
enums = {each["name"] for each in found["enums"] if each["name"]}
named = structs | enums | {each["name"] for each in found["typedefs"]}


def rust(kind, argument=False):
    """The type in Rust of a C type; argument: an array is a pointer there."""
    callback = re.fullmatch(r"(.*?) ?\(\*\)\((.*)\)", kind)
    if callback:
        return function(callback[1], callback[2].split(", "))
    array = re.fullmatch(r"(.*?) ?((?:\[\d*\])+)", kind)
    if array:
        element = rust(array[1])
        if argument:
            return f"*{'const' if array[1].startswith('const ') else 'mut'} {element}"
        for count in reversed(re.findall(r"\d+", array[2])):
            element = f"[{element}; {count}]"
        return element
    if kind.endswith("*") or kind.endswith("*const"):
        pointee = kind.removesuffix("const").removesuffix("*").rstrip()
        constant = pointee.startswith("const ") if not pointee.endswith("*") else False
        return f"*{'const' if constant else 'mut'} {rust(pointee)}"
    kind = kind.removeprefix("const ").removeprefix("struct ").removeprefix("enum ")
    return SCALARS.get(kind) or (kind if kind in named else sys.exit(f"rust_interface.py: what is {kind} in Rust?"))


def function(returns, parameters):
    result = "" if returns == "void" else f" -> {rust(returns)}"
    return f"Option<unsafe extern \"C\" fn({', '.join(rust(one, True) for one in parameters if one != 'void')}){result}>"


def note(text, indent=""):
    return "".join(f"{indent}/// {line}".rstrip() + "\n" for line in text.splitlines())


def name_of(each):
    return f"r#{each['name']}" if each["name"] in ("box", "in", "match", "move", "ref", "type") else each["name"]


lines = ["// Written by scripts/rust_interface.py.\nuse std::os::raw::{c_char, c_int, c_void};\n"]
for each in found["macros"]:
    if each["name"].startswith("CUS") and -2**31 <= each["value"] < 2**31:
        lines.append(note(each["comment"]) + f"pub const {each['name']}: c_int = {each['value']};\n")
for each in found["enums"]:
    kind = each["name"] or "c_int"
    if each["name"]: # a number, since a later library may return values that this one does not know
        lines.append(note(each["comment"]) + f"pub type {kind} = c_int;\n")
    lines += [note(value["comment"]) + f"pub const {value['name']}: {kind} = {value['value']};\n" for value in each["values"]]
for each in found["typedefs"]:
    if each["type"].startswith("struct ") and each["type"].endswith("*"):
        lines.append(note(each["comment"]) + f"pub type {each['name']} = *mut c_void;\n")
    elif each["type"].startswith("struct "):
        lines.append(note(each["comment"]) + f"#[repr(C)]\npub struct {each['name']} {{\n    _private: [u8; 0],\n}}\n")
    else:
        lines.append(note(each["comment"]) + f"pub type {each['name']} = {rust(each['type'])};\n")
for each in found["structs"]:
    fields = "".join(note(field["comment"], "    ") + f"    pub {name_of(field)}: {rust(field['type'])},\n" for field in each["fields"])
    lines.append(note(each["comment"]) + f"#[repr(C)]\n#[derive(Clone, Copy)]\npub struct {each['name']} {{\n{fields}}}\n"
                 f"const _: () = assert!(std::mem::size_of::<{each['name']}>() == {each['size']});\n")
lines.append('extern "C" {\n')
for each in found["functions"]:
    if each["exported"]:
        given = ", ".join(f"{name_of(one)}: {rust(one['type'], True)}" for one in each["parameters"])
        result = "" if each["returns"] == "void" else f" -> {rust(each['returns'])}"
        lines.append(note(each["comment"], "    ") + f"    pub fn {each['name']}({given}){result};\n")
lines.append("}\n\n#[cfg(test)]\nmod tests {\n    use super::*;\n    #[test]\n    fn fields_are_where_c_has_them() {\n")
for each in found["structs"]:
    lines.append(f"        let s = std::mem::MaybeUninit::<{each['name']}>::uninit();\n        let p = s.as_ptr();\n        unsafe {{\n")
    lines += [f"            assert_eq!(std::ptr::addr_of!((*p).{name_of(field)}) as usize - p as usize, {field['offset']});\n"
              for field in each["fields"]]
    lines.append("        }\n")
lines.append("    }\n}\n")
Path(sys.argv[1]).write_text("".join(lines), encoding="utf-8")
