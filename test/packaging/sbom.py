#!/usr/bin/env python3
"""Whether files are what SPDX 2.3 demands of a document in JSON, and name what is asked for: sbom.py FILE[=NAME,NAME...]... A NAME is that of a
package, or the start of it. Prints what is wrong; exit status 1."""
import copy
import json
import re
import sys

DOCUMENT = {"spdxVersion": r"SPDX-2\.3", "dataLicense": r"CC0-1\.0", "SPDXID": "SPDXRef-DOCUMENT", "name": r".*\S.*",
            "documentNamespace": r"[a-z][a-z0-9+.-]*:[^\s#]+", "creationInfo": None, "packages": None, "relationships": None}
CREATION = {"created": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "creators": None}
PACKAGE = {"name": r".*\S.*", "SPDXID": r"SPDXRef-[A-Za-z0-9.-]+", "downloadLocation": r"NOASSERTION|NONE|[a-z+]+:\S+"}
RELATIONSHIP = {"spdxElementId": r"SPDXRef-[A-Za-z0-9.-]+", "relatedSpdxElement": r"SPDXRef-[A-Za-z0-9.-]+",
                "relationshipType": "DESCRIBES|CONTAINS|DYNAMIC_LINK|STATIC_LINK"}
LICENSED = {"licenseId": r"LicenseRef-[A-Za-z0-9.-]+", "extractedText": r"(?s).*\S.*"}
LICENSES = ("Apache-2.0 BSD-2-Clause BSD-3-Clause BSL-1.0 GPL-3.0-or-later LGPL-2.1-or-later MIT Zlib bzip2-1.0.6 GCC-exception-3.1 "
            "LLVM-exception").split()


def lacks(what, thing, required):
    for key, form in required.items():
        if key not in thing:
            yield f"{what} has no {key}"
        elif form and not re.fullmatch(form, thing[key]):
            yield f"{what}: {key} is {thing[key]!r}"


def problems(document, names=()):
    yield from lacks("the document", document, DOCUMENT)
    creation, packages = document.get("creationInfo", {}), document.get("packages", [])
    yield from lacks("creationInfo", creation, CREATION)
    if not any(re.fullmatch("(Person|Organization|Tool): .+", c) for c in creation.get("creators", [])):
        yield "there is no creator"
    own = {each.get("licenseId") for each in document.get("hasExtractedLicensingInfos", [])}
    for each in document.get("hasExtractedLicensingInfos", []):
        yield from lacks("a license", each, LICENSED)
    for package in packages:
        what = f"package {package.get('name')}"
        yield from lacks(what, package, PACKAGE)
        if package.get("filesAnalyzed", True):
            yield f"{what} has no packageVerificationCode"
        for key in ("licenseDeclared", "licenseConcluded"):
            words = re.split(r"[\s()]+", package.get(key, "NOASSERTION"))
            if words != ["NOASSERTION"] and not all(w in (*LICENSES, *own, "AND", "OR", "WITH") for w in words):
                yield f"{what}: {key} is {package[key]!r}"
        for reference in package.get("externalRefs", []):
            if not re.fullmatch(r"pkg:deb/[a-z]+/[a-z0-9.%A-F-]+@[A-Za-z0-9.%~_-]+\?arch=\w+", reference["referenceLocator"]):
                yield f"{what}: {reference['referenceLocator']}"
    identifiers = [document.get("SPDXID"), *(p.get("SPDXID") for p in packages)]
    if len(set(identifiers)) < len(identifiers):
        yield "an SPDXID is there twice"
    related = document.get("relationships", [])
    for each in related:
        yield from lacks("a relationship", each, RELATIONSHIP)
        if not {each.get("spdxElementId"), each.get("relatedSpdxElement")} <= set(identifiers):
            yield f"a relationship of what is not there: {each}"
    if sum(each.get("relationshipType") == "DESCRIBES" for each in related) != 1 or len(related) != len(packages):
        yield f"{len(related)} relationships for {len(packages)} packages"
    for name in names:
        if not any(p.get("name", "").startswith(name) and p.get("licenseDeclared", "NOASSERTION") != "NOASSERTION" for p in packages):
            yield f"{name} is not there, or has no license"


def broken(document):
    """Copies without one of what is required, and with what is wrong."""
    for path in (*((key,) for key in DOCUMENT), *(("creationInfo", key) for key in CREATION), *(("packages", 0, key) for key in PACKAGE),
                 *(("relationships", 0, key) for key in RELATIONSHIP)):
        for value in (None, "", "?"):
            changed = copy.deepcopy(document)
            inner = changed
            for key in path[:-1]:
                inner = inner[key]
            if value is None:
                del inner[path[-1]]
            elif isinstance(inner[path[-1]], str) and (path[-1] != "name" or value == ""):
                inner[path[-1]] = value
            else:
                continue
            yield ".".join(map(str, path)) + f" = {value!r}", changed
    doubled = copy.deepcopy(document)
    doubled["packages"].append(doubled["packages"][-1])
    yield "a package twice", doubled


def main():
    wrong = []
    for argument in sys.argv[1:]:
        path, _, asked = argument.partition("=")
        with open(path, encoding="utf-8") as file:
            read = json.load(file)
        wrong += [f"{path}: {text}" for text in problems(read, [name for name in asked.split(",") if name])]
        wrong += [f"sbom.py accepts {what}" for what, changed in broken(read) if not list(problems(changed))]
    print("\n".join(wrong) or f"{len(sys.argv) - 1} documents checked")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
