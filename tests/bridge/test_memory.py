"""Large values of PyTorch: in pages of any size, the same bits."""

import mmap
import sys

import keras
import numpy as np
import pytest

from ramet.bridge import memory
from ramet.bridge.values import copy_value, same_bits

only_torch = pytest.mark.skipif(
    keras.backend.backend() != "torch", reason="only PyTorch's values are asked for"
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
    values = np.arange(1 << 21, dtype="int64")
    memory.ask_for_large_pages(values.ctypes.data, values.nbytes)
    np.testing.assert_array_equal(values, np.arange(1 << 21))


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
