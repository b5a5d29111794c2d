"""What the objects have in common: close(), closed, and use as a context manager."""

from __future__ import annotations

from functools import lru_cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import numpy

Self = TypeVar("Self", bound="Closeable")


@lru_cache(maxsize=None)
def record_type(*fields: tuple[str, str]) -> numpy.dtype[Any]:
    """The NumPy type of structures with these fields, made once. NumPy is imported when it is needed."""
    import numpy

    return numpy.dtype(list(fields))


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
