"""Runs right.py: each value that assert_type names must be of that type, and each overload of the package must have been called, with a
result that is what it says. `python values.py RECORDING [DSEC M3ED]` prints what is wrong."""

from __future__ import annotations

import array
import ast
import functools
import inspect
import os
import sys
import types
import typing
from pathlib import Path
from typing import Any, Callable, Iterator

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
import standin  # noqa: E402

wrong: list[str] = []


class Tensor(standin.Tensor):
    """With what right.py and the package ask of one on the CPU."""

    requires_grad = False

    def is_neg(self) -> bool:
        return False

    def __init__(self, array: Any) -> None:
        super().__init__(np.asarray(array))

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, index: Any) -> Tensor:
        return Tensor(self.array[index])

    def view(self, dtype: Any) -> Tensor:
        return Tensor(self.array.view(dtype.partition(".")[2]))

    def reshape(self, count: int) -> Any:
        return self.array.reshape(count)

    def __isub__(self, number: int) -> Tensor:
        self.array -= number
        return self

    def contiguous(self) -> Tensor:
        return Tensor(self.array.copy())


class Dataset(typing.Generic[typing.TypeVar("Item")]):
    pass


def install_torch() -> None:
    torch = standin.install()
    torch.Tensor = standin.Tensor = Tensor
    Tensor.__module__ = "torch"
    torch.from_numpy, torch.device, torch.uint32 = Tensor, str, "torch.uint32"
    torch.empty = lambda shape, dtype, device: Tensor(np.empty(shape, dtype.partition(".")[2]))
    torch.stack = lambda tensors, axis: Tensor(np.stack([one.array for one in tensors], axis))
    data = types.ModuleType("torch.utils.data")
    data.Dataset = data.IterableDataset = Dataset
    sys.modules |= {"torch.utils": types.ModuleType("torch.utils"), "torch.utils.data": data}


# ---- Whether a value is of a type ------------------------------------------------------------------------------------------

shared: dict[str, Any] = {"__name__": "shared", "os": os}  # the names of cusight._types, with those for type checkers alone
known: dict[int, Any] = {}  # the parameters of an object's class, by its id; the objects are kept
kept: list[Any] = []


def fits(value: Any, kind: Any, bound: dict[Any, Any]) -> bool:
    """Whether a value is of a type. `bound`: what stands for the variables in it."""
    if isinstance(kind, typing.ForwardRef):
        kind = eval(kind.__forward_arg__, shared)
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if hasattr(origin, "__value__"):  # an alias with parameters: what NDArray is from NumPy 2.5 on
        return fits(value, origin.__value__[args], bound)
    base = getattr(origin, "__orig_bases__", [None])[0]
    if typing.get_origin(base) is tuple:  # events.TensorEvents, which only checkers know
        return fits(value, base[args], bound)
    if kind is Any:
        return True
    if kind is None or kind is type(None):
        return value is None
    if isinstance(kind, typing.TypeVar):
        if kind in bound:
            return fits(value, bound[kind], bound)
        good = kind.__bound__ is None or fits(value, kind.__bound__, bound)
        if good:
            bound[kind] = type(value)
        return good
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, one, bound) for one in args)
    if origin is typing.Literal:
        return any(type(value) is type(one) and value == one for one in args)
    if origin is np.ndarray:
        return type(value) is np.ndarray and of_element(value.dtype.type, typing.get_args(args[1])[0], bound)
    if origin is np.dtype:
        return isinstance(value, np.dtype) and of_element(value.type, args[0], bound)
    if origin is tuple and args[-1:] != (...,):
        return isinstance(value, tuple) and len(value) == len(args) and all(fits(v, k, bound) for v, k in zip(value, args))
    if isinstance(origin, type) and issubclass(origin, typing.Mapping):
        return isinstance(value, origin) and all(fits(one, args[1], bound) for one in value.values())
    if isinstance(origin, type) and issubclass(origin, (typing.Sequence, typing.Iterable)) and origin.__module__ != "cusight":
        sequence = isinstance(value, origin) and not (origin is not list and isinstance(value, (np.ndarray, standin.Tensor, memoryview)))
        if isinstance(value, str) or not sequence:
            return isinstance(value, origin) and args[0] is str
        return all(fits(one, args[0], bound) for one in value)
    if origin is not None and callable(origin) and origin is not type and args:
        if origin is typing.get_origin(Callable[[], None]):
            return callable(value)
        if not isinstance(value, origin):
            return False
        args = tuple(bound.get(one, one) for one in args)
        given = known.setdefault(id(value), args)
        kept.append(value)
        return all(a == b or Any in (a, b) or isinstance(b, typing.TypeVar) for a, b in zip(given, args))
    if getattr(kind, "_is_protocol", False) and kind.__module__ in ("cusight._types", "shared"):
        return all(has(value, name) for name in vars(kind) if name[0] != "_" or name in SPECIAL)
    if kind is float:
        return isinstance(value, (int, float))
    if typing.is_typeddict(kind):
        return isinstance(value, dict)
    return isinstance(value, kind)


SPECIAL = {"__dlpack__", "__hash__", "__cuda_array_interface__", "__buffer__", "__array__", "__getitem__", "__cuda_stream__"}


def has(value: Any, name: str) -> bool:
    if name == "__buffer__":  # which objects have by this name from Python 3.12 on
        try:
            memoryview(value)
            return True
        except TypeError:
            return False
    return getattr(value, name, None) is not None


def of_element(element: Any, kind: Any, bound: dict[Any, Any]) -> bool:
    if kind is Any:
        return True
    if isinstance(kind, typing.TypeVar):
        return element is bound.setdefault(kind, element) and of_element(element, kind.__bound__, bound)
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return any(of_element(element, one, bound) for one in typing.get_args(kind))
    return issubclass(element, typing.get_origin(kind) or kind)


def assert_type(value: Any, kind: Any) -> Any:
    if not fits(value, kind, {}):
        line = sys._getframe(1).f_lineno
        wrong.append(f"right.py:{line}: {kind}, found {type(value).__name__} {getattr(value, 'dtype', '')} {known.get(id(value), '')}")
    return value


# ---- The overloads of the package -------------------------------------------------------------------------------------------


def names_of(module: Any) -> dict[str, Any]:
    """What annotations of a module may name: also what it defines and imports for type checkers alone."""
    names = {**vars(typing), "np": np, "numpy": np, **shared, **vars(module)}
    for block in ast.parse(Path(module.__file__).read_text()).body:
        if not isinstance(block, ast.If) or ast.unparse(block.test) != "TYPE_CHECKING":
            continue
        for one in block.body:
            if isinstance(one, ast.ImportFrom) and one.level and one.module != "_types":
                source = vars(sys.modules[f"cusight.{one.module}"])
                names |= {name.name: source[name.name] for name in one.names if name.name in source}
            elif not (isinstance(one, ast.ImportFrom) and one.level):
                exec(compile(ast.Module([one], []), module.__file__, "exec"), names)
    return names


class Overloads:
    """The overloads of a function or method, and which were called."""

    def __init__(self, function: Any, names: dict[str, Any]) -> None:
        self.name = f"{function.__module__}.{function.__qualname__}"
        self.names = names
        plain = [getattr(one, "__func__", one) for one in typing.get_overloads(function)]
        self.each = [(inspect.signature(one), one.__code__.co_firstlineno) for one in plain]
        self.called: set[int] = set()

    def kind(self, annotation: Any) -> Any:
        return eval(annotation, self.names) if isinstance(annotation, str) else annotation

    def takes(self, signature: inspect.Signature, values: dict[str, Any], bound: dict[Any, Any]) -> bool:
        for name, value in values.items():
            parameter = signature.parameters[name]
            if parameter.annotation is parameter.empty:
                continue
            kind = self.kind(parameter.annotation)
            if parameter.kind is parameter.VAR_KEYWORD:
                fields = typing.get_args(kind)[0]
                hints = {key: self.kind_of_field(fields, key) for key in value}
                if not all(hint is not None and fits(value[key], hint, bound) for key, hint in hints.items()):
                    return False
            elif not fits(value, kind, bound):
                return False
        return True

    def kind_of_field(self, fields: Any, key: str) -> Any:
        for one in [fields, *fields.__orig_bases__] if hasattr(fields, "__orig_bases__") else [fields]:
            annotation = getattr(one, "__annotations__", {}).get(key)
            if annotation is not None:
                text = getattr(annotation, "__forward_arg__", annotation)
                return eval(text, {**self.names, **names_by_module[one.__module__]}) if isinstance(text, str) else text
        return None

    def check(self, args: tuple[Any, ...], options: dict[str, Any], result: Any) -> None:
        matched = False
        for number, (signature, line) in enumerate(self.each):
            try:
                values = signature.bind(*args, **options).arguments
            except TypeError:
                continue
            first = args[0] if args else None
            bound = dict(zip(getattr(type(first), "__parameters__", ()), known.get(id(first), ())))
            if "self" in values and self.name.endswith("__init__"):
                kind = self.kind(signature.parameters["self"].annotation)
                if not self.takes(signature, {k: v for k, v in values.items() if k != "self"}, bound):
                    continue
                if not matched:
                    known[id(first)] = tuple(bound.get(one, one) for one in typing.get_args(kind))
                    kept.append(first)
            elif not self.takes(signature, values, bound):
                continue
            elif not fits(result, self.kind(signature.return_annotation), bound):
                if not matched:  # checkers take the first
                    found = f"{type(result).__name__} {getattr(result, 'dtype', '')}"
                    wrong.append(f"{self.name}, line {line}: returns {signature.return_annotation}, found {found}")
                continue
            matched = True
            self.called.add(number)
        if not matched:
            wrong.append(f"{self.name}: no overload takes {[type(one).__name__ for one in args]} {options.keys()}")

    def around(self, function: Any) -> Any:
        @functools.wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            outside = sys._getframe(1).f_globals["__name__"] == "right"
            result = function(*args, **options)
            if outside:
                self.check(args, options, result)
            return result

        return call


names_by_module: dict[str, dict[str, Any]] = {}


def watch(package: Any) -> Iterator[Overloads]:
    """Puts a watch around each function that has overloads."""
    exec(Path(sys.modules["cusight._types"].__file__).read_text().replace("if TYPE_CHECKING:", "if True:"), shared)
    shared["array"] = {Any: array.array}  # array[Any], which Python has from 3.12 on
    for name in [name for name in shared if not name.startswith("__") and name in vars(sys.modules["cusight._types"])]:
        shared[name] = getattr(sys.modules["cusight._types"], name)  # the same variables and classes
    modules = [module for name, module in sys.modules.items() if name.startswith("cusight.") and hasattr(module, "__file__")]
    for module in modules:
        if module.__file__.endswith(".py"):
            names_by_module[module.__name__] = names_of(module)
    for module in modules:
        places = [module, *(one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module.__name__)]
        for place in places:
            for name, function in list(vars(place).items()):
                plain = getattr(function, "__func__", function)
                if not isinstance(plain, types.FunctionType) or plain.__module__ != module.__name__ or not typing.get_overloads(plain):
                    continue
                overloads = Overloads(plain, names_by_module[module.__name__])
                made = overloads.around(plain)
                for other in [package, *modules] if place is module else [place]:
                    if vars(other).get(name) is function:
                        setattr(other, name, classmethod(made) if isinstance(function, classmethod) else made)
                yield overloads


def main(recording: str, *folders: str) -> int:
    install_torch()
    import cusight
    import cusight.datasets

    watched = list(watch(cusight))
    sys.modules["values"] = sys.modules["__main__"]
    import right

    image = np.random.default_rng(1).integers(0, 256, right.SHAPE, np.uint8)
    right.pictures(image, image, True)
    right.matching(image)
    right.differences(image)
    right.stereo(image)
    right.frames(recording, "cpu")
    right.training(recording)
    right.others(image)
    if folders:
        right.sequences(*folders)
    for one in watched:
        for number, (_, line) in enumerate(one.each):
            if number not in one.called and (folders or "cusight.datasets" not in one.name):
                wrong.append(f"{one.name}: right.py has no call of its overload of line {line}")
    print("\n".join(wrong))
    print(f"{len(watched)} functions with {sum(len(one.each) for one in watched)} overloads")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
