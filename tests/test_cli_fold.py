"""`ramet fold` on files."""

import json

import keras
import pytest
from keras import layers
from typer.testing import CliRunner

import ramet
from foldmodels import trained
from ramet.cli import app
from ramet.files import load

pytestmark = pytest.mark.one_backend


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fold")
    x = keras.Input((6, 6, 3), name="x")
    y = layers.BatchNormalization(name="norm")(layers.Conv2D(4, 3, name="conv")(x))
    y = layers.Dropout(0.5, name="drop")(
        layers.BatchNormalization(name="kept")(layers.ReLU(name="relu")(y))
    )
    trained(keras.Model(x, y, name="net")).save(folder / "model.keras")
    return folder


@pytest.fixture
def run(folder, monkeypatch):
    """Runs a command in the folder of the model and checks how it ends."""
    monkeypatch.chdir(folder)

    def runs(*args, code=0):
        result = CliRunner().invoke(app, ["fold", *map(str, args)])
        assert result.exit_code == code, result.output
        return result.stderr.strip() if code else result.stdout

    return runs


def test_a_file_is_folded(run, tmp_path):
    target = tmp_path / "folded.keras"
    text = run("model.keras", target)
    assert "'net': 1 BatchNormalization folded; 1 layer kept" in text
    assert "is not a layer with a kernel" in " ".join(text.split())
    folded = load(target)
    assert ramet.verify(load("model.keras"), folded, only="outputs", rtol=1e-4)
    assert [layer.name for layer in folded.layers] == ["x", "conv", "relu", "kept", "drop"]
    data = json.loads(run("model.keras", target, "--force", "--inference-only", "--json"))
    assert [fold["place"] for fold in data["folds"] if not fold["reason"]] == ["drop", "norm"]
    assert data["journal"][0]["promise"] == "inference-equal"


def test_a_dry_run_writes_nothing(run, folder):
    before = {*folder.iterdir()}
    assert "nothing was written (--dry-run)" in run("model.keras", "x.keras", "--dry-run")
    assert {*folder.iterdir()} == before
    assert "there is no file to write; name one, or use --dry-run" in run("model.keras", code=2)
