"""`ramet prune` on files."""

import json

import keras
import pytest
from keras import layers
from typer.testing import CliRunner

from ramet.cli import app
from ramet.files import load

pytestmark = pytest.mark.one_backend


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prune")
    x = keras.Input((6,), name="x")
    y = layers.Dense(8, activation="relu", name="hidden")(x)
    keras.Model(x, layers.Dense(2, name="head")(y), name="net").save(folder / "model.keras")
    return folder


@pytest.fixture
def run(folder, monkeypatch):
    """Runs a command in the folder of the model and checks how it ends."""
    monkeypatch.chdir(folder)

    def run(*args, code=0):
        result = CliRunner().invoke(app, ["prune", *map(str, args)])
        assert result.exit_code == code, result.output
        return result.output

    return run


def test_a_file_is_pruned(run, tmp_path):
    target = tmp_path / "smaller.keras"
    text = run("model.keras", target, "--ratio", 0.5)
    assert "prune 'hidden': 8 → 4 channels [changed]" in text
    assert "MACs: 64 → 32; parameters: 74 → 38" in text
    assert f"written to {target}" in text
    assert load(target).get_layer("hidden").units == 4
    data = json.loads(run("model.keras", target, "--params", 0.7, "--force", "--json"))
    assert data["params"][1] <= 0.7 * 74


def test_a_dry_run_lists_the_groups(run, folder):
    before = {*folder.iterdir()}
    assert "hidden" in run("model.keras", "--dry-run")
    assert "nothing was written" in run("model.keras", "--dry-run", "--ratio", 0.5)
    assert {*folder.iterdir()} == before


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["model.keras"], "there is no file to write; name one, or use --dry-run"),
        (["model.keras", "x.keras"], "pass one of"),
        (["model.keras", "x.keras", "--ratio", "2"], "must be a number between 0 and 1, got 2.0"),
        (["model.keras", "x.keras", "--ratio", ".5", "--only", "none"], "'none' is in no group"),
        (["model.keras", "x.keras", "--ratio", ".5", "--by", "obd"], "needs data"),
    ],
)
def test_errors(run, args, message):
    assert message in run(*args, code=2).replace("\n", " ")


def test_a_prune_is_proven(run, tmp_path):
    target = tmp_path / "smaller.keras"
    text = run("model.keras", target, "--ratio", 0.5, "--prove")
    assert "1 promise kept" in text
    assert target.is_file()
    data = json.loads(run("model.keras", target, "--ratio", 0.5, "--prove", "--force", "--json"))
    assert data["proof"]["edits"][0]["judgement"] == "kept"
    assert json.loads(run("model.keras", "--ratio", 0.5, "--dry-run", "--json"))["proof"] is None


def test_nothing_is_written_if_a_prune_is_not_what_it_promises(run, tmp_path, monkeypatch):
    from ramet.compress.channels.rules import zeros

    keras.Model(
        x := keras.Input((6,)),
        layers.Dense(2)(layers.Dense(8, activation="sigmoid", name="hidden")(x)),
    ).save(tmp_path / "sigmoid.keras")
    monkeypatch.setattr(zeros, "KEEPING", zeros.KEEPING | {"sigmoid"})
    target = tmp_path / "smaller.keras"
    text = run(tmp_path / "sigmoid.keras", target, "--ratio", 0.5, "--prove", code=1)
    assert "nothing was written (a promise is broken)" in text
    assert not target.exists()
