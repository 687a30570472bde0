"""Large pages for large arrays, where the system has them.

The system maps new memory page by page, which for large arrays takes longer than filling it.
NumPy asks Linux for large pages. This module does the same for values of PyTorch; huge values
of JAX are copied into memory that NumPy allocated.
"""

import ctypes
import functools
import math
import mmap
import sys
from collections.abc import Callable

import numpy as np

LARGE = 1 << 22
"""From how many bytes on large pages pay off; the limit is also NumPy's."""


ALIGNMENT = 64
"""JAX and TensorFlow use memory in place if its address is a multiple of this, and copy other."""


def aligned_like(array: np.ndarray) -> np.ndarray:
    """Return an empty array of the same shape and dtype in memory that backends can use."""
    memory = np.empty(array.nbytes + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)


def packed(array: np.ndarray) -> np.ndarray:
    """Return an array whose values lie in order and without gaps: the same, or a copy of it.

    NumPy calls an array contiguous whatever the strides of axes of size one; backends do not.
    """
    sizes = [max(size, 1) for size in array.shape]
    strides = [array.itemsize * math.prod(sizes[axis + 1 :]) for axis in range(array.ndim)]
    return array if array.strides == tuple(strides) else np.array(array, order="C")


def ask_for_large_pages(address: int, size: int) -> None:
    """Ask for large pages in a range of memory, before anything is written there.

    This is only advice, which the system may ignore.
    """
    advise = _advise()
    if advise is not None:
        start = -(-address // mmap.PAGESIZE) * mmap.PAGESIZE
        end = (address + size) // mmap.PAGESIZE * mmap.PAGESIZE
        advise(start, end - start, mmap.MADV_HUGEPAGE)


@functools.cache
def _advise() -> Callable[[int, int, int], int] | None:
    """Return the system's `madvise`, or None if it has none."""
    if not sys.platform.startswith("linux") or not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    try:
        advise = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):
        return None
    advise.argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
    return advise
