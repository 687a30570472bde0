"""`ramet quantize` and `ramet cast` on files."""

import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers
from typer.testing import CliRunner

import ramet
from ramet.cli import app

pytestmark = pytest.mark.one_backend


@pytest.fixture
def file(tmp_path: Path) -> Path:
    x = keras.Input((6,), name="x")
    y = layers.Dense(8, name="ffn")(x)
    model = keras.Model(x, layers.Dense(2, name="head")(layers.Dense(4, name="mid")(y)))
    path = tmp_path / "model.keras"
    model.save(path)
    return path


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(app, [str(each) for each in arguments])


def test_quantize(file: Path, tmp_path: Path) -> None:
    new = tmp_path / "small.keras"
    options = ("--at", "ffn*=int4", "--at", "*=int8", "--skip", "head")
    done = run("quantize", file, new, *options)
    assert done.exit_code == 0, done.output
    assert "2 layers quantized" in done.output
    modes = {layer.name: layer.quantization_mode for layer in keras.models.load_model(new).layers}
    assert modes == {"x": None, "ffn": "int4", "mid": "int8", "head": None}
    dry = run("quantize", file, *options, "--dry-run", "--json")
    assert json.loads(dry.output)["layers"][0]["path"] == "ffn"
    assert run("quantize", file, new, "--at", "ffn").exit_code == 2
    assert run("quantize", file, "--at", "*=int8").exit_code == 2
    assert run("quantize", file, tmp_path / "no.keras", "--at", "no=int8").exit_code == 2
    assert not (tmp_path / "no.keras").exists()


def test_quantize_calibrates_on_a_file(file: Path, tmp_path: Path) -> None:
    batch = np.random.default_rng(0).standard_normal((16, 6)).astype("float32")
    np.save(tmp_path / "batch.npy", batch)
    np.savez(tmp_path / "batch.npz", x=batch)
    model = keras.models.load_model(file)
    expected = ramet.adapt.quantize(model, {"ffn": "gptq"}, data=batch).build()(batch)
    for name in ("batch.npy", "batch.npz"):
        new = tmp_path / f"{name}.keras"
        done = run("quantize", file, new, "--at", "ffn=gptq", "--data", tmp_path / name)
        assert done.exit_code == 0, done.output
        np.testing.assert_array_equal(
            keras.ops.convert_to_numpy(keras.models.load_model(new)(batch)),
            keras.ops.convert_to_numpy(expected),
        )
    target = tmp_path / "no.keras"
    (tmp_path / "text.npy").write_text("no array")
    for options, message in (
        ((), "pass a batch with --data"),
        (("--data", tmp_path / "none.npy"), "there is no such file; write it with numpy.save"),
        (("--data", tmp_path / "text.npy"), "cannot be read as arrays"),
        (("--data", file), "it holds something else; write it with numpy.save"),
    ):
        done = run("quantize", file, target, "--at", "ffn=gptq", *options)
        assert done.exit_code == 2
        assert message in " ".join(done.output.split()), done.output
        assert not target.exists()


def test_cast(file: Path, tmp_path: Path) -> None:
    new = tmp_path / "half.keras"
    done = run("cast", file, new, "--at", "*", "--dtype", "bfloat16", "--keep", "head")
    assert done.exit_code == 0, done.output
    assert "2 layers cast" in done.output
    kinds = {layer.name: layer.dtype_policy.name for layer in keras.models.load_model(new).layers}
    assert (kinds["ffn"], kinds["head"]) == ("bfloat16", "float32")
    assert run("cast", file, new, "--at", "*", "--dtype", "half", "--force").exit_code == 2


def test_batches_that_are_none_are_refused(file: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "objects.npy", np.array([object()], dtype=object), allow_pickle=True)
    np.save(tmp_path / "narrow.npy", np.zeros((3, 5), "float32"))
    np.savez(tmp_path / "empty.npz")
    (tmp_path / "empty.npy").touch()
    for name, message in {
        "objects.npy": "Object arrays cannot be loaded",
        "narrow.npy": "cannot be called on data of shape (3, 5)",
        "empty.npz": "it holds something else",
        "empty.npy": "No data left in file",
    }.items():
        done = run("quantize", file, "--dry-run", "--at", "ffn=gptq", "--data", tmp_path / name)
        assert done.exit_code == 2
        assert message in " ".join(done.output.split()), done.output
