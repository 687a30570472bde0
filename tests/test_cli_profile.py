"""`ramet profile` on files."""

import json

import keras
import pytest
from keras import layers
from typer.testing import CliRunner

from ramet.cli import app

pytestmark = pytest.mark.one_backend


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("profiles")
    for name, units in (("small", 4), ("large", 8)):
        x = keras.Input((None, 6), name="x")
        y = layers.Dense(units, name="hidden")(x)
        model = keras.Model(x, layers.Dense(2, name="head")(y), name="net")
        model.save(folder / f"{name}.keras")
    return folder


@pytest.fixture
def run(models, monkeypatch):
    """Runs a command in the folder of the models and checks how it ends."""
    monkeypatch.chdir(models)

    def runs(*args, code=0):
        result = CliRunner().invoke(app, ["profile", *map(str, args)])
        assert result.exit_code == code, result.output
        return result.stderr.strip() if code else result.stdout

    return runs


def test_a_profile_of_a_file(run):
    text = run("large.keras", "--shape", "10,6", "--batch", 2, "--by", "params")
    assert text.splitlines()[0] == "'net', batch 2: 1.28 k MACs, 74 params"
    data = json.loads(run("large.keras", "--shape", "x=10,6", "--json", "--time"))
    assert (data["command"], data["macs"], data["params"]) == ("profile", 640, 74)
    assert data["seconds"] > 0


def test_two_files_side_by_side(run):
    text = run("large.keras", "small.keras", "--shape", "10,6")
    assert text.splitlines()[0] == "'net': MACs 640 → 320 (50 %), params 74 → 38 (51.4 %)"
    data = json.loads(run("large.keras", "small.keras", "--shape", "10,6", "--json"))
    assert (data["macs_ratio"], data["second"]["params"]) == (0.5, 38)


def test_sizes_that_are_not_known_and_wrong_options(run):
    assert "the size of axis 1 of input 'x' is not known; use --shape x=..." in run("large.keras")
    for options, message in (
        (["--batch", "0"], "ramet profile: batch must be a positive integer, got 0"),
        (["--shape", "a,6"], "--shape takes sizes such as 224,224,3 or image=224,224,3, got 'a,6'"),
        (["--shape", "1,6", "--shape", "x=2,6"], "--shape names each input"),
        (["--shape", "y=2,6"], "has no input 'y'"),
        (["--by", "size"], "unknown by='size'"),
        (["--depth", "-1"], "depth must be a number of levels"),
        (["--time"], "cannot be measured, since the size of input 'x' is not known; use --shape"),
    ):
        assert message in run("large.keras", *options, code=2)
