"""Mutants: which there are, and that a function becomes one."""

import importlib.util

import pytest

from mutation import install, mutants_of, mutated

pytestmark = pytest.mark.backend_free

TEXT = '''
"""A module."""

LIMIT = 3


class Counter:
    """A class."""

    def most(self, values, limit=LIMIT):
        """Return values below a limit."""
        found: list[int] = []
        for value in values:
            if value < limit and not value % 2:
                found.append(value + 1)
            else:
                continue
        return found


def outer(factor):
    def inner(x):
        return x * factor

    return inner
'''

BOTH = "value < limit and (not value % 2)"
CHANGES = {
    "a limit": ("value < limit", "value <= limit", [2], [1, 2, 4], [3]),
    "both conditions": (BOTH, "value < limit or not value % 2", [3], [1, 2, 4], [2, 3, 5]),
    "one condition": (BOTH, "value < limit", [3], [1, 2, 4], [2, 3]),
    "a sum": ("value + 1", "value - 1", [4], [2, 4], [1]),
    "a constant": ("1", "2", [9], [2], [4]),
    "a statement": ("found.append(value + 1)", "pass", [9], [2], []),
    "a loop": ("continue", "break", [9], [1, 2], []),
    "a result": ("return found", "return None", [9], [1], None),
}  # fmt: skip


@pytest.fixture
def module(tmp_path):
    path = tmp_path / "counted.py"
    path.write_text(TEXT)
    spec = importlib.util.spec_from_file_location("counted", path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def mutant(tmp_path, before, after):
    found = [m for m in mutants_of(tmp_path / "counted.py", tmp_path)
             if (m.before, m.after) == (before, after)]  # fmt: skip
    assert found, [str(m) for m in mutants_of(tmp_path / "counted.py", tmp_path)]
    return found[0]


@pytest.mark.parametrize("what", CHANGES)
def test_a_method_becomes_a_mutant(what, module, tmp_path):
    before, after, (limit,), values, result = CHANGES[what]
    counter = module.Counter()
    plain = counter.most(values, limit)
    assert install(mutated(mutant(tmp_path, before, after), tmp_path)) == 1
    assert counter.most(values, limit) == result != plain


def test_functions_inside_functions_and_those_that_live_already(module, tmp_path):
    live = module.outer(3)
    assert live(4) == 12
    assert install(mutated(mutant(tmp_path, "x * factor", "x + factor"), tmp_path)) == 2
    assert live(4) == 7
    assert module.outer(3)(4) == 7


def test_only_what_runs_inside_functions_is_changed(module, tmp_path):
    del module
    found = mutants_of(tmp_path / "counted.py", tmp_path)
    assert {m.function for m in found} == {"Counter.most", "outer", "outer.inner"}
    assert not any("list" in m.before or "Return" in m.before for m in found)
    assert {m.line for m in found if m.function == "Counter.most"} == {13, 14, 15, 17, 18} - {13}
    assert len({m.number for m in found}) == len(found)
