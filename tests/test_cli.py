"""The command line: what it answers, how it ends, and that it never evaluates a text."""

import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import layers
from rich.cells import cell_len
from typer.testing import CliRunner

import ramet
from ramet.cli.commands import app
from ramet.cli.remedies import with_options
from ramet.files import load

pytestmark = pytest.mark.one_backend

SOURCE = Path(__file__).parents[1] / "src"


def classifier():
    x = keras.Input((6,), name="x")
    y = layers.Dense(5, name="conv1")(x)
    y = layers.ReLU(name="relu1")(y)
    y = layers.Dropout(0.5, name="drop1")(y)
    y = layers.Dense(5, name="conv2")(y)
    y = layers.ReLU(name="relu2")(y)
    y = layers.Dropout(0.5, name="drop2")(y)
    return keras.Model(x, layers.Dense(3, name="head")(y), name="classifier")


def reader(*, broken):
    x = keras.Input((4,), dtype="int32", name="tokens")
    y = layers.Embedding(9, 4, mask_zero=True, name="embedding")(x)
    if broken:
        y = layers.Conv1D(4, 2, padding="same", name="conv")(y)
    return keras.Model(x, layers.LSTM(3, name="lstm")(y), name="reader")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    keras.utils.set_random_seed(0)
    classifier().save(folder / "model.keras")
    keras.utils.set_random_seed(1)
    classifier().save(folder / "other.keras")
    reader(broken=False).save(folder / "good.keras")
    with pytest.warns(UserWarning, match="does not support masking"):
        reader(broken=True).save(folder / "bad.keras")
    return folder


@pytest.fixture
def run(models, monkeypatch):
    """Runs a command in the folder of the models and checks how it ends."""
    monkeypatch.chdir(models)

    def runs(*args, code=0):
        result = CliRunner().invoke(app, [str(arg) for arg in args])
        assert result.exit_code == code, result.output
        if code == 2:
            assert len(result.stderr.splitlines()) == 1, result.stderr
            return result.stderr.strip()
        return json.loads(result.stdout) if "--json" in args else result.stdout

    return runs


def edited(run, tmp_path, *edits):
    """Edits the classifier and returns the new model."""
    run("edit", "model.keras", tmp_path / "out.keras", "--force", *edits)
    return load(tmp_path / "out.keras")


def names(model):
    return [layer.name for layer in model.layers[1:]]


# --- clone, verify, masks ------------------------------------------------------------


@pytest.mark.parametrize("model", ["model.keras", "good.keras"])
def test_a_clone_is_the_same(run, tmp_path, model):
    assert "the same weights" in run("clone", model, tmp_path / "twin.keras")
    assert "the same" in run("verify", model, tmp_path / "twin.keras")


def test_clone_with_options(run, tmp_path):
    out = tmp_path / "out.keras"
    told = run(
        "clone", "model.keras", out, "--weights", "fresh", "--seed", 3, "--name", "m", "--json"
    )
    assert told == {
        "command": "clone",
        "source": "model.keras",
        "target": str(out),
        "model": "m",
        "weights": "fresh",
        "parameters": 83,
    }
    first = load(out).get_weights()
    run("clone", "model.keras", out, "--weights", "fresh", "--seed", 3, "--force")
    assert all(map(np.array_equal, first, load(out).get_weights()))
    assert not np.array_equal(first[0], load("model.keras").get_weights()[0])


def test_clone_reads_legacy_files(run, tmp_path):
    load("model.keras").save(tmp_path / "old.h5")
    run("clone", tmp_path / "old.h5", tmp_path / "new.keras")
    weights = load("model.keras").get_weights()
    assert all(map(np.array_equal, weights, load(tmp_path / "new.keras").get_weights()))


def test_verify_tells_what_differs(run):
    assert "different" in run("verify", "model.keras", "other.keras", code=1)
    told = run("verify", "model.keras", "other.keras", "--json", code=1)
    assert told["same"] is False
    assert told["complete"] is True
    verdicts = {check["name"]: check["verdict"] for check in told["checks"]}
    assert verdicts["structure"] == "same"
    assert verdicts["state"] == "different"
    assert told["first_divergence"]["cause"] == "weights"
    assert run("verify", "model.keras", "model.keras", "--json", "--seed", 5)["same"] is True
    error = run("verify", "model.keras", "model.keras", "--seed", -1, code=2)
    assert "seed must be an integer of at least 0" in error


def test_verify_compares_what_is_asked_for(run):
    files = "verify", "model.keras", "other.keras"
    told = run(*files, "--json", "--only", "structure", "--only", "sharing")
    assert [check["name"] for check in told["checks"]] == ["structure", "sharing"]
    run(*files, "--only", "outputs", code=1)
    assert run(*files, "--only", "outputs", "--atol", 1e9, "--json")["same"] is True
    assert run(*files, "--only", "outputs", "--rtol", 1e9, "--json")["same"] is True
    assert "did you mean 'outputs'?" in run(*files, "--only", "output", code=2)


def test_masks_are_followed(run):
    assert "no findings" in run("masks", "good.keras")
    assert "1. dropped" in run("masks", "bad.keras", code=1)
    told = run("masks", "bad.keras", "--json", code=1)
    assert told["ok"] is False
    assert told["findings"][0]["layers"] == ["embedding", "conv", "lstm"]
    assert told["tensors"][1]["sources"] == ["embedding"]


# --- diff, show, emit ----------------------------------------------------------------


def test_diff(run):
    run("diff", "model.keras", "model.keras")
    assert run("diff", "model.keras", "other.keras", code=1)
    told = run("diff", "model.keras", "other.keras", "--json", code=1)
    assert told["same"] is False
    assert told["diff"]


def test_show_gives_data(run):
    data = run("show", "model.keras", "--json")
    assert "text" not in data
    (head,) = (call for call in data["calls"] if call["name"] == "head")
    assert head["kind"] == "Dense"
    assert head["parameters"] > 0
    assert head["inputs"]
    assert any("parameters" in total for total in data["totals"])


def test_show(run, tmp_path):
    assert "conv1" in run("show", "model.keras")
    run("show", "model.keras", "other.keras", "--to", tmp_path / "m.html")
    assert "conv1" in (tmp_path / "m.html").read_text(encoding="utf-8")
    assert "already exists" in run("show", "model.keras", "--to", tmp_path / "m.html", code=2)


def test_emit(run, tmp_path):
    code = run("emit", "model.keras")
    compile(code, "model.py", "exec")
    assert "# It was not checked" in code
    told = run("emit", "model.keras", "--to", tmp_path / "model.py")
    assert "use --trust to run and check it" in told
    assert (tmp_path / "model.py").read_text(encoding="utf-8").strip() == code.strip()
    found = run("emit", "model.keras", "--json")
    assert (found["code"].strip(), found["checked"]) == (code.strip(), False)
    found = run("emit", "model.keras", "--json", "--trust")
    assert found["checked"]
    assert "# It was not checked" not in found["code"]
    assert found["names"] == "given"
    assert "def name_operations" not in found["code"]
    found = run("emit", "model.keras", "--json", "--exact-names")
    assert found["names"] == "exact"
    assert 'name="conv1"' in found["code"]
    assert "already exists" in run("emit", "model.keras", "--to", tmp_path / "model.py", code=2)


# --- edit ----------------------------------------------------------------------------


def test_each_edit(run, tmp_path):
    new = edited(run, tmp_path, "--replace", "relu*=keras.layers.PReLU()")
    assert [type(layer).__name__ for layer in new.layers].count("PReLU") == 2
    assert "drop1" not in names(edited(run, tmp_path, "--remove", "drop*"))
    new = edited(run, tmp_path, "--insert-after", "conv1=layers.Dropout(0.1)")
    assert names(new)[1] == "dropout"
    new = edited(run, tmp_path, "--insert-before", "conv1=Dropout(0.1, name='first')")
    assert names(new)[0] == "first"
    assert names(edited(run, tmp_path, "--rename", "head=tail"))[-1] == "tail"
    new = edited(run, tmp_path, "--configure", "conv*:trainable=False,activation=relu")
    assert [new.get_layer(name).trainable for name in ("conv1", "conv2", "head")] == [0, 0, 1]
    assert new.get_layer("conv1").activation is keras.activations.relu


def test_edits_of_the_whole_graph(run, tmp_path):
    new = edited(run, tmp_path, "--freeze", "*", "--unfreeze", "head")
    assert [weight.path for weight in new.trainable_weights] == ["head/kernel", "head/bias"]
    assert names(edited(run, tmp_path, "--prefix", "a_"))[1].startswith("a_")
    assert names(edited(run, tmp_path, "--extract", "relu1"))[-1] == "relu1"
    assert len(edited(run, tmp_path, "--extract", "relu1, relu2").outputs) == 2
    assert len(edited(run, tmp_path, "--add-output", "relu2").outputs) == 2
    assert "drop2" not in names(edited(run, tmp_path, "--rewire", "head=relu2"))
    assert "drop2" not in names(edited(run, tmp_path, "--rewire", "head:0=relu2"))
    assert edited(run, tmp_path, "--inputs", "batch_size=2").input_shape[0] == 2
    tied = edited(run, tmp_path, "--share", "relu1=relu2")
    assert "relu2" not in names(tied)
    tied.save(tmp_path / "tied.keras")
    run("edit", tmp_path / "tied.keras", tmp_path / "untied.keras", "--unshare", "relu1")
    assert len(names(load(tmp_path / "untied.keras"))) == len(names(load("model.keras")))
    inner = classifier()
    outer = keras.Sequential([keras.Input(inner.input_shape[1:]), inner], name="outer")
    outer.save(tmp_path / "outer.keras")
    run("edit", tmp_path / "outer.keras", tmp_path / "flat.keras", "--flatten", "*")
    assert "classifier_head" in names(load(tmp_path / "flat.keras"))
    run("edit", tmp_path / "outer.keras", tmp_path / "flat2.keras", "--flatten", "classifier")
    for option, text in (("--share", "relu1"), ("--rewire", "head"), ("--extract", "a,,b")):
        assert "it does not have the form" in run(
            "edit", "model.keras", "--dry-run", option, text, code=2
        )


def test_weights_follow(run, tmp_path):
    new = edited(run, tmp_path, "--configure", "head:units=4,weights=grow")
    old = load("model.keras").get_layer("head").kernel
    kernel = keras.ops.convert_to_numpy(new.get_layer("head").kernel)
    assert np.array_equal(kernel[:, :3], keras.ops.convert_to_numpy(old))


def test_edits_are_made_in_the_order_given(run):
    told = run(
        *("edit", "model.keras", "--dry-run", "--json"),
        *("--rename", "head=a"),
        *("--insert-after", "a=Dropout(0.1, name='b')"),
        *("--rename", "a=c"),
        *("--remove", "drop1"),
        *("--insert-after", "b=Dropout(0.1, name='d')"),
    )
    assert [entry["text"] for entry in told["journal"]] == [
        "rename 'head' to 'a'",
        "insert Dropout 'b' after 'a'",
        "rename 'a' to 'c'",
        "remove 'drop1' (Dropout)",
        "insert Dropout 'd' after 'b'",
    ]
    assert told["target"] is None
    assert [transfer["path"] for transfer in told["weights"] if "c/" in transfer["path"]] == [
        "c/kernel",
        "c/bias",
    ]
    assert all(
        set(each) == {"path", "shape", "status", "source", "note"} for each in told["weights"]
    )


def test_a_dry_run_writes_nothing(run, tmp_path):
    out = tmp_path / "out.keras"
    told = run("edit", "model.keras", out, "--remove", "drop*", "--dry-run")
    assert "1. remove 2 layers 'drop*' (Dropout)" in told
    assert "weights of 'classifier': 6 kept" in told
    assert "nothing was written" in told
    assert not any(tmp_path.iterdir())
    told = run("edit", "model.keras", "--remove", "drop*", "--dry-run", "--json")
    (entry,) = told["journal"]
    assert entry["count"] == len(entry["parts"]) == 2
    assert entry["parts"][0] == "remove 'drop1' (Dropout)"


def test_edits_are_proven(run, tmp_path):
    out = tmp_path / "out.keras"
    told = run("edit", "model.keras", out, "--remove", "drop*", "--prove")
    assert "proof of 'classifier': 1 promise kept" in told
    assert out.exists()
    told = run("edit", "model.keras", "--dry-run", "--rename", "head=a", "--prove", "--json")
    assert told["proof"]["ok"] is True
    assert told["proof"]["edits"][0]["judgement"] == "kept"
    assert told["journal"][0]["promise"] == "exact"


def test_nothing_is_written_if_a_promise_is_broken(run, tmp_path, monkeypatch):
    # Removing a layer that matters is said to change nothing.
    monkeypatch.setattr("ramet.editing.promises._passing", lambda _: "exact")
    monkeypatch.setattr("ramet.editing.promises._keeps_dtype", lambda *_: True)
    out = tmp_path / "out.keras"
    args = ("edit", "model.keras", out, "--remove", "relu1", "--prove")
    told = run(*args, code=1)
    assert "nothing was written (a promise is broken)" in told
    assert not out.exists()
    told = run(*args, "--json", code=1)
    assert told["target"] is None
    assert told["proof"]["whole"]["judgement"] == "broken"


def test_answers_fit_80_columns(run, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    names = {"conv1": "c" * 70, "head": f"head_{'x' * 90}"}
    run(
        *("edit", "model.keras", tmp_path / "long.keras"),
        *(word for old, new in names.items() for word in ("--rename", f"{old}={new}")),
    )
    for command, *args in (
        ("edit", tmp_path / "long.keras", "--remove", "drop*", "--dry-run"),
        ("edit", tmp_path / "long.keras", "--configure", "head_*:units=9", "--dry-run"),
        ("show", tmp_path / "long.keras"),
        ("masks", tmp_path / "long.keras"),
    ):
        assert all(cell_len(line) <= 80 for line in run(command, *args).splitlines())
    shown = run("show", tmp_path / "long.keras").splitlines()
    assert all(name in "".join(line.strip() for line in shown) for name in names.values())
    for command in ("diff", "verify"):
        told = run(command, "model.keras", tmp_path / "long.keras", code=1)
        assert all(cell_len(line) <= 80 for line in told.splitlines())


def test_places_that_are_no_globs(run, tmp_path):
    x = keras.Input((4,), name="x")
    shared = layers.Dense(4, name="shared")
    keras.Model(x, shared(shared(x))).save(tmp_path / "m.keras")
    told = run(
        *("edit", tmp_path / "m.keras", "--dry-run", "--json"),
        *("--insert-after", "shared#2=Dropout(0.1)"),
    )
    assert len(told["journal"]) == 1
    error = run("edit", tmp_path / "m.keras", "--dry-run", "--remove", "shaerd", code=2)
    assert "did you mean 'shared'" in error


@pytest.mark.parametrize(
    ("edits", "match"),
    [
        (["--replace", "relu*"], "GLOB=LAYER"),
        (["--replace", "relu*="], "GLOB=LAYER"),
        (["--rename", "head"], "OLD=NEW"),
        (["--rename", "head=conv1"], "conv1"),
        (["--configure", "head"], "GLOB:key=value"),
        (["--configure", "head:units"], "key=value,key=value"),
        (["--configure", "head:**units"], "key=value,key=value"),
        (["--configure", "head:wheels=4"], "wheels"),
        (["--configure", "head:units=4)+f(a=1"], "key=value,key=value"),
        (["--remove", "nothing*"], "nothing"),
        (["--remove", "haed"], "did you mean 'head'"),
        (["--replace", "relu*=ReLU(name='one')"], "cannot use one name at 2 places"),
        (["--insert-after", "relu*=Dropout(0.1, name='one')"], "cannot use one name at 2 places"),
        (["--replace", "relu1=Dens(3)"], "no class 'Dens' in keras.layers; did you mean 'Dense'"),
        (["--replace", "relu1=keras.Model()"], "it is none of keras.layers"),
        (["--replace", "relu1=keras.layers.Layer.__init__()"], "it is none of keras.layers"),
        (["--replace", "relu1=keras.regularizers.L2(1)"], "it is not a layer"),
        (["--replace", "relu1=Dense('many', nonsense=1)"], "cannot be created"),
        (["--replace", "relu1=Dense(units"], "cannot be read"),
        (["--replace", "relu1=" + "(" * 500], "cannot be read"),
    ],
)
def test_edits_that_are_refused(run, edits, match):
    assert match in run("edit", "model.keras", "--dry-run", *edits, code=2)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('touch evil')",
        "open('evil', 'w')",
        "(lambda: open('evil', 'w'))()",
        "Dense(open('evil', 'w'))",
        "Dense(__import__('os'))",
        "Dense(3 if open('evil', 'w') else 4)",
        "Dense([open('evil', 'w')])",
        "Dense(units)",
        'Dense(f\'{open("evil", "w")}\')',
        "Dense(*[3])",
        "Dense(**{'units': 3})",
        "Dense(10 ** 10 ** 10)",
        "keras.layers.__dict__['Dense'](3)",
        "keras.utils.get_file('evil', 'http://localhost/evil')",
        "Dense",
        "3",
        "[x for x in (1,)]",
        "Dense(3); import os",
    ],
)
def test_texts_are_never_evaluated(run, models, text):
    run("edit", "model.keras", "--dry-run", "--replace", f"relu1={text}", code=2)
    assert not (models / "evil").exists()


def test_layers_with_arguments(run, tmp_path):
    text = (
        "Dense(units=5, use_bias=False, kernel_regularizer=keras.regularizers.L2(1e-4), "
        "kernel_initializer=keras.initializers.Constant(-0.5), dtype='float32', name='new')"
    )
    new = edited(run, tmp_path, "--replace", f"conv2={text}").get_layer("new")
    assert new.kernel_regularizer.l2 == pytest.approx(1e-4)
    assert new.kernel_initializer.value == -0.5
    wrapped = "TimeDistributed(layers.Dense(2))"
    told = run("edit", "good.keras", "--dry-run", "--insert-after", f"embedding={wrapped}")
    assert "TimeDistributed" in told


def test_values_of_arguments():
    from ramet.cli.written_layers import read_arguments

    text = "a=TRUE, b=none, c=False, d=same, e=(3, 3), f=-1.5, g='x y', h=[1, 2], i={'k': 1}"
    assert read_arguments(text) == {
        "a": True,
        "b": None,
        "c": False,
        "d": "same",
        "e": (3, 3),
        "f": -1.5,
        "g": "x y",
        "h": [1, 2],
        "i": {"k": 1},
    }


def test_nothing_to_do(run):
    assert "there are no edits; name one" in run("edit", "model.keras", "out.keras", code=2)
    assert "no file to write" in run("edit", "model.keras", "--remove", "drop*", code=2)


# --- errors --------------------------------------------------------------------------


def test_errors_are_one_line(run, tmp_path):
    assert "no file 'none.keras'" in run("masks", "none.keras", code=2)
    assert "is a directory" in run("masks", tmp_path, code=2)
    (tmp_path / "m.keras").write_text("hello")
    assert "not a Keras archive" in run("masks", tmp_path / "m.keras", code=2)
    assert "Missing argument" in run("verify", "model.keras", code=2)
    assert "No such command 'copy'" in run("copy", code=2)
    assert "--sed" in run("verify", "model.keras", "model.keras", "--sed", "1", code=2)
    exists = run("clone", "model.keras", "other.keras", code=2)
    assert "already exists; use --force to overwrite it" in exists
    suffix = run("clone", "model.keras", tmp_path / "m.h5", code=2)
    assert "suffix '.h5'; name a .keras file" in suffix
    assert "seed" in run("clone", "model.keras", tmp_path / "n.keras", "--seed", "3", code=2)
    assert [path.name for path in tmp_path.iterdir()] == ["m.keras"]


@pytest.mark.parametrize(
    ("remedy", "shown"),
    [
        ("pass force=True to overwrite it", "use --force to overwrite it"),
        ("if you trust the origin of the file, pass trust=True", "file, use --trust"),
        ("if it is your own, pass it in custom_objects", "use --trust --import"),
        ('use names="exact", or rename the layer', "use --exact-names, or rename the layer"),
        ("set KERAS_BACKEND=jax before Keras is imported", "use --backend jax"),
    ],
)
def test_remedies_name_options(remedy, shown):
    problem = "'pass force=True.keras' names 'use names=\"exact\"'"
    text = with_options(f"{problem}; {remedy}")
    assert text.startswith(f"{problem}; ")
    assert text.endswith(shown)


def test_errors_for_machines():
    result = CliRunner().invoke(app, ["masks", "none.keras", "--json"])
    assert json.loads(result.stdout) == {
        "command": "masks",
        "error": "there is no file 'none.keras'",
    }
    result = CliRunner().invoke(app, ["masks", "--json"])
    assert "Missing argument" in json.loads(result.stdout)["error"]


def test_tracebacks_are_for_those_who_ask():
    result = CliRunner().invoke(app, ["masks", "none.keras", "--debug"])
    assert result.exit_code == 2
    assert "Traceback" in result.stderr
    assert result.stderr.splitlines()[-1] == "ramet masks: there is no file 'none.keras'"


def test_a_backend_that_cannot_be(run, backend, monkeypatch):
    other = "jax" if backend != "jax" else "torch"
    message = run("masks", "good.keras", "--backend", other, code=2)
    assert f"Keras already runs on {backend}" in message or "not installed" in message
    assert "no findings" in run("masks", "good.keras", "--backend", backend)
    monkeypatch.setenv("KERAS_BACKEND", "abacus")
    assert "KERAS_BACKEND is 'abacus'" in run("masks", "good.keras", code=2)


def test_classes_of_ones_own(run, tmp_path):
    source = tmp_path / "shop.py"
    source.write_text(
        "import keras\n"
        "print('imported')\n"
        "class Twice(keras.layers.Layer):\n"
        "    def call(self, x):\n"
        "        return 2 * x\n"
    )
    spaces = {}
    exec(source.read_text(), spaces)  # noqa: S102 the same class, for the model
    x = keras.Input((3,))
    keras.Model(x, spaces["Twice"](name="mine")(x)).save(tmp_path / "m.keras")
    twin = tmp_path / "twin.keras"
    refused = run("clone", tmp_path / "m.keras", twin, code=2)
    assert "not part of Keras" in refused
    assert "use --trust" in refused
    assert "use --trust --import" in run("clone", tmp_path / "m.keras", twin, "--trust", code=2)
    wanted = ("--import", source)
    assert "use --trust to allow that" in run("clone", tmp_path / "m.keras", twin, *wanted, code=2)
    assert run("clone", tmp_path / "m.keras", twin, *wanted, "--trust", "--json")["target"]
    run("verify", tmp_path / "m.keras", twin, *wanted, "--trust")
    missing = ("--trust", "--import", "no_such_module")
    assert "no_such_module failed" in run("masks", "good.keras", *missing, code=2)


# --- processes -----------------------------------------------------------------------


def process(*args, cwd=None, **environment):
    env = {**os.environ, "PYTHONPATH": str(SOURCE), **environment}
    return subprocess.run(  # noqa: S603 the interpreter that runs the tests
        [sys.executable, *map(str, args)],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


WITHOUT_KERAS = """
import sys
import ramet
assert "keras" not in sys.modules
assert set(ramet.__all__) <= set(dir(ramet))
from ramet import RametError, Graph
from ramet.cli import main
sys.argv = ["ramet", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    assert "keras" not in sys.modules, "keras was imported"
    assert "numpy" not in sys.modules, "numpy was imported"
    sys.exit(end.code)
"""


@pytest.mark.backend_free
@pytest.mark.parametrize(
    ("args", "shown", "code"),
    [
        (["--help"], "Usage: ramet", 0),
        (["--version"], "ramet", 0),
        (["edit", "--help"], "--insert-before", 0),
        (["masks", "none.keras"], "", 2),
    ],
)
def test_answers_without_keras(args, shown, code, tmp_path):
    done = process("-c", WITHOUT_KERAS, *args, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert shown in done.stdout


@pytest.mark.backend_free
def test_every_command_has_examples():
    for command in ("clone", "diff", "verify", "masks", "show", "emit", "edit", "doctor"):
        result = CliRunner().invoke(app, [command, "--help"])
        assert f"\n   ramet {command} " in result.stdout


def test_no_module_has_the_name_of_a_verb():
    code = (
        "import importlib, pkgutil, types\n"
        "from ramet import clone, masks, clone_model, trace, merge\n"
        "import ramet\n"
        "for module in pkgutil.walk_packages(ramet.__path__, 'ramet.'):\n"
        "    if not module.name.endswith('__main__'): importlib.import_module(module.name)\n"
        "assert ramet.clone is clone and callable(ramet.masks) and callable(ramet.rewrite)\n"
        "public = [getattr(ramet, name) for name in ramet.__all__]\n"
        "assert not any(isinstance(each, types.ModuleType) for each in public)\n"
        "assert not hasattr(ramet, 'nonsense')\n"
        "from ramet import *\n"
        "assert chain is ramet.chain\n"
    )
    done = process("-c", code)
    assert done.returncode == 0, done.stderr


def test_a_process_from_end_to_end(models, tmp_path, backend):
    twin = tmp_path / "twin.keras"
    done = process("-m", "ramet", "clone", "good.keras", twin, "--backend", backend, cwd=models)
    assert (done.returncode, done.stderr) == (0, "")
    assert ramet.verify(load(models / "good.keras"), load(twin)).ok
