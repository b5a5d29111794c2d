"""What the objects have in common: close(), closed, and use as a context manager."""

from __future__ import annotations

from functools import lru_cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, Mapping, TypeVar

if TYPE_CHECKING:
    import numpy

Self = TypeVar("Self", bound="Closeable")


@lru_cache(maxsize=None)
def record_type(*fields: tuple[str, str]) -> numpy.dtype[Any]:
    """The NumPy type of structures with these fields, made once. NumPy is imported when it is needed."""
    import numpy

    return numpy.dtype(list(fields))


def filled(options: Any, values: Mapping[str, Any], **others: Any) -> Any:
    """The library's options, with those of these values that are its fields, by name. Raises as `integer`, `real` and `choice`."""
    for name, value in {**values, **others}.items():
        if isinstance(getattr(type(options), name, None), property):
            setattr(options, name, value)
    return options


class Options:
    """A data class of options, whose object of the library is made once, at its first use, and not pickled."""

    _made: Any  # makes it

    def _options(self) -> Any:
        made = self.__dict__.get("_cached")
        if made is None:
            made = self._made()
            object.__setattr__(self, "_cached", made)
        return made

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_cached"}


class Closeable:
    """Owns an object of the library. After close() every other call raises ValueError."""

    _core: Any
    _about = ""  # what __repr__ says

    def __repr__(self) -> str:
        name = type(self).__name__
        if getattr(self, "_core", None) is None:
            return f"<{name}: not created>"
        return f"<{name}: {self._about}{', closed' if self.closed else ''}>"

    def close(self) -> None:
        """Frees the object. Arrays that view its memory stay valid. Closing twice is allowed."""
        self._core.close()

    @property
    def closed(self) -> bool:
        return bool(self._core.closed)

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
