"""Models from strangers, written as source: nothing of a file is run on the way."""

from __future__ import annotations

import ast
import base64
import itertools
import json
import marshal
import os
import pickle
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import pytest
from keras import layers

import ramet
from ramet import keras_internals as internals
from ramet.source.deserialize import UnmadeError, deserialized, is_harmless
from ramet.source.expr import bare_name, call, flat, is_name, text_of, value_of

SOURCE = Path(__file__).parents[1] / "src"
MARK = "stranger"
"""A word that every file and every payload has, so that its text is recognized."""

ATTACK = "open('PWNED', 'w')"
"""Code that leaves a trace. It has no dot, which PyTorch allows in no name."""

ODD_NAMES = [
    f"x={ATTACK} or 1, y",
    f"a\nimport os\n{ATTACK}\nb",
    f"a): {ATTACK} #",
    "class",
    "None",
    "__debug__",
    "ｎａｍｅ",  # noqa: RUF001 Python reads it as `name`
    "µ",
    "two words",
    "1st",
    '"',
    "'\"\\",
    "\ud800",
    "\N{GRINNING FACE}",
    "",
]
"""Names of arguments, layers and keys that are no names in Python, or others than they seem."""


class Evil:
    def __reduce__(self) -> Any:
        return os.system, (f"touch PWNED # {MARK}",)


def bad() -> Any:
    return __import__("os").system("touch PWNED # stranger")


CODE = base64.b64encode(marshal.dumps(bad.__code__)).decode()
PICKLE = base64.b64encode(pickle.dumps(Evil())).decode()
LAMBDA = {"class_name": "__lambda__", "config": {"code": CODE, "defaults": None, "closure": None}}


def keras_layer(name: str, **config: Any) -> dict[str, Any]:
    return {
        "module": "keras.layers",
        "class_name": name,
        "config": {"name": MARK, **config},
        "registered_name": None,
    }


LEFTOVERS = {
    "pickle": keras_layer("TorchModuleWrapper", module=PICKLE),
    "lambda": LAMBDA,
    "old lambda": {"class_name": "__lambda__", "config": {"value": [CODE, None, None]}},
    "lambda layer": keras_layer("Lambda", function=LAMBDA),
    "file": keras_layer("TFSMLayer", filepath="PWNED"),
    "words": keras_layer("StringLookup", vocabulary="PWNED"),
    "function": {
        "module": "os",
        "class_name": "function",
        "config": "system",
        "registered_name": "system",
    },
    "in a plain layer": keras_layer(
        "TimeDistributed", layer=keras_layer("TorchModuleWrapper", module=PICKLE)
    ),
    "in a list": [[keras_layer("TorchModuleWrapper", module=PICKLE)]],
    "by its source": {
        **keras_layer("TorchModuleWrapper", module=PICKLE),
        "module": "keras.src.utils.torch_utils",
    },
}
"""Descriptions that a file can leave wherever Keras expects plain data."""

WATCH = """
import json, sys
seen = []
def hook(event, args):
    if event in ("os.system", "subprocess.Popen", "pickle.find_class"):
        seen.append(event)
    elif event in ("compile", "marshal.loads") and "stranger" in repr(args[0]):
        seen.append(event)
from typer.testing import CliRunner
import keras
import ramet
from ramet.cli.commands import app
runner = CliRunner()
first, *files = json.loads(sys.argv[1])
ended = [runner.invoke(app, ["emit", first]).exit_code]
sys.addaudithook(hook)
assert runner.invoke(app, ["emit", first, "--trust"]).exit_code == 0
assert seen == ["compile"], seen  # with --trust it is checked, and the hook sees that
del seen[:]
written = 0
for file in files:
    try:
        model = keras.saving.load_model(file, compile=False)
    except Exception:
        continue
    written += 1
    try:
        ramet.emit(model, check=False)
    except ramet.RametError:
        pass
    ended.append(runner.invoke(app, ["emit", file]).exit_code)
print(json.dumps({"seen": seen, "ended": ended, "written": written}))
"""
"""Writes files as source, and lists what was run or read as code on the way."""


@pytest.fixture(autouse=True)
def canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail if a payload ran."""
    monkeypatch.chdir(tmp_path)
    yield
    assert not (tmp_path / "PWNED").exists()


def rewritten(source: Path, target: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """Write a file again with another config."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "config.json":
                config = json.loads(data)
                change(config)
                data = json.dumps(config).encode()
            new.writestr(name, data)
    return target


def made(source: ramet.Source) -> Any:
    names: dict[str, Any] = {}
    exec(source, names)  # noqa: S102 it was just written by ramet
    return names["build_model"](**source.parameters)


def watched(files: list[Path]) -> dict[str, Any]:
    done = subprocess.run(  # noqa: S603 this Python, on a text of this file
        [sys.executable, "-c", WATCH, json.dumps([str(file) for file in files])],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def folded() -> keras.Model:
    """A model with an operation that takes any keyword: the lengths of axes."""
    x = keras.Input(batch_shape=(2, 3, 4), name="x")
    y = keras.ops.rearrange(layers.Dense(4, name="d")(x), "b h w -> b w h", h=3)
    return keras.Model(x, y, name=MARK)


def plain() -> keras.Model:
    """A model of layers with many kinds of entries in their configs."""
    x = keras.Input((3,), name="x")
    y = layers.Dense(2, kernel_regularizer="l2", name="dense")(x)
    y = layers.Dropout(0.5, name="drop")(y)
    y = layers.Lambda(keras.activations.relu, arguments={"negative_slope": 0.5}, name="bend")(y)
    y = layers.Reshape((1, 2), name="shape")(y)
    y = layers.TimeDistributed(layers.Activation("relu", name="inside"), name="each")(y)
    return keras.Model(x, y, name=MARK)


def axes(config: dict[str, Any]) -> dict[str, Any]:
    """Return the keywords of the operation of a model that folds."""
    return config["config"]["layers"][-1]["inbound_nodes"][0]["kwargs"]


def slots(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every place in a config, as a container and a key."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from slots(value[key])


def layer_slots(config: dict[str, Any]) -> list[tuple[Any, Any]]:
    return [slot for one in config["config"]["layers"] for slot in slots(one["config"])]


def test_names_of_arguments(tmp_path: Path) -> None:
    folded().save(tmp_path / "m.keras")
    files = [tmp_path / "m.keras"]
    for number, name in enumerate(ODD_NAMES):
        files.append(
            rewritten(
                files[0],
                tmp_path / f"{number}.keras",
                lambda config, name=name: axes(config).update({name: 1}),
            )
        )
    report = watched(files)
    assert report["seen"] == []
    assert {*report["ended"]} <= {0, 2}
    assert report["written"] == len(ODD_NAMES)


@pytest.mark.parametrize("name", ODD_NAMES)
def test_an_odd_argument_is_kept(name: str) -> None:
    class Loose(layers.Layer):
        def call(self, x: Any, **kwargs: Any) -> Any:
            return x * sum(kwargs.values())

        def get_config(self) -> dict[str, Any]:
            return super().get_config()

    x = keras.Input((3,), name="x")
    model = keras.Model(x, Loose(name="loose")(x, **{name: 2, "plain": 1}), name=MARK)
    source = ramet.emit(model)
    assert source.isascii()
    twin = made(source)
    assert float(twin(keras.ops.ones((1, 3)))[0, 0]) == 3


def test_leftover_descriptions(tmp_path: Path) -> None:
    plain().save(tmp_path / "m.keras")
    with zipfile.ZipFile(tmp_path / "m.keras") as archive:
        count = len(layer_slots(json.loads(archive.read("config.json"))))
    assert count > 50
    files = [tmp_path / "m.keras"]
    payloads = itertools.cycle(LEFTOVERS.values())
    for number in range(count):

        def change(config: dict[str, Any], number: int = number) -> None:
            container, key = layer_slots(config)[number]
            container[key] = next(payloads)

        files.append(rewritten(files[0], tmp_path / f"{number}.keras", change))
    report = watched(files)
    assert report["seen"] == []
    assert {*report["ended"]} <= {0, 2}
    assert report["written"] > 5


@pytest.mark.parametrize("what", LEFTOVERS)
def test_a_leftover_in_memory(what: str) -> None:
    def same(x: Any, extra: Any) -> Any:  # noqa: ARG001 Lambda passes it
        return x

    x = keras.Input((3,), name="x")
    layer = layers.Lambda(same, arguments={"extra": LEFTOVERS[what]}, name="same")
    model = keras.Model(x, layer(x), name=MARK)
    with internals.safe_deserialization():  # which restores what the next line changes
        keras.config.enable_unsafe_deserialization()
        source = ramet.emit(model)
    twin = made(source)
    assert twin.get_layer("same").arguments == {"extra": LEFTOVERS[what]}


@pytest.mark.parametrize("what", LEFTOVERS)
def test_what_is_not_made(what: str) -> None:
    assert not is_harmless(LEFTOVERS[what])
    with pytest.raises(UnmadeError, match=r"layer 'here' has '.*' in its config.*register"):
        deserialized(LEFTOVERS[what], "here")


def test_what_is_made() -> None:
    for part in (
        keras.initializers.HeNormal(seed=3),
        keras.regularizers.L1L2(0.1, 0.2),
        keras.constraints.MaxNorm(2),
        keras.DTypePolicy("mixed_bfloat16"),
        keras.quantizers.AbsMaxQuantizer(axis=0),
        layers.TimeDistributed(layers.Dense(2, kernel_initializer="zeros")),
        keras.activations.relu,
        slice(1, 2),
    ):
        twin = deserialized(keras.saving.serialize_keras_object(part), "here")
        assert type(twin) is type(part)
    with pytest.raises(UnmadeError, match="which Keras cannot create: "):
        deserialized(keras_layer("Dense", unknown=3), "here")


def test_registered_classes_are_made() -> None:
    @keras.saving.register_keras_serializable("ramet_trust")
    class Part(keras.initializers.Zeros):
        pass

    described = keras.saving.serialize_keras_object(Part())
    assert isinstance(deserialized(described, "here"), Part)
    del keras.saving.get_custom_objects()["ramet_trust>Part"]
    assert not is_harmless(described)


LAYER_NAMES = [
    f'"""\n{ATTACK}\n"""',
    f"'\n{ATTACK}",
    *(name for name in ODD_NAMES if name not in ("", "\ud800")),  # TensorFlow makes no such layer
]


@pytest.mark.parametrize("name", LAYER_NAMES)
def test_names_of_layers(name: str) -> None:
    x = keras.Input((3,), name="x")
    y = layers.Dense(3, name=name)(x)
    part = keras.Model(x, y, name="part")
    other = keras.Input((3,), name=name)
    model = keras.Model({name: other}, {name: part(other)}, name=name)
    part.get_layer(name).trainable = False
    source = ramet.emit(model)
    assert source.isascii()
    tops = {type(node) for node in ast.parse(source).body}
    assert tops <= {ast.Import, ast.FunctionDef}
    twin = made(source)
    assert [twin.name, *twin.output] == [name, name]
    assert not twin.trainable_weights


def test_a_class_with_an_odd_name_is_a_parameter() -> None:
    odd = type(f"A\n{ATTACK}", (layers.Dense,), {"__module__": f"os\n{ATTACK}"})
    x = keras.Input((3,), name="x")
    source = ramet.emit(keras.Model(x, odd(2, name="odd")(x), name=MARK))
    assert odd in source.parameters.values()
    assert {type(node) for node in ast.parse(source).body} <= {ast.Import, ast.FunctionDef}


def test_what_is_a_name() -> None:
    assert not any(map(is_name, ODD_NAMES))
    assert is_name("match")
    assert is_name("_x1")
    for name in ("a.b c", "a..b", *ODD_NAMES):
        with pytest.raises(ramet.SourceError, match="is not a name in Python"):
            bare_name(name)


def test_expressions_are_made_without_their_text() -> None:
    odd: dict[str, Any] = {name: text_of(name) for name in ODD_NAMES}
    written = call(bare_name("dict", dict), **odd)
    assert value_of(written) == {name: name for name in ODD_NAMES}
    assert ast.literal_eval(flat(written).removeprefix("dict(**").removesuffix(")")) == {
        name: name for name in ODD_NAMES
    }


def test_a_model_that_is_not_checked_says_so() -> None:
    model = folded()
    assert "# It was not checked" in ramet.emit(model, check=False)
    assert "# It was not checked" not in ramet.emit(model)
