"""What can be copied is compared: `verify` names each of many single changes, and no other."""

import functools
import re

import keras
import pytest

import ramet
from verifyperturbations import PERTURBATIONS, everyday
from zoo import Case, sample_for_backend

pytestmark = pytest.mark.filterwarnings("ignore")


@functools.cache  # each test changes a clone
def model() -> keras.Model:
    return everyday()


def test_a_clone_is_the_same_and_nothing_is_left_out():
    twin = ramet.clone(model())
    for pair in ((model(), twin), (twin, model()), (model(), model())):
        report = ramet.verify(*pair)
        assert report.ok, [*(each.differences for each in report.checks), report]
        assert report.complete


@pytest.mark.parametrize(
    "case", sample_for_backend(keras.backend.backend()), ids=lambda case: case.name
)
def test_a_clone_of_anything_is_the_same(case: Case):
    source = case.build()
    inputs = None if source.built else case.data()[0]
    report = ramet.verify(source, ramet.clone(source), inputs=inputs)
    assert report.ok, [(each.differences, each.not_compared, each.scope) for each in report.checks]


def test_what_cannot_be_compared_is_listed():
    def holding(text):
        layer = keras.layers.ReLU(name="relu")
        layer.letters = (letter for letter in text)
        return keras.Sequential([keras.Input((4,), name="x"), layer], name="s")

    report = ramet.verify(holding("ab"), holding("ab"), only="structure")
    check = report.check("structure")
    assert check.not_compared == ("layer 'relu': letters (generator)",)
    assert check.verdict == "not all checked"
    assert not report.ok
    assert not report.complete
    assert "not compared: layer 'relu': letters" in " ".join(str(report).split())
    with pytest.raises(
        ramet.DifferenceError, match=r"not compared in structure: layer 'relu': let"
    ):
        report.raise_if_different()


@pytest.mark.parametrize("name", PERTURBATIONS)
def test_a_single_change_is_named(name):
    change, aspect, line = PERTURBATIONS[name]
    twin = ramet.clone(model())
    change(twin)
    for number, pair in enumerate(((model(), twin), (twin, model()))):
        report = ramet.verify(*pair, only=("structure", "sharing", "state"))
        found = [text for check in report.checks for text in check.differences]
        assert not report.ok
        assert report.complete, report
        if not number:
            told = report.check(aspect).differences
            assert any(re.match(line, text) for text in told), found
        assert len(found) <= 12, found
