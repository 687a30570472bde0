"""One interface to three backends: values by their class, and what is asked of the one in use."""

import sys

import keras
import numpy as np
import pytest
from keras import layers

import ramet
from ramet import backends
from ramet import keras_internals as internals
from ramet.backends.base import Backend
from ramet.backends.values import copy_value, is_symbolic, is_tensor, same_bits, to_numpy


class Holds(layers.Layer):
    """Holds whatever it is given."""

    def __init__(self, table):
        super().__init__(name="holds")
        self.table = table

    def call(self, x):
        return x


def holding(table):
    return keras.Sequential([keras.Input((2,), name="x"), Holds(table)], name="net")


def foreign_tensor(values):
    """Returns a PyTorch tensor, which on other backends is not the backend's."""
    torch = pytest.importorskip("torch")
    return torch.tensor(values)


def test_the_current_backend_is_the_one_of_its_values(backend):
    assert backends.current().name == backend
    value = keras.Variable([1.0, 2.0]).value
    assert backends.backend_of(type(value)) is backends.current()
    assert backends.current() in backends.loaded()


def test_what_is_of_no_backend_is_answered_for():
    for value in (np.ones(2), [1], None, "text", 3.0):
        found = backends.backend_of(type(value))
        assert type(found) is Backend
        assert is_tensor(value) is isinstance(value, np.ndarray)
        assert not is_symbolic(value)
    array = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    copied = copy_value(array)
    assert copied is not array
    assert copied.strides == array.strides


def test_a_backend_that_may_not_be_imported_is_not_loaded(monkeypatch):
    monkeypatch.setattr(backends, "BACKENDS", (Backend("blocked"), *backends.BACKENDS))
    monkeypatch.setitem(sys.modules, "blocked", None)
    assert "blocked" not in [each.name for each in backends.loaded()]
    with internals.fixed_randomness(3):
        pass


def test_another_backend_of_keras_has_no_special_ways(monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "numpy")
    assert type(backends.current()) is Backend
    assert backends.current().name == "numpy"
    assert backends.current().why_not_named("a.b") is None


def test_a_tensor_of_another_package_is_compared():
    model = holding(foreign_tensor([1.0, 2.0]))
    twin = ramet.clone(model)
    assert ramet.verify(model, twin).ok
    twin.layers[0].table.zero_()
    report = ramet.verify(model, twin)
    assert not report.ok
    assert "has table" in str(report)


def torch_tensors():
    torch = pytest.importorskip("torch")
    bits = torch.tensor([0, 1, 2, 0x7F, 0xFF], dtype=torch.uint8)
    wide = torch.tensor([0, 1, -1, 0x7FC1, -3], dtype=torch.int16)
    return {
        "grad": torch.nn.Parameter(torch.ones(2)),
        "sparse": torch.eye(3).to_sparse(),
        "conjugate": torch.tensor([1 + 2j]).conj(),
        "bfloat16": wide.view(torch.bfloat16),
        "float8": bits.view(torch.float8_e4m3fn),
        "scalar": torch.tensor(3.0, dtype=torch.bfloat16),
    }


@pytest.mark.parametrize("kind", ["grad", "sparse", "conjugate", "bfloat16", "float8", "scalar"])
def test_every_torch_tensor_has_values_on_every_backend(kind):
    tensor = torch_tensors()[kind]
    values = to_numpy(tensor)
    assert values.shape == tuple(tensor.shape)
    assert str(values.dtype).startswith(str(tensor.dtype).removeprefix("torch."))
    dense = tensor.detach().to_dense() if kind == "sparse" else tensor.detach()
    np.testing.assert_array_equal(
        values.astype("complex64"),
        np.array(dense.to(dtype=torch_complex()).resolve_conj().tolist()),
    )
    assert same_bits(values, to_numpy(copy_value(tensor)))


def torch_complex():
    return pytest.importorskip("torch").complex64


def test_bits_survive_the_way_to_numpy():
    tensor = torch_tensors()["bfloat16"]
    assert to_numpy(tensor).view("int16").tolist() == [0, 1, -1, 0x7FC1, -3]


def test_arrays_that_numpy_has_are_memory_of_their_own():
    tensor = foreign_tensor([1.0, 2.0])
    values = to_numpy(tensor)
    tensor.zero_()
    assert values.tolist() == [1.0, 2.0]


def test_keys_and_references_of_jax_are_compared(backend):
    if backend != "jax":
        pytest.skip("the keys are JAX's")
    import jax

    tables = {
        "key": (jax.random.key(1), jax.random.key(2)),
        "reference": (jax.new_ref(jax.numpy.ones(2)), jax.new_ref(jax.numpy.zeros(2))),
    }
    for one, other in tables.values():
        model = holding(one)
        assert ramet.verify(model, ramet.clone(model)).ok
        assert not ramet.verify(model, holding(other)).ok


def test_strings_are_compared_by_what_they_say():
    first, second = (np.array([text.encode() for text in ("one", "two" * 9)], object) for _ in "ab")
    assert first.tobytes() != second.tobytes()
    assert same_bits(first, second)
    second[1] = b"three"
    assert not same_bits(first, second)


def test_string_tensors_are_compared(backend):
    if backend != "tensorflow":
        pytest.skip("only TensorFlow has tensors of strings")
    import tensorflow as tf

    first, second, other = (
        holding(tf.constant(["one", text])) for text in ("two" * 9, "two" * 9, "six")
    )
    assert ramet.verify(first, second).ok
    assert not ramet.verify(first, other).ok


def test_sparse_tensors_are_of_the_backend(backend):
    values = np.array([[0.0, 2.0], [0.0, 0.0]], "float32")
    tensor = backends.current().sparse_tensor(values)
    assert backends.backend_of(type(tensor)) is backends.current()
    assert is_tensor(tensor)
    assert same_bits(to_numpy(tensor), values)
    assert ("Sparse" in type(tensor).__name__ or hasattr(tensor, "nse")) is (backend != "torch")


def test_random_states_are_restored_as_they_were():
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    expected = torch.rand(2).tolist()
    torch.manual_seed(1)
    with internals.fixed_randomness(7):
        first = torch.rand(2).tolist()
    assert torch.rand(2).tolist() == expected
    with internals.fixed_randomness(7):
        assert torch.rand(2).tolist() == first != expected


def test_a_name_that_the_backend_cannot_hold(backend):
    reason = backends.current().why_not_named("a.b")
    assert (reason is not None) is (backend == "torch")
    assert backends.current().why_not_named("a_b") is None
