"""How deep recursion may go: Python's limit, and the stack of the current thread."""

import contextlib
import ctypes
import sys
import threading
from collections.abc import Generator
from typing import NamedTuple


class Stack(NamedTuple):
    """The stack of a thread."""

    low: int
    """Its lowest address; 0 if it is not known."""
    size: int
    """Its size in bytes."""


_UNKNOWN = Stack(0, 1 << 19)
"""What is assumed where the system does not say: the smallest usual size."""

_ATTRIBUTES = 256
"""More bytes than a `pthread_attr_t` has anywhere."""


def stack() -> Stack:
    """Return the stack of the current thread."""
    try:
        if sys.platform == "win32":
            return _on_windows()
        return _on_macos() if sys.platform == "darwin" else _on_linux()
    except (OSError, AttributeError):  # no such library, or no such function in it
        return _UNKNOWN


def _on_linux() -> Stack:
    library = ctypes.CDLL(None)
    library.pthread_self.restype = ctypes.c_void_p
    attributes = ctypes.create_string_buffer(_ATTRIBUTES)
    if library.pthread_getattr_np(ctypes.c_void_p(library.pthread_self()), attributes):
        return _UNKNOWN
    low, size = ctypes.c_void_p(), ctypes.c_size_t()
    library.pthread_attr_getstack(attributes, ctypes.byref(low), ctypes.byref(size))
    library.pthread_attr_destroy(attributes)
    return Stack(low.value or 0, size.value)


def _on_macos() -> Stack:
    library = ctypes.CDLL(None)
    library.pthread_self.restype = ctypes.c_void_p
    library.pthread_get_stackaddr_np.restype = ctypes.c_void_p
    library.pthread_get_stacksize_np.restype = ctypes.c_size_t
    thread = ctypes.c_void_p(library.pthread_self())
    size = library.pthread_get_stacksize_np(thread)
    return Stack(library.pthread_get_stackaddr_np(thread) - size, size)


def _on_windows() -> Stack:
    low, high = ctypes.c_size_t(), ctypes.c_size_t()
    kernel = ctypes.CDLL("kernel32")
    kernel.GetCurrentThreadStackLimits(ctypes.byref(low), ctypes.byref(high))
    return Stack(low.value, high.value - low.value)


_lock = threading.Lock()
_raised: list[int] = []
_before = [0]


@contextlib.contextmanager
def raised_limit(limit: int) -> Generator[None]:
    """Raise Python's recursion limit, which all threads share, as long as some thread needs it."""
    with _lock:
        if not _raised:
            _before[0] = sys.getrecursionlimit()
        _raised.append(limit)
        sys.setrecursionlimit(max(sys.getrecursionlimit(), limit))
    try:
        yield
    finally:
        with _lock:
            _raised.remove(limit)
            sys.setrecursionlimit(max([_before[0], *_raised]))
