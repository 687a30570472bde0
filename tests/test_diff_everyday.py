"""Several edits at once on everyday models: diff lists each, verify agrees, show marks them."""

import collections
import itertools
import os
import random
from typing import Any

import keras
import pytest

import ramet
from difftruth import Truth
from everyday import EVERYDAY, Edit, Line
from ramet.comparing.alignment.align import align
from ramet.comparing.counterparts import pair
from ramet.comparing.differences import changes
from ramet.showing.compared import overlay
from ramet.showing.read import read
from test_diff_properties import listed, marked, prefixes_of

HUNTED = int(os.environ.get("RAMET_HUNT_PROGRAMS", "0"))
"""Whether `make hunt` plays: each edit is made alone, and many sets of three at once."""
START = int(os.environ.get("RAMET_HUNT_SEED", "0"))
"""The seed by which it chooses those."""
SMALL = [name for name in EVERYDAY if name not in ("resnet50", "mobilenet")]
ON_TORCH = keras.backend.backend() == "torch"

pytestmark = [pytest.mark.sampled, pytest.mark.filterwarnings("ignore")]


def lines(found: Any) -> list[Line]:
    return sorted((entry.kind, entry.where) for entry in found)


def expected(edits: list[Edit], *, back: bool = False) -> list[Line]:
    """What several edits take: two layers are added twice, but one model is frozen once."""
    return sorted(line for edit in edits for line in (edit.backward if back else edit.forward))


def check(model: keras.Model, edits: list[Edit]) -> None:
    graph = ramet.trace(model)
    for edit in edits:
        graph = edit.change(graph)
    built = graph.build()
    found = ramet.diff(model, built)
    assert lines(found) == expected(edits), found
    Truth(model, built, found).check()
    back = ramet.diff(built, model)
    assert lines(back) == expected(edits, back=True), back
    Truth(built, model, back).check()
    assert lines(ramet.diff(model, built, weights=False)) == expected(edits)
    check_agreement(model, built)


def check_agreement(model: keras.Model, built: keras.Model) -> None:
    """Verify pairs the same layers, and show marks what diff lists."""
    first, second = ramet.trace(model), ramet.trace(built)
    alignment = align(first, second)
    pairs = {(id(one.origin), id(two.origin)) for _, one, _, two in alignment.pairs()}
    live = {(id(both.old), id(both.new)) for both in pair(model, built).layers}
    assert pairs <= live
    found = changes(alignment, weights=True)
    prefixes = collections.defaultdict(list)
    for graph in (first, second):
        for key, prefix in prefixes_of(graph):
            prefixes[key].append(prefix)
    view = overlay(read(first), read(second), alignment, found)
    assert marked(view) == listed(found, prefixes)


@pytest.fixture(scope="module")
def made() -> dict[str, keras.Model]:
    return {}


def model_of(made: dict[str, keras.Model], name: str) -> keras.Model:
    if name not in made:
        keras.utils.clear_session(free_memory=False)  # Keras counts names from the start.
        made[name] = EVERYDAY[name][0]()
    return made[name]


@pytest.mark.parametrize("name", EVERYDAY if ON_TORCH else SMALL)
def test_all_edits_at_once(made, name):
    check(model_of(made, name), [*EVERYDAY[name][1].values()])


@pytest.mark.one_backend
@pytest.mark.parametrize("name", SMALL)
def test_some_edits_at_once(made, name):
    several = [*itertools.combinations(EVERYDAY[name][1].values(), 3)]
    for chosen in random.Random(name).sample(several, 4):
        check(model_of(made, name), [*chosen])


@pytest.mark.skipif(not HUNTED, reason="`make hunt` plays many programs")
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", EVERYDAY)
def test_hunt(made, name):
    model, edits = model_of(made, name), EVERYDAY[name][1]
    for edit in edits.values():
        check(model, [edit])
    several = [*itertools.combinations(edits.values(), 3)]
    for chosen in random.Random(START).sample(several, 20):
        check(model, [*chosen])
