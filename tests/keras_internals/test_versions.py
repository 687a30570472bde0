"""A Keras that is newer than the newest one tested: one warning, and clear errors."""

import warnings

import keras
import pytest
from keras import layers

import ramet
from ramet.errors import UntestedKerasWarning, VersionError
from ramet.keras_internals import versions
from ramet.keras_internals.inventory import NEWEST, OLDEST, Private


@pytest.fixture
def newer(monkeypatch):
    """A Keras of the next minor version."""
    caches = versions._warn, versions.unknown_fields
    major, minor = map(int, NEWEST.split("."))
    monkeypatch.setattr(keras, "__version__", f"{major}.{minor + 1}.0")
    for cache in caches:
        cache.cache_clear()
    yield keras.__version__
    for cache in caches:
        cache.cache_clear()


def model():
    x = keras.Input((3,), name="x")
    return keras.Model(x, layers.Dense(2, name="dense")(x), name="net")


VERBS = {
    "clone": ramet.clone,
    "trace": ramet.trace,
    "verify": lambda net: ramet.verify(net, net, only="structure"),
    "diff": lambda net: ramet.diff(net, net),
    "masks": ramet.masks,
    "show": ramet.show,
    "emit": lambda net: ramet.emit(net, check=False),
    "run": lambda net: ramet.run(net, keras.ops.ones((1, 3))),
    "merge": lambda net: ramet.merge([net]),
    "clone_model": ramet.clone_model,
}


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_every_verb_warns_once_at_the_line_that_calls_it(newer, verb):
    net = model()
    with pytest.warns(UntestedKerasWarning, match=rf"Keras {newer} is newer than {NEWEST}") as seen:
        verb(net)
    own = [each for each in seen if issubclass(each.category, UntestedKerasWarning)]
    assert [each.filename for each in own] == [__file__]
    assert "install a newer ramet" in str(own[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UntestedKerasWarning)
        verb(net)
        ramet.clone(net)


def test_a_tested_version_does_not_warn():
    if versions.is_untested():
        pytest.skip("this Keras is untested")
    versions._warn.cache_clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UntestedKerasWarning)
        ramet.clone(model())


@pytest.mark.parametrize(
    ("version", "untested"),
    [
        (f"{NEWEST}.0", False),
        (f"{NEWEST}.9", False),
        (f"{OLDEST}.1", False),
        ("3.16.0.dev2026102704", NEWEST < "3.16"),
        ("4.0.0", True),
        ("3.100.0rc1", True),
    ],
)
def test_versions_are_compared_as_numbers(monkeypatch, version, untested):
    monkeypatch.setattr(keras, "__version__", version)
    assert versions.is_untested() is untested


@pytest.mark.usefixtures("newer")
def test_the_warning_names_unknown_fields(monkeypatch):
    known = versions.FIELDS - {"_loss_ids"}
    monkeypatch.setattr(versions, "FIELDS", known)
    with pytest.warns(UntestedKerasWarning, match=r"does not know: .*Layer\._loss_ids"):
        ramet.clone(model())


def test_a_missing_private_name_is_an_error_that_names_it(newer):
    gone = Private("keras.src.ops.node", "Nodule", "one call of an operation")
    with pytest.raises(VersionError, match=rf"Keras {newer}, which has no keras.src.ops.node.Nod"):
        versions.require_names((gone,))
    gone = Private("keras.src.nowhere", "Node", "one call of an operation")
    with pytest.raises(ImportError, match=rf"install a newer ramet, or 'keras>={OLDEST},<3\.\d+'"):
        versions.require_names((gone,))
    versions.require_names()


def test_the_version_of_ramet_is_that_of_its_distribution():
    from importlib.metadata import version

    assert ramet.__version__ == version("ramet")
    assert "__version__" in dir(ramet)
