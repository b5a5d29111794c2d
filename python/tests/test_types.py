"""mypy and pyright, both strict, accept the programs of typed/right.py, of the documents and of the examples, and refuse each line of
typed/wrong.py that says so."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
import typing
from pathlib import Path

import cusight
import pytest

from test_datasets import clean, dsec, m3ed  # noqa: F401  (fixtures)
from test_documents import GIVEN, ROOT, blocks
from test_interface import FUNCTIONS

TYPED = Path(__file__).parent / "typed"
PACKAGE = Path(cusight.__file__).parents[1]
EXTRA = [str(TYPED), *([] if "site-packages" in str(PACKAGE) else [str(PACKAGE)])]  # typed/torch stands for PyTorch
WHERE = re.compile(r"([\w.]+\.py):(\d+): error: .*\[([\w-]+)\]")


UNTYPED = "reportUnknownMemberType=false"
UNKNOWN_TYPES = f"{UNTYPED}, reportUnknownVariableType=false, reportUnknownArgumentType=false"
# Rules of pyright that cannot hold for programs with these words.
LOOSE = {
    "cusight.ray": UNTYPED,  # Ray's functions say only part of their types
    "PyNvVideoCodec": UNKNOWN_TYPES,  # it has no types
    "matplotlib": f"{UNKNOWN_TYPES}, reportPrivateImportUsage=false, reportUnusedExpression=false",  # pyplot.Rectangle; a cell's last line
}


def loosened(text):
    return "".join(f"# pyright: {rules}\n" for word, rules in LOOSE.items() if word in text) + text


def examples(folder):
    """The documents' blocks of Python as programs, with what they take as given, but for the names that they make; and the examples."""
    (folder / "given.py").write_text(GIVEN)
    there = {name.id for name in ast.walk(ast.parse(GIVEN)) if isinstance(name, ast.Name)} - {"cusight", "numpy"} | {"train"}
    for number, block in enumerate(blocks()):
        nodes = list(ast.walk(ast.parse(block.values[0])))
        names = {node.id for node in nodes if isinstance(node, ast.Name)}
        made = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        made |= {node.arg for node in nodes if isinstance(node, ast.arg)}
        imports = [one for node in nodes if isinstance(node, ast.Import) for one in node.names]
        made |= {one.asname or one.name.partition(".")[0] for one in imports}
        taken = sorted(names & there - made)
        start = "".join(f"import {name}\n" for name in ("cusight", "numpy") if name in names - made)
        start += f"from given import {', '.join(taken)}\n" if taken else ""
        (folder / f"{re.sub(r'[^a-z]', '_', block.id.lower())}{number}.py").write_text(loosened(start + block.values[0]))
    (folder / "notebooks").mkdir()  # pyright reads these, too; mypy widens lists of words
    for file in (ROOT / "python/examples").iterdir():
        if file.suffix == ".py":
            (folder / file.name).write_text(loosened(file.read_text()))
        elif file.suffix == ".ipynb":
            cells = [cell["source"] for cell in json.loads(file.read_text())["cells"] if cell["cell_type"] == "code"]
            text = "\n\n".join("".join(lines) for lines in cells).replace("%matplotlib", "# %matplotlib")
            (folder / "notebooks" / f"{file.stem}.py").write_text(loosened(text + "\n"))


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("types")
    for name in ("right.py", "wrong.py"):
        (folder / name).write_text((TYPED / name).read_text())
    examples(folder)
    return folder


@pytest.fixture(scope="session")
def mypy_says(programs):
    """The errors by file, each a line and a rule."""
    pytest.importorskip("mypy")
    cache = ROOT / "build-python/mypy-tests" if (ROOT / "build-python").is_dir() else programs / "cache"
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-error-summary", "--cache-dir", cache]
    ended = subprocess.run(
        [*command, "--ignore-missing-imports", *sorted(programs.glob("*.py"))],
        env={**os.environ, "MYPYPATH": ":".join(EXTRA)}, cwd=programs, capture_output=True, text=True, check=False,
    )
    assert ended.returncode in (0, 1), ended.stdout + ended.stderr
    found: dict[str, set[tuple[int, str]]] = {}
    for file, line, rule in WHERE.findall(ended.stdout):
        found.setdefault(file, set()).add((int(line), rule))
    return found, ended.stdout


@pytest.fixture(scope="session")
def pyright_says(programs):
    pytest.importorskip("pyright")
    options = {"extraPaths": EXTRA, "typeCheckingMode": "strict", "reportMissingImports": False, "reportMissingModuleSource": False}
    (programs / "pyrightconfig.json").write_text(json.dumps(options))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", programs]
    environment = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode in (0, 1), ended.stdout + ended.stderr
    found: dict[str, set[tuple[int, str]]] = {}
    for one in json.loads(ended.stdout)["generalDiagnostics"]:
        if one["severity"] == "error":
            found.setdefault(Path(one["file"]).name, set()).add((one["range"]["start"]["line"] + 1, one.get("rule", "")))
    return found, ended.stdout


def expected(checker):
    """What the comments of wrong.py say: `# the rules of mypy, the rules of pyright`."""
    for number, line in enumerate((TYPED / "wrong.py").read_text().splitlines(), 1):
        comment = re.search(r"  # ([\w -]+), (report[\w ]+)$", line)
        if comment:
            yield from ((number, rule) for rule in comment[checker].split())


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_programs_that_are_right(checker, request):
    found, said = request.getfixturevalue(f"{checker}_says")
    assert not {file: lines for file, lines in found.items() if file != "wrong.py"}, said


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_programs_that_are_wrong(checker, request):
    found, said = request.getfixturevalue(f"{checker}_says")
    wanted = set(expected(1 if checker == "mypy" else 2))
    assert len(wanted) >= 40
    assert found["wrong.py"] == wanted, sorted(found["wrong.py"] ^ wanted)


def test_calls_return_what_the_types_say(request, tmp_path):
    """right.py runs: each overload is called, and what it returns is of the type that it says."""
    if sys.version_info < (3, 11):
        pytest.skip("typing.get_overloads is new in Python 3.11")
    pytest.importorskip("typing_extensions")
    (tmp_path / "run.txt").write_bytes(b"64 48\n1000 1 1 1\n2000 2 2 0\n3500 2 2 0\n5000 3 3 1\n")
    folders = []
    if all(map(importlib.util.find_spec, ("h5py", "cv2"))):
        folders = [request.getfixturevalue("dsec")[0], request.getfixturevalue("m3ed")[0]]
    arguments = [sys.executable, TYPED / "values.py", tmp_path / "run.txt", *folders]
    ended = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


# Which framework they return arrays of depends on the last frames, or on the device.
UNKNOWN = {"DiffDecoder.frame", "DiffEncoder.reference", "Matcher.results", "MotionDetector.mask", "PoseMatcher.template"}


def test_few_results_have_no_type():
    """Without overloads, a result that may be anything needs a reason."""
    if sys.version_info < (3, 11):
        pytest.skip("typing.get_overloads is new in Python 3.11")
    found = set()
    for function in FUNCTIONS.values():
        plain = getattr(function, "__func__", function)
        if not typing.get_overloads(plain) and str(plain.__annotations__.get("return", "Any")) in ("Any", "tuple[Any, Any]"):
            found.add(plain.__qualname__)
    assert found - {name for name in found if name.endswith("__init__")} == UNKNOWN
