from typing import Generic, Iterator, TypeVar

T_co = TypeVar("T_co", covariant=True)

class Dataset(Generic[T_co]):
    def __getitem__(self, index: int) -> T_co: ...

class DataLoader(Generic[T_co]):
    def __init__(self, dataset: Dataset[T_co], batch_size: int = ..., num_workers: int = ...) -> None: ...
    def __iter__(self) -> Iterator[T_co]: ...
