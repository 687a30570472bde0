"""Large values of PyTorch and JAX: in pages of any size, the same bits."""

import mmap
import sys

import keras
import numpy as np
import pytest
from keras import layers

import exact
import ramet
from ramet import backends
from ramet.backends import jax as jax_backend
from ramet.backends import memory
from ramet.backends.values import ValueCopies, copy_value, same_bits

only_torch = pytest.mark.skipif(
    keras.backend.backend() != "torch", reason="only PyTorch's values are asked for"
)
only_jax = pytest.mark.skipif(
    keras.backend.backend() != "jax", reason="only JAX takes NumPy's memory over"
)


@pytest.fixture
def asked(monkeypatch):
    """Notes what the system is asked for."""
    calls = []
    monkeypatch.setattr(memory, "_advise", lambda: lambda *call: calls.append(call))
    return calls


@pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="large pages are Linux's")
def test_whole_pages_inside_are_asked_for(asked):
    page = mmap.PAGESIZE
    memory.ask_for_large_pages(10 * page + 16, 5 * page)
    memory.ask_for_large_pages(10 * page, 5 * page)
    assert asked == [
        (11 * page, 4 * page, mmap.MADV_HUGEPAGE),
        (10 * page, 5 * page, mmap.MADV_HUGEPAGE),
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="large pages are Linux's")
def test_the_system_can_be_asked():
    array = np.arange(1 << 21, dtype="int64")
    memory.ask_for_large_pages(array.ctypes.data, array.nbytes)
    np.testing.assert_array_equal(array, np.arange(1 << 21))


def test_a_system_that_cannot_be_asked_is_not(monkeypatch):
    monkeypatch.setattr(memory, "_advise", lambda: None)
    memory.ask_for_large_pages(0, 1 << 22)


@pytest.mark.parametrize("size", [(1 << 20) - 1, 1 << 20, (1 << 20) + 3])
@pytest.mark.parametrize("grad", [True, False])
@only_torch
def test_large_parameters_are_copied_bit_by_bit(size, grad, asked):
    import torch

    bits = torch.randint(-(2**31), 2**31 - 1, (size,), dtype=torch.int32)
    old = torch.nn.Parameter(bits.view(torch.float32), requires_grad=grad)
    new = copy_value(old)
    assert type(new) is torch.nn.Parameter
    assert new.requires_grad is grad
    assert new.is_leaf
    assert new.data_ptr() != old.data_ptr()
    assert same_bits(new.detach().numpy(), old.detach().numpy())
    assert bool(asked) is (size >= 1 << 20)


@only_torch
def test_a_layout_is_kept(asked):
    import torch

    old = torch.nn.Parameter(torch.arange(1 << 21).float().reshape(1 << 10, 1 << 11).T)
    new = copy_value(old)
    assert new.stride() == old.stride()
    assert torch.equal(new, old)
    assert not asked


@pytest.fixture
def taken_over(monkeypatch):
    """Notes the shapes of arrays that are copied into NumPy's memory, if they have 4 MB."""
    shapes = []
    monkeypatch.setattr(jax_backend, "_HUGE", 1 << 22)

    def noting(array):
        shapes.append(array.shape)
        return memory.aligned_like(array)

    monkeypatch.setattr(jax_backend, "aligned_like", noting)
    return shapes


def put(value):
    """Copies a value as that of a variable is copied."""
    copies, fields = ValueCopies(), {}
    copies.put(fields, "value", value)
    copies.finish()
    return fields["value"]


@pytest.mark.parametrize("size", [(1 << 20) - 1, 1 << 20, (1 << 20) + 3])
@pytest.mark.parametrize("dtype", ["float32", "int32", "float16", "uint8", "bfloat16"])
@only_jax
def test_huge_arrays_are_copied_bit_by_bit(size, dtype, taken_over):
    import jax

    bits = np.random.default_rng(0).bytes(size * 4)
    old = jax.device_put(np.frombuffer(bits, "uint8").view(jax.numpy.dtype(dtype)))
    new = put(old)
    assert new.unsafe_buffer_pointer() != old.unsafe_buffer_pointer()
    assert same_bits(np.asarray(new), np.asarray(old))
    assert (new.sharding, new.committed, new.weak_type) == (old.sharding, old.committed, False)
    assert bool(taken_over) is (size >= 1 << 20 and dtype != "bfloat16")


@only_jax
def test_special_arrays_are_left_to_jax(taken_over):
    import jax

    plain = jax.numpy.zeros(1 << 20)
    device = jax.devices()[0]
    for old in (jax.device_put(plain, device), jax.lax.full((1 << 20,), 1.0), plain):
        with jax.default_device(device if old is plain else None):
            new = put(old)
        assert (new.committed, new.weak_type) == (old.committed, old.weak_type)
        assert not taken_over


@only_jax
def test_memory_that_jax_took_over_can_be_donated(taken_over):
    import jax

    model = keras.Sequential([keras.Input((1024,)), layers.Dense(1024), layers.Dense(8)])
    model.compile("adam", "mse")
    x, y = np.ones((4, 1024), "float32"), np.ones((4, 8), "float32")
    model.fit(x, y, verbose=0)
    with jax.transfer_guard("disallow"):
        copies = [ramet.clone(model), *ramet.clones(model, 2)]
    assert taken_over == [(1024, 1024)] * 9  # The kernel and its two slots, three times.
    exact.assert_disjoint(copies[0], copies[1])
    model.fit(x, y, epochs=3, verbose=0)
    for copy in copies:
        copy.fit(x, y, epochs=3, verbose=0)
        exact.assert_same_state(model, copy)


@only_jax
def test_a_huge_source_can_be_donated_after_it_was_copied(taken_over):
    import jax

    old = jax.numpy.arange(1 << 20, dtype="float32")
    place = old.unsafe_buffer_pointer()
    new = put(old)
    result = jax.jit(lambda value: value + 1, donate_argnums=0)(old)
    assert result.unsafe_buffer_pointer() == place  # Nobody holds on to its memory.
    np.testing.assert_array_equal(new, np.arange(1 << 20, dtype="float32"))
    assert taken_over


def test_arrays_of_any_layout_are_assigned():
    whole = np.arange(24, dtype="float32").reshape(4, 6)
    odd = np.lib.stride_tricks.as_strided(whole, (1, 6), (999, 4))
    for array in (whole, whole.T, whole[::-1], whole[:, ::2], whole[:, None][:, 0], odd):
        variable = keras.Variable(np.zeros(array.shape, "float32"))
        backends.current().assign(variable, memory.packed(array.copy("K")))
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(variable), array)
    assert memory.packed(whole) is whole
    assert memory.packed(odd).strides == (24, 4)
