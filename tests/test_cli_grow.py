"""`ramet widen`, `ramet deepen` and `ramet factorize` on files."""

import json

import keras
import numpy as np
import pytest
from keras import layers, ops
from typer.testing import CliRunner

from ramet.cli import app
from ramet.files import load

pytestmark = pytest.mark.one_backend


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("grow")
    x = keras.Input((6,), name="x")
    y = layers.Dense(8, name="hidden")(x)
    y = layers.Dense(8, activation="gelu", name="inner")(layers.LayerNormalization(name="norm")(y))
    keras.Model(x, layers.Dense(2, name="head")(y), name="net").save(folder / "model.keras")
    return folder


@pytest.fixture
def run(folder, monkeypatch):
    """Runs a command in the folder of the model and checks how it ends."""
    monkeypatch.chdir(folder)

    def run(*args, code=0):
        result = CliRunner().invoke(app, [*map(str, args)])
        assert result.exit_code == code, result.output
        return result.output

    return run


def outputs(path):
    data = np.random.default_rng(0).normal(size=(5, 6)).astype("float32")
    return ops.convert_to_numpy(load(path)(data))


def test_a_file_is_widened(run, folder, tmp_path):
    target = tmp_path / "wide.keras"
    args = ("widen", "model.keras", target, "--at", "hidden=11", "--at", "inner=9", "--prove")
    text = run(*args)
    assert "1. widen 'hidden': 8 → 11 channels, averages [equal]" in text
    assert "2. widen 'inner': 8 → 9 channels, zeros [equal]" in text
    assert "parameters: 162 → 227" in text
    assert f"written to {target}" in text
    assert load(target).get_layer("hidden").units == 11
    assert np.allclose(outputs(target), outputs(folder / "model.keras"), atol=1e-5)
    data = json.loads(run(*args, "--force", "--json"))
    assert data["params"] == [162, 227]
    assert data["proof"]["ok"]


def test_a_file_is_deepened(run, folder, tmp_path):
    target = tmp_path / "deep.keras"
    branch = ("--by", "layers.Dense(16, activation='relu')", "--by", "layers.Dense(8)")
    text = run("deepen", "model.keras", target, "--at", "inner", *branch, "--prove")
    assert "1. deepen 'inner' by Dense, Dense, which add nothing at first [equal]" in text
    assert len(load(target).layers) == len(load(folder / "model.keras").layers) + 3
    assert np.allclose(outputs(target), outputs(folder / "model.keras"), atol=1e-6)
    run("deepen", "model.keras", target, "--at", "hidden", "--force")
    assert np.allclose(outputs(target), outputs(folder / "model.keras"), atol=1e-6)


def test_a_file_is_factorized(run, folder, tmp_path):
    target = tmp_path / "small.keras"
    text = run("factorize", "model.keras", target, "--rank", 2)
    assert "'net': 2 layers factorized, 52 parameters fewer" in text
    assert "its factors would have" in text
    assert load(target).count_params() < load(folder / "model.keras").count_params()
    data = json.loads(run("factorize", "model.keras", "--params", 140, "--dry-run", "--json"))
    assert data["journal"][0]["promise"] == "changed"
    assert data["proof"] is None


def test_a_dry_run_writes_nothing(run, folder):
    before = {*folder.iterdir()}
    assert "hidden" in run("widen", "model.keras", "--dry-run")
    assert "nothing was written" in run("widen", "model.keras", "--dry-run", "--at", "hidden=9")
    assert "nothing was written" in run("deepen", "model.keras", "--dry-run", "--at", "hidden")
    text = run("factorize", "model.keras", "--dry-run", "--at", "inner", "--energy", 0.5)
    assert "nothing was written" in text
    assert {*folder.iterdir()} == before


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ["widen", "model.keras", "--at", "hidden=9"],
            "no file to write; name one, or use --dry-run",
        ),
        (["widen", "model.keras", "x.keras"], "name a layer, such as --at ffn=4096"),
        (["widen", "model.keras", "x.keras", "--at", "hidden"], "is not of the form NAME=SIZE"),
        (["widen", "model.keras", "x.keras", "--at", "hidden=x"], "is not of the form NAME=SIZE"),
        (["widen", "model.keras", "x.keras", "--at", "hiden=9"], "did you mean 'hidden'"),
        (["widen", "model.keras", "x.keras", "--at", "head=9"], "; a --dry-run lists what can be"),
        (
            ["widen", "model.keras", "x.keras", "--at", "hidden=9", "--method", "x"],
            "unknown method",
        ),
        (
            ["widen", "model.keras", "x.keras", "--at", "hidden=9", "--method", "zeros"],
            "use --method averages",
        ),
        (["deepen", "model.keras", "x.keras", "--at", "inner"], "use --by 'layers.Dense(8)'"),
        (["deepen", "model.keras", "x.keras", "--at", "inner", "--by", "open('x')"], "open"),
        (["factorize", "model.keras", "x.keras"], "one of rank, energy and params"),
        (["factorize", "model.keras", "x.keras", "--rank", "99", "--at", "inner"], "rank=99"),
        (["factorize", "model.keras", "x.keras", "--rank", "2", "--at", "no"], "no"),
    ],
)
def test_errors(run, args, message):
    assert message in run(*args, code=2).replace("\n", " ")
