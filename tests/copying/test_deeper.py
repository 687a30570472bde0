"""How deep a copy may go is the same for both cores, and no thread runs out of stack."""

import collections
import functools
import re
import sys
import threading
import types
from pathlib import Path

import pytest

from ramet import _recursion
from ramet.copying import core, deeper
from ramet.copying.core import ATOMS
from ramet.errors import DepthError

pytestmark = pytest.mark.backend_free

CORES = [pytest.param(core.PythonCore, id="python")]
if core.Core is not core.PythonCore:
    CORES.append(pytest.param(core.Core, id="c"))
both = pytest.mark.parametrize("kind", CORES)
needs_c = pytest.mark.skipif(
    core.Core is core.PythonCore, reason="there is no compiler, or Python is asked for"
)

KIB = 1024
SIZES = (128 * KIB, 256 * KIB, 512 * KIB, 4096 * KIB)


class Node:
    def __init__(self, held):
        self.held = held


def copier_for(kind):
    """A copier whose handlers recurse in the ways of those of ramet."""

    def copy_deque(copier, value):
        twin = copier.memo[id(value)] = collections.deque()
        for item in value:
            twin.append(copier.copy(item))
        return twin

    table = {
        list: kind.copy_list,
        dict: kind.copy_dict,
        tuple: kind.copy_tuple,
        Node: kind.copy_object,
        collections.deque: copy_deque,
        frozenset: lambda copier, value: frozenset(copier.copy(item) for item in value),
        functools.partial: lambda copier, value: functools.partial(
            *map(copier.copy, (value.func, *value.args))
        ),
        types.BuiltinFunctionType: lambda _, value: value,
    }
    return kind(table, set(ATOMS), frozenset())


WRAPS = {
    "list": lambda value: [value],
    "tuple": lambda value: (value,),
    "dict": lambda value: {"a": value},
    "object": Node,
    "deque": lambda value: collections.deque([value]),
    "partial": lambda value: functools.partial(repr, value),
}


def nested(wrap, levels):
    value = Node(1)
    for _ in range(levels - 1):
        value = wrap(value)
    return value


def in_thread(size, function):
    """Return what a function returns, or the error that it raises, in a thread of its own."""
    found = []

    def run():
        try:
            found.append(function())
        except Exception as error:  # noqa: BLE001 it is looked at
            found.append(error)

    before = threading.stack_size(size)
    try:
        thread = threading.Thread(target=run)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    return found[0]


def most():
    """Return how many levels fit on the stack of this thread, which may be an older, larger one."""
    return min(deeper.DEEPEST, _recursion.stack().size // 2 // deeper.BYTES)


@both
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
def test_the_limit_is_the_same(kind, size, wrap):
    limit, kept = sys.getrecursionlimit(), []

    def copy(more):
        levels = most()
        kept.append(nested(wrap, levels + more))  # freed elsewhere, which takes some stack too
        try:
            return copier_for(kind).copy(kept[-1]), levels
        except DepthError as error:
            return error, levels

    assert type(in_thread(size, lambda: copy(0))[0]) is type(kept[0])
    error, levels = in_thread(size, lambda: copy(1))
    assert re.match(f"objects are nested more than {levels:,} levels deep", str(error))
    assert ("of this thread" in str(error)) == (levels < deeper.DEEPEST)
    assert sys.getrecursionlimit() == limit


@both
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
def test_far_too_deep_under_a_raised_limit(kind, size, wrap):
    value = nested(wrap, 3000)
    with _recursion.raised_limit(100_000):
        error = in_thread(size, lambda: copier_for(kind).copy(value))
    assert isinstance(error, DepthError)
    assert isinstance(error, RecursionError)
    while isinstance(value, Node) and value.held != 1:
        value = value.held


@needs_c
@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
def test_a_level_needs_no_more_of_the_stack_than_is_assumed(wrap):
    kept = []

    def copy():
        copier, stack = copier_for(core.Core), _recursion.stack()
        used = 16 * KIB  # by the thread, before the copy begins
        copier.deepest, copier.floor = 10**6, stack.low + stack.size // 2 - used
        kept.append(nested(wrap, most()))
        with _recursion.raised_limit(100_000):
            return copier.copy(kept[0])

    assert type(in_thread(1024 * KIB, copy)) is type(kept[0])


@both
def test_a_copier_can_be_used_after_it_went_too_deep(kind):
    copier, value = copier_for(kind), nested(WRAPS["list"], 2000)
    with pytest.raises(DepthError, match=r"more than 1,000 levels deep; flatten what its layers"):
        copier.copy(value)
    assert (copier.depth, copier.deepest, copier.floor) == (0, deeper.SHALLOW, 0)
    assert copier.copy([[1]]) == [[1]]


@both
def test_below_the_floor_nothing_is_copied(kind):
    copier = copier_for(kind)
    copier.deepest, copier.floor = 100, sys.maxsize
    if kind is core.PythonCore:
        assert copier.copy([1]) == [1]
    else:
        with pytest.raises(DepthError):
            copier.copy([1])


def test_the_core_in_c_has_the_same_shallow_limit():
    text = Path(core.__file__).with_name("_core.c").read_text(encoding="utf-8")
    assert f"#define SHALLOW {deeper.SHALLOW}\n" in text


def test_the_stack_of_a_thread_is_measured():
    for size in SIZES:
        stack = in_thread(size, _recursion.stack)
        assert stack.size >= size // 2
        assert stack.size % KIB == 0
        assert stack.low > 0


def test_what_the_system_does_not_say_is_assumed(monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")

    def fail():
        raise AttributeError("pthread_getattr_np")

    monkeypatch.setattr(_recursion, "_on_linux", fail)
    assert _recursion.stack() == (0, 512 * KIB)


def test_a_raised_limit_holds_until_the_last_thread_is_done():
    before = sys.getrecursionlimit()
    inside, leave = threading.Event(), threading.Event()

    def other():
        with _recursion.raised_limit(before + 5000):
            inside.set()
            leave.wait()

    thread = threading.Thread(target=other)
    with _recursion.raised_limit(before + 1000):
        thread.start()
        inside.wait()
        assert sys.getrecursionlimit() == before + 5000
    assert sys.getrecursionlimit() == before + 5000
    leave.set()
    thread.join()
    assert sys.getrecursionlimit() == before
