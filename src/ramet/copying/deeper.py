"""How deep a copy may go. Both cores ask here, so that their limit is the same.

A core copies what is nested by recursion. With a stack of its own in place of the machine's, it
would need each handler as a state machine, and user code recurses anyway. So both cores count
levels. The first few fit on any stack; a copy that needs more looks at the stack of its thread, and
raises Python's recursion limit for as many levels as fit there.
"""

import sys
from typing import Any

from ramet import _recursion
from ramet.errors import DepthError

SHALLOW = 24
"""How many levels fit on any stack, under any usual recursion limit."""

DEEPEST = 1000
"""The most levels, however large the stack is."""

BYTES = 2048
"""The most bytes of the stack that a level needs; a test measures them."""

_FRAMES = 8
"""The most frames of Python that a level needs, in handlers and in the core in Python."""

_RESERVE = 1 << 15
"""Bytes of the stack that are left to whatever is called at the deepest level."""


def copy_deeper(copier: Any, value: Any) -> Any:
    """Copy something that is nested more deeply than a copier may go so far.

    Raises:
        DepthError: If it is nested more deeply than fits on the stack of the thread.
    """
    if copier.deepest != SHALLOW:
        raise _too_deep(copier.deepest)
    stack = _recursion.stack()
    most = min(DEEPEST, stack.size // 2 // BYTES)
    if most <= SHALLOW:
        raise _too_deep(SHALLOW)
    copier.deepest, copier.floor = most, stack.low + _RESERVE if stack.low else 0
    try:
        with _recursion.raised_limit(sys.getrecursionlimit() + _FRAMES * most):
            return copier.copy(value)
    except DepthError:
        raise
    except RecursionError as error:
        raise _too_deep(most) from error
    finally:
        copier.deepest, copier.floor = SHALLOW, 0


def _too_deep(most: int) -> DepthError:
    where, remedy = "", "flatten what its layers hold"
    if most < DEEPEST:
        size = _recursion.stack().size >> 10
        where = f", the most that fit on the stack of this thread ({size:,} KiB)"
        remedy += ", or clone in a thread with a larger stack (threading.stack_size)"
    return DepthError(f"objects are nested more than {most:,} levels deep{where}; {remedy}")
