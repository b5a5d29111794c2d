#!/usr/bin/env python3
"""What is inside a wheel of scripts/wheels, and how large it may be. wheel.py WHEEL cpu|cuda MACHINE, such as aarch64 or windows. Exit
status 1: it is not as it should be. Needs pyelftools, which auditwheel brings, and for Windows mingw-w64's objdump."""
import base64
import csv
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

from elftools.elf.elffile import ELFFile
from sbom import problems

path, backend, machine = sys.argv[1:]
name = os.path.basename(path)
size = os.path.getsize(path)
wheel = zipfile.ZipFile(path)
files = wheel.namelist()
wrong = []


def expect(condition, text):
    if not condition:
        wrong.append(text)


platform = "win_amd64" if machine == "windows" else rf"manylinux_2_\d+_{machine}"
expect(re.search(rf"-{platform}(\.|$)", name), f"the platform is not {platform}")
expect(re.match(r"cusight_cu\d+-" if backend == "cuda" else "cusight-", name), "the package has another name")
expect(re.search(r"-cp3(12-abi3|\d+-cp3\d+)-", name), "the Python tag is neither that of the stable ABI nor of one version")
for wanted in ("cusight/__init__.py", "cusight/_core.pyi", "cusight/py.typed"):
    expect(wanted in files, f"{wanted} is missing")
expect(any(re.fullmatch(r"cusight/_core\.(.*so|pyd)", f) for f in files), "the module is missing")
expect(any(re.fullmatch(r"cusight[^/]*\.dist-info/licenses/LICENSE", f) for f in files), "the license is missing")
# Libraries from elsewhere, each with a reason to be here. Not libhdf5, curl, Kerberos, LDAP, CUDA's.
libraries = {os.path.basename(f) for f in files if re.search(r"\.so(\.|$)", f) and not f.startswith("cusight/_core")}
known = re.compile(r"lib(gomp|zstd|blosc|bz2|lz4|snappy)-[0-9a-f]+\.so[.0-9]*")
expect(all(known.fullmatch(f) for f in libraries), f"unexpected libraries: {sorted(libraries)}")
expect(all(re.match(r"cusight(\.libs|(_cu\d+)?-[0-9.]+\.dist-info)?/", f) for f in files), f"unexpected files: {files}")
for file in files:
    if re.search(r"\.so(\.|$)", file):
        elf = ELFFile(io.BytesIO(wheel.read(file)))
        expect(elf["e_machine"] == {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}[machine], f"{file} is for {elf['e_machine']}")
        # CUDA's runtime is inside the module; it opens the driver, and the module cuFFT, when they are needed.
        linked = [tag.needed for tag in elf.get_section_by_name(".dynamic").iter_tags("DT_NEEDED")]
        expect(not any(re.match("lib(cu|nv)", library) for library in linked), f"{file} links {linked}")
        if file.startswith("cusight/_core"):
            expect((elf.get_section_by_name(".nv_fatbin") is not None) == (backend == "cuda"), "CUDA code is missing, or unexpected")
        expect(os.getcwd().encode() not in wheel.read(file), f"{file} names the folder that it was built in")
    elif file.endswith(".pyd"):
        with tempfile.NamedTemporaryFile() as module:
            module.write(wheel.read(file))
            module.flush()
            said = subprocess.run(["x86_64-w64-mingw32-objdump", "-p", module.name], stdout=subprocess.PIPE, text=True, check=True).stdout
        imports = {dll: re.findall(r"^\s[0-9a-f]+\s+\d+\s+(\w+)$", names, re.M)
                   for dll, names in re.findall(r"DLL Name: (\S+)\n(.*?)\n\n", said, re.S)}
        system = re.compile(r"(python3|KERNEL32|msvcrt|bcrypt|api-ms-win-core-synch-l1-2-0)\.dll")
        expect("python3.dll" in imports and all(system.fullmatch(dll) for dll in imports), f"{file} links {sorted(imports)}")
        # Python's own list of the stable ABI, if its tests are installed.
        stable = os.path.join(sysconfig.get_path("stdlib"), "test", "test_stable_abi_ctypes.py")
        if os.path.exists(stable):
            with open(stable, encoding="utf-8") as f:
                unknown = set(imports.get("python3.dll", ())) - set(re.findall(r'"(_?Py\w+)"', f.read())) - {"PyModule_Create2"}
            expect(not unknown, f"{file} uses what python3.dll may lack: {sorted(unknown)}")
        exports = re.findall(r"^\s\[ *\d+\] (\w+)$", said, re.M)
        expect("PyInit__core" in exports and not any("cus" in name for name in exports), f"{file} exports {exports}")
        expect(os.getcwd().encode() not in wheel.read(file), f"{file} names the folder that it was built in")
# What is inside, as PEP 770 has it, and RECORD, which scripts/sbom rewrites.
sbom = next((f for f in files if re.fullmatch(r"cusight[^/]*\.dist-info/sboms/cusight\.spdx\.json", f)), None)
expect(sbom, "there is no SPDX document")
if sbom:
    wrong += problems(json.loads(wheel.read(sbom)), ["cusight", "nanobind", *(["libc.so"] if machine != "windows" else []), *(["CUDA runtime", "CUB"] if backend == "cuda" else []),
                                                     *{library.split("-")[0] for library in libraries}])
record = next(f for f in files if f.endswith(".dist-info/RECORD"))
rows = {row[0]: row[1] for row in csv.reader(io.StringIO(wheel.read(record).decode())) if row}
expect(sorted(rows) == sorted(f for f in files if not f.endswith("/")), "RECORD names other files than there are")
for file, digest in rows.items():
    expect(file == record or digest == "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(wheel.read(file)).digest()).rstrip(b"=").decode(),
           f"RECORD has another hash of {file}")
limit = {"cpu": 3, "cuda": 100}[backend]  # PyPI accepts 100 MB
expect(size <= limit * 1000000, f"{size} bytes, at most {limit} MB are expected")
for text in wrong:
    print(f"{name}: {text}")
print(f"{name}: {size} bytes, {len(files)} files, libraries {' '.join(sorted(libraries)) or 'none'}")
sys.exit(bool(wrong))
