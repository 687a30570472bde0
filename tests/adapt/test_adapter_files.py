"""Adapter files: what is in them, whose base they are for, PEFT's, and hostile ones."""

import contextlib
import json
import struct
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import layers
from typer.testing import CliRunner

import ramet
from adaptmodels import bits, data_for, images, shake, texts
from ramet.adapt.storing import safetensors
from ramet.cli import app
from ramet.errors import FileError, GraphError

PEFT = Path(__file__).parent / "peft"
"""An adapter that PEFT 0.21 wrote, with the weights of its base and what PyTorch computes."""


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("make", "at"), [(texts, ["hidden", "**/query", "both"]), (images, ["conv", "*able", "head"])]
)
def test_a_file_holds_an_adapter_and_what_trained_besides(make, at, tmp_path):
    model = make()
    graph = ramet.adapt.lora(model, at, rank=2, train_also="norm")
    adapted = graph.build()
    shake(adapted)
    for variable in adapted.trainable_variables:
        variable.assign(keras.ops.add(variable, 0.1))
    path = tmp_path / "a.safetensors"
    ramet.adapt.save(adapted, path)
    again = ramet.adapt.load(model, path)
    assert "load adapter 'default' from a.safetensors" in str(again.journal)
    twin = again.build()
    x = data_for(model)
    assert np.array_equal(adapted.predict(x, verbose=0), twin.predict(x, verbose=0))
    assert [v.path for v in twin.trainable_variables] == [
        v.path for v in adapted.trainable_variables
    ]
    arrays, _ = safetensors.read(path)
    assert sum(one.size for one in arrays.values()) == sum(
        int(np.prod(v.shape)) for v in adapted.trainable_variables
    )
    assert str(ramet.adapt.merge(twin).build().get_config()) == str(model.get_config())


def dense(name="net"):
    x = keras.Input((6,), name="x")
    y = layers.Dense(5, name="hidden")(x)
    return keras.Model(x, layers.Dense(3, name="d")(y), name=name)


@pytest.fixture(scope="module")
def trained():
    model = dense()
    adapted = ramet.adapt.lora(model, "*", rank=2, name="fr").build()
    shake(adapted)
    return model, adapted


@pytest.mark.sampled
def test_two_adapters_from_files(trained, tmp_path):
    model, adapted = trained
    ramet.adapt.save(adapted, tmp_path / "fr.safetensors", "fr")
    graph = ramet.adapt.load(model, tmp_path / "fr.safetensors")
    both = ramet.adapt.load(graph, tmp_path / "fr.safetensors", "de").build()
    x = np.ones((2, 6), "float32")
    one, base = (each.predict(x, verbose=0) for each in (adapted, model))
    assert np.array_equal(both.predict(x, verbose=0), one)
    ramet.adapt.use(both, {"fr": 0.25, "de": 0.75})
    assert np.allclose(both.predict(x, verbose=0), one, atol=1e-6)
    ramet.adapt.use(both, None)
    assert np.array_equal(both.predict(x, verbose=0), base)
    with pytest.raises(GraphError, match="has several adapters: fr, de; name one"):
        ramet.adapt.save(both, tmp_path / "x.safetensors")
    with pytest.raises(GraphError, match="are not built; build it"):
        ramet.adapt.save(graph, tmp_path / "x.safetensors")


@pytest.mark.sampled
def test_an_adapter_of_another_base(trained, tmp_path):
    model, adapted = trained
    path = tmp_path / "a.safetensors"
    ramet.adapt.save(adapted, path)
    other = dense()
    before = bits(other)
    with pytest.raises(GraphError, match=r"'hidden/kernel' has other values; pass check=False"):
        ramet.adapt.load(other, path)
    assert bits(other) == before
    assert ramet.adapt.load(other, path, check=False).build()
    renamed = ramet.trace(model).rename({"hidden": "h"})
    with pytest.raises(GraphError, match="of layer 'hidden', but graph 'net' has no such layer"):
        ramet.adapt.load(renamed, path)
    wider = ramet.trace(model).configure("hidden", units=7)
    with pytest.raises(GraphError, match=r"of shape \(6, 5\), which has the shape \(6, 7\)"):
        ramet.adapt.load(wider, path)
    with pytest.raises(GraphError, match="already has an adapter 'fr'"):
        ramet.adapt.load(adapted, path)
    with pytest.raises(FileError, match="already exists"):
        ramet.adapt.save(adapted, path)


# --- PEFT ---


def as_in_peft():
    held = np.load(PEFT / "base.npz")
    tokens = keras.Input((5,), dtype="int32")
    y = layers.Conv1D(6, 3, name="conv")(layers.Embedding(7, 8, name="emb")(tokens))
    y = layers.Dense(5, activation="relu", name="hidden")(layers.GlobalAveragePooling1D()(y))
    model = keras.Model(tokens, layers.Dense(3, name="head")(y))
    model.set_weights([held[f"w{number}"] for number in range(7)])
    return model, held["x"], held["y"]


def test_what_peft_wrote_gives_the_same_numbers(tmp_path):
    model, x, y = as_in_peft()
    adapted = ramet.adapt.load(model, PEFT, name="fr").build()
    assert np.abs(adapted.predict(x, verbose=0) - y).max() < 1e-5
    assert np.abs(model.predict(x, verbose=0) - y).max() > 0.1
    ramet.adapt.save(adapted, tmp_path / "out", format="peft")
    names = ("adapter_model.safetensors", "adapter_config.json")
    (wrote, _), (had, _) = (safetensors.read(each / names[0]) for each in (tmp_path / "out", PEFT))
    assert wrote.keys() == had.keys()
    assert all(np.array_equal(wrote[key], had[key]) for key in had)
    ours, theirs = (json.loads((each / names[1]).read_text()) for each in (tmp_path / "out", PEFT))
    for key in ("peft_type", "use_rslora", "use_dora", "bias"):
        assert ours[key] == theirs[key]
    again = ramet.adapt.load(model, tmp_path / "out").build()
    assert np.array_equal(again.predict(x, verbose=0), adapted.predict(x, verbose=0))


@pytest.mark.sampled
@pytest.mark.parametrize("variant", ["lora", "rslora", "dora"])
def test_variants_in_the_form_of_peft(variant, trained, tmp_path):
    model, _ = trained
    graph = ramet.adapt.lora(model, {"hidden": 2, "d": 3}, alpha=4, variant=variant)
    adapted = graph.build()
    shake(adapted)
    ramet.adapt.save(adapted, tmp_path / "a", format="peft")
    again = ramet.adapt.load(model, tmp_path / "a").build()
    x = np.ones((2, 6), "float32")
    assert np.allclose(*(each.predict(x, verbose=0) for each in (adapted, again)), atol=1e-6)


@pytest.mark.one_backend
def test_peft_under_other_names_and_what_is_not_read(trained, tmp_path):
    model, adapted = trained
    ramet.adapt.save(adapted, tmp_path / "a", format="peft")
    renamed = ramet.trace(model).rename({"hidden": "h", "d": "e"}).build()
    with pytest.raises(GraphError, match=r"module 'hidden', which is not a kernel .* names="):
        ramet.adapt.load(renamed, tmp_path / "a")
    assert ramet.adapt.load(renamed, tmp_path / "a", names={"hidden": "h", "d": "e"}).build()
    config = tmp_path / "a" / "adapter_config.json"
    plain = json.loads(config.read_text())
    for change in ({"bias": "all"}, {"peft_type": "IA3"}, {"modules_to_save": ["x"]}):
        config.write_text(json.dumps(plain | change))
        with pytest.raises(FileError, match=f"with {next(iter(change))}=.*merge it with PEFT"):
            ramet.adapt.load(model, tmp_path / "a")
    config.write_text(json.dumps(plain | {"alpha_pattern": {"(a+)+$": 3}}))
    with pytest.raises(FileError, match="a pattern that is not a name"):
        ramet.adapt.load(model, tmp_path / "a")
    config.write_text(json.dumps(plain | {"lora_alpha": "x"}))
    with pytest.raises(FileError, match="which is not a number"):
        ramet.adapt.load(model, tmp_path / "a")
    other = ramet.trace(model).configure("hidden", units=7)
    config.write_text(json.dumps(plain))
    with pytest.raises(GraphError, match="do not fit its shape"):
        ramet.adapt.load(other, tmp_path / "a")
    recurrent = ramet.adapt.lora(texts(), "gru", rank=2).build()
    with pytest.raises(GraphError, match="PEFT cannot represent the kernel 'gru/gru_cell/kernel'"):
        ramet.adapt.save(recurrent, tmp_path / "b", format="peft")


# --- hostile files ---


@pytest.mark.one_backend
def test_hostile_files_end_in_a_file_error(trained, tmp_path):
    model, adapted = trained
    path = tmp_path / "a.safetensors"
    ramet.adapt.save(adapted, path)
    good = path.read_bytes()
    size = struct.unpack("<Q", good[:8])[0]
    header = json.loads(good[8 : 8 + size])
    data = good[8 + size :]
    name = next(key for key in header if not key.startswith("__"))

    def refused(content):
        path.write_bytes(content)
        with pytest.raises(FileError) as caught:
            ramet.adapt.load(model, path)
        assert len(str(caught.value)) < 500

    def packed(changed, rest=data):
        text = json.dumps(changed).encode()
        return struct.pack("<Q", len(text)) + text + rest

    for content in (b"", good[:7], good[:-1], good + b"x", struct.pack("<Q", 1 << 62) + good[8:]):
        refused(content)
    refused(struct.pack("<Q", size) + b"{" * size + data)
    refused(packed([1]))
    for change in (
        {"dtype": "F128"},
        {"dtype": ["F32"]},
        {"shape": [1 << 40, 1 << 40]},
        {"shape": [-1]},
        {"shape": "x"},
        {"shape": [[]]},
        {"data_offsets": [0, 1 << 60]},
        {"data_offsets": [8, 4]},
        {"data_offsets": [0]},
    ):
        refused(packed(header | {name: header[name] | change}))
    described = json.loads(header["__metadata__"]["ramet"])
    for change in (
        {"version": 2},
        {"parts": 3},
        {"parts": [{}]},
        {"besides": {"d": {"kernel": "none"}}},
        {"name": 3},
        {"parts": [described["parts"][0] | {"keys": {}}]},
        {"parts": [described["parts"][0] | {"entry": {"name": "x", "targets": [{"rank": -1}]}}]},
    ):
        refused(packed(header | {"__metadata__": {"ramet": json.dumps(described | change)}}))
    refused(packed(header | {"__metadata__": {}}))
    refused(packed(header | {"__metadata__": {"ramet": "[" * 1000}}))
    random = np.random.default_rng(0)
    for _ in range(150):
        changed = bytearray(good)
        for at in random.integers(0, len(good), 3):
            changed[at] = random.integers(0, 256)
        path.write_bytes(bytes(changed))
        with contextlib.suppress(ramet.RametError):
            ramet.adapt.load(model, path)
    for wrong in (tmp_path, tmp_path / "none.safetensors", Path("/dev/zero")):
        with pytest.raises(FileError):
            ramet.adapt.load(model, wrong)


# --- adapters of Keras ---


@pytest.mark.sampled
def test_adapters_of_keras(tmp_path):
    x = keras.Input((6, 6, 3))
    y = layers.Conv2D(4, 3, name="conv")(x)
    y = layers.Dense(3, name="head")(layers.GlobalAveragePooling2D()(y))
    model = keras.Model(x, y)
    data = np.random.default_rng(0).standard_normal((2, 6, 6, 3)).astype("float32")
    base = model.predict(data, verbose=0)
    tuned = ramet.clone(model)
    for name in ("conv", "head"):
        tuned.get_layer(name).enable_lora(2, lora_alpha=3)
    random = np.random.default_rng(1)
    for variable in tuned.variables:
        if "lora" in variable.name:
            variable.assign(random.normal(size=variable.shape))
    want = tuned.predict(data, verbose=0)
    with pytest.raises(GraphError, match=r"enable_lora; .* with ramet.adapt.adopt"):
        ramet.adapt.lora(tuned, "head", rank=2)
    adopted = ramet.adapt.adopt(tuned, name="fr").build()
    assert np.allclose(adopted.predict(data, verbose=0), want, atol=1e-5)
    assert [v.name.partition("_")[0] for v in adopted.trainable_variables if "fr" in v.name]
    assert np.array_equal(ramet.adapt.remove(adopted).build().predict(data, verbose=0), base)
    assert not getattr(adopted.get_layer("head"), "lora_enabled", False)
    tuned.save(tmp_path / "dead.keras")
    dead = keras.models.load_model(tmp_path / "dead.keras")
    with pytest.raises(ramet.errors.StateError, match=r"conv/kernel, head/kernel are all zero"):
        ramet.adapt.adopt(dead)
    revived = ramet.adapt.adopt(dead, revive=True, seed=0).build()
    assert np.allclose(revived.predict(data, verbose=0), want, atol=1e-5)
    revived.compile(keras.optimizers.SGD(0.1), "mse")
    revived.fit(data, base + 1, epochs=2, verbose=0)
    assert not np.allclose(revived.predict(data, verbose=0), want, atol=1e-4)
    with pytest.raises(GraphError, match=r"no layer .* has an adapter of Keras"):
        ramet.adapt.adopt(model)


# --- the command line ---


@pytest.mark.one_backend
def test_merging_files(trained, tmp_path, monkeypatch):
    model, adapted = trained
    monkeypatch.chdir(tmp_path)
    adapted.save("tuned.keras")
    model.save("base.keras")
    ramet.adapt.save(adapted, "fr.safetensors")

    def run(*args, code=0):
        result = CliRunner().invoke(app, ["merge-adapter", *args])
        assert result.exit_code == code, result.output
        return result.stderr if code else result.stdout

    assert "merge adapters: those in use" in run("tuned.keras", "merged.keras")
    merged = ramet.files.load("merged.keras")
    x = np.ones((2, 6), "float32")
    assert np.allclose(*(each.predict(x, verbose=0) for each in (merged, adapted)), atol=1e-6)
    base = ramet.files.load("base.keras")
    assert str(merged.get_config()) == str(base.get_config())
    data = json.loads(run("base.keras", "two.keras", "--load", "fr.safetensors", "--json"))
    assert len(data["journal"]) == 2
    assert ramet.verify(ramet.files.load("two.keras"), merged)
    assert "no adapter 'de'" in run("tuned.keras", "x.keras", "--adapter", "de", code=2)
    assert "has no adapters" in run("base.keras", "x.keras", code=2)
