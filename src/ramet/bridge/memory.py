"""Large pages for large arrays, where the system gives them on request.

Fresh memory is handed out page by page, which for large arrays takes longer than to
fill it. NumPy asks Linux for large pages. So does this for values of PyTorch, and huge
values of JAX are put into memory of NumPy's.
"""

import ctypes
import functools
import mmap
import sys
from collections.abc import Callable

import numpy as np

LARGE = 1 << 22
"""From how many bytes on it pays; NumPy's limit too."""


_ALIGNMENT = 64
"""JAX takes memory over as it is if its address is a multiple of this, and else copies it."""


def aligned_like(array: np.ndarray) -> np.ndarray:
    """Returns an array of the same shape and dtype in memory that JAX can take over."""
    memory = np.empty(array.nbytes + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)


def ask_for_large_pages(address: int, size: int) -> None:
    """Asks for large pages between two addresses, before anything is written there.

    It is advice: where the system does not take it, nothing is different.
    """
    advise = _advise()
    if advise is not None:
        start = -(-address // mmap.PAGESIZE) * mmap.PAGESIZE
        end = (address + size) // mmap.PAGESIZE * mmap.PAGESIZE
        advise(start, end - start, mmap.MADV_HUGEPAGE)


@functools.cache
def _advise() -> Callable[[int, int, int], int] | None:
    """Returns the system's call, if it has one."""
    if not sys.platform.startswith("linux") or not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    try:
        advise = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):
        return None
    advise.argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
    return advise
