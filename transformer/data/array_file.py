"""An array of one dimension, written to a .npy file some values at a time."""

from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt


class ArrayFile:
    """The same bytes as of ``numpy.save``, which would need the whole array; use it as a context manager."""

    def __init__(self, path: Path, dtype: npt.DTypeLike) -> None:
        self._file, self._dtype = path.open("wb"), np.dtype(dtype)
        self._length = 0
        self._write_header()

    def append(self, values: npt.ArrayLike) -> None:
        array = np.asarray(values, self._dtype)
        self._file.write(array.tobytes())
        self._length += len(array)

    def __enter__(self) -> "ArrayFile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self._file.seek(0)
            self._write_header()
        self._file.close()

    def _write_header(self) -> None:
        """NumPy leaves room in a header, so that it has the same size for every length."""
        descr = np.lib.format.dtype_to_descr(self._dtype)
        header = {"descr": descr, "fortran_order": False, "shape": (self._length,)}
        np.lib.format.write_array_header_1_0(self._file, header)
