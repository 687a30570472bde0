"""The last step of `make test` sees tests that ran on no backend."""

import pytest

import nowhere

pytestmark = pytest.mark.backend_free


@pytest.mark.parametrize(
    ("jax", "torch", "missing"),
    [
        ("t.py::a\tpassed\t\n", "", ""),
        ("t.py::a\tskipped\tvalues are PyTorch's\n", "t.py::a\tpassed\t\n", ""),
        ("t.py::a\tfailed\t\n", "", ""),
        ("", "", "t.py::a: deselected"),
        ("t.py::a\tskipped\tonly on PyTorch\n", "", "t.py::a: only on PyTorch"),
        ("t.py::a\tskipped\tSkipped: `make hunt` plays many programs\n", "", ""),
    ],
)
def test_a_test_that_ran_nowhere_is_named(jax, torch, missing, tmp_path, capsys):
    for backend, outcomes in (("jax", jax), ("torch", torch)):
        (tmp_path / f"{backend}.collected").write_text("t.py::a\n")
        (tmp_path / f"{backend}.outcomes").write_text(outcomes)
    assert nowhere.main(tmp_path) == bool(missing)
    assert missing in capsys.readouterr().err


def test_no_records_are_no_proof(tmp_path):
    assert nowhere.main(tmp_path) == 1
