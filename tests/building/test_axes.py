"""Parts of axes, and which old index a new one comes from."""

import numpy as np
import pytest

from ramet.building.growth.axes import (
    Run,
    UnclearError,
    agreed,
    crossed,
    index_map,
    joined,
    overlaid,
)

pytestmark = pytest.mark.backend_free


def run(key, size, **options):
    return Run(key, size, **options)


def indices(old, new, **options):
    return index_map(old, new, **options).tolist()


def test_a_run_grows_and_is_cut_at_its_end():
    assert indices(run("a", 2), run("a", 4)) == [0, 1, -1, -1]
    assert indices(run("a", 4), run("a", 2)) == [0, 1]
    assert indices(run("a", 2), run("b", 5), repeat=True) == [0, 1, 0, 1, 0]


def test_a_run_with_an_anchor_grows_around_it():
    old, new = run("k", 3, anchor=1), run("k", 5, anchor=2)
    assert indices(old, new) == [-1, 0, 1, 2, -1]
    assert indices(new, old) == [1, 2, 3]
    assert indices(run("k", 3, anchor=1), run("k", 3, anchor=0)) == [0, 1, 2]
    with pytest.raises(UnclearError, match="where it grew"):
        indices(run("k", 3, anchor=1.5), run("k", 4, anchor=2))
    with pytest.raises(UnclearError, match="padding"):
        indices(run("k", 3, anchor=1), run("other", 5, anchor=2))


def test_joined_parts_follow_their_keys():
    old = joined([run("a", 2), run("b", 2)])
    assert indices(old, joined([run("a", 3), run("b", 2)])) == [0, 1, -1, 2, 3]
    assert indices(old, joined([run("b", 2), run("a", 2)])) == [2, 3, 0, 1]
    assert indices(old, joined([run("a", 2), run("new", 1), run("b", 2)])) == [0, 1, -1, 2, 3]
    assert indices(old, run("b", 3)) == [2, 3, -1]
    assert indices(run("b", 2), old) == [-1, -1, 0, 1]
    assert indices(old, joined([run("a", 2), run("c", 3)])) == [0, 1, 2, 3, -1]


def test_parts_that_cannot_be_paired():
    old = joined([run("a", 2), run("b", 2)])
    with pytest.raises(UnclearError, match="more or less often"):
        indices(old, joined([run("a", 2), run("a", 2), run("b", 2)]))
    with pytest.raises(UnclearError, match="other tensors"):
        indices(old, joined([run("x", 2), run("y", 2), run("z", 2)]))
    assert indices(old, run("x", 4)) == [0, 1, 2, 3]
    with pytest.raises(UnclearError, match="why not"):
        indices(run("a", 2, unclear="why not"), run("a", 3))


def test_crossed_parts_grow_one_by_one():
    gates = run("gates", 2, unclear="changed")
    old, new = crossed([gates, run("u", 2)]), crossed([gates, run("u", 3)])
    assert indices(old, new) == [0, 1, -1, 2, 3, -1]
    assert indices(new, old) == [0, 1, 3, 4]
    with pytest.raises(UnclearError, match="composed in another way"):
        indices(old, run("u", 6))
    inside = joined([crossed([gates, run("u", 2)]), run("b", 1)])
    grown = joined([crossed([gates, run("u", 3)]), run("b", 1)])
    assert indices(inside, grown) == [0, 1, -1, 2, 3, -1, 4]


def test_parts_have_to_agree():
    first = joined([run("a", 1), run("b", 1)])
    old = agreed([first, run("c", 2)])
    assert indices(old, agreed([joined([run("a", 1), run("b", 2)]), run("c", 3)])) == [0, 1, -1]
    with pytest.raises(UnclearError, match="different places"):
        indices(old, agreed([joined([run("a", 2), run("b", 1)]), run("c", 3)]))
    assert indices(old, agreed([first, run("c", 2), run("d", 2)])) == [0, 1]


def test_values_are_laid_over_where_they_have_a_place():
    old, new = np.arange(4).reshape(2, 2), np.full((2, 3), 9)
    made = overlaid(new, old, [np.array([1, -1]), np.array([0, -1, 1])])
    assert made.tolist() == [[2, 9, 3], [9, 9, 9]]
    assert overlaid(np.array(1.0), np.array(2.0), []).item() == 2
