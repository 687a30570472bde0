"""Both cores copy random graphs of objects in the same way, or fail in the same way."""

import pytest

from objectgraphs import outcome
from ramet.copying import core

pytestmark = [
    pytest.mark.backend_free,
    pytest.mark.skipif(
        core.Core is core.PythonCore, reason="there is no compiler, or Python is asked for"
    ),
]

GRAPHS = 1500


@pytest.mark.parametrize("part", range(5))
def test_both_cores_agree(part):
    for seed in range(part, GRAPHS, 5):
        assert outcome(core.Core, seed) == outcome(core.PythonCore, seed), seed


def test_whatever_happens_meanwhile_nothing_crashes():
    for seed in range(100):  # `make hunt` plays more, with sanitizers
        outcome(core.Core, seed, wild=True)
