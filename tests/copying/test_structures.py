"""Plain structures of any shape: the same shape again, nothing in common, sharing kept."""

import collections
import types

import hypothesis.strategies as st
from hypothesis import given, settings

from ramet.copying.deep_copy import Copier

Pair = collections.namedtuple("Pair", "first second")  # noqa: PYI024  a user's own

KINDS = {
    "list": list,
    "tuple": tuple,
    "deque": collections.deque,
    "dict": lambda items: dict(enumerate(items)),
    "ordered": lambda items: collections.OrderedDict((str(i), x) for i, x in enumerate(items)),
    "default": lambda items: collections.defaultdict(list, enumerate(items)),
    "pair": lambda items: Pair(items, tuple(items)),
    "object": lambda items: types.SimpleNamespace(items=items, more={"items": items}),
}
ATOMS = (None, 3, "text", 2.5, b"bytes", len, int)


@st.composite
def structures(draw):
    """A list of things, each of which may hold any of those before it, also twice."""
    made = list(ATOMS)
    for _ in range(draw(st.integers(1, 12))):
        held = draw(st.lists(st.integers(0, len(made) - 1), max_size=4))
        made.append(KINDS[draw(st.sampled_from(sorted(KINDS)))]([made[index] for index in held]))
    loop = [made[-1]]
    loop.append(loop)
    return [*made, loop]


def parts(value):
    if isinstance(value, dict):
        return [*value, *value.values()]
    if isinstance(value, types.SimpleNamespace):
        return [*vars(value).items()]
    return [*value] if isinstance(value, (list, tuple, collections.deque)) else []


@given(structures())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_a_copy_has_the_shape_of_its_source_and_nothing_of_it(value):
    waiting, pair_of, kept = [(value, Copier().copy(value))], {}, []
    while waiting:
        old, new = waiting.pop()
        assert type(new) is type(old)
        if id(old) in pair_of:
            assert pair_of[id(old)] is new or (isinstance(old, tuple) and old == new)
            continue
        pair_of[id(old)] = new
        olds, news = parts(old), parts(new)
        kept += [olds, news]  # ids are told apart only while their things live
        if not isinstance(old, tuple) and (olds or not isinstance(old, (*map(type, ATOMS),))):
            assert new is not old
        elif not olds:
            assert new == old
        assert len(olds) == len(news)
        waiting.extend(zip(olds, news, strict=True))
    olds = [thing for thing in pair_of.values() if isinstance(thing, list)]
    assert len({id(thing) for thing in olds}) == len(olds)
