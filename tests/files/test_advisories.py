"""Each published attack on Keras's files, and its neighbours: refused, and nothing happens."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import keras
import pytest

import attacks
import ramet
from ramet import backends
from ramet import keras_internals as internals
from ramet.files import load
from watching import watched

OTHER_BACKEND = "which runs on"
"""How a layer is refused that the backend in use does not have."""
HARMFUL = "can run code, read files or change settings; .*pass trust=True"
PICKLED = "a pickled Python function in layer 'evil'"


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Fail if a payload ran."""
    monkeypatch.chdir(tmp_path)
    yield
    assert not (tmp_path / attacks.MARK).exists()


def refused(path: Path, match: str) -> None:
    before = (keras.config.floatx(), keras.config.image_data_format())
    with watched(path) as events, pytest.raises(ramet.FileError, match=match) as caught:
        load(path)
    assert events == []
    assert "\n" not in str(caught.value)
    assert (keras.config.floatx(), keras.config.image_data_format()) == before


def keras_file(tmp_path: Path, *described: Any, **options: Any) -> Path:
    return attacks.archive(tmp_path / "m.keras", attacks.model(*described, **options))


def test_the_model_that_attacks_are_put_into_can_be_loaded(tmp_path: Path) -> None:
    path = keras_file(tmp_path, attacks.layer("ReLU"))
    with watched(path) as events:
        assert load(path).get_layer("evil").name == "evil"
    assert events == []
    path = attacks.legacy(tmp_path / "m.h5", attacks.legacy_model("ReLU"))
    assert load(path).layers[-1].name == "evil"
    described = {**attacks.layer("Lambda", function=attacks.function("keras.ops", "square"))}
    assert load(keras_file(tmp_path, described)).layers[-1].function is keras.ops.square


def test_a_pickled_lambda(tmp_path: Path) -> None:  # CVE-2024-3660
    for where in ("function", "output_shape", "mask"):
        parts = {"function": attacks.function("keras.ops", "square")}
        described = attacks.layer("Lambda", **{**parts, where: attacks.PICKLED_LAMBDA})
        refused(keras_file(tmp_path, described), PICKLED)


def test_a_pickled_lambda_in_a_legacy_file(tmp_path: Path) -> None:  # CVE-2025-9905
    older = [attacks.CODE, None, None]
    for code, match in ((attacks.PICKLED_LAMBDA, PICKLED), (older, HARMFUL)):
        config = attacks.legacy_model("Lambda", function=code)
        refused(attacks.legacy(tmp_path / "m.h5", config), match)


def test_any_function_of_any_module(tmp_path: Path) -> None:  # CVE-2025-1550
    for module, name in (("os", "system"), ("subprocess", "run"), ("builtins", "exec")):
        described = attacks.calling(module, name, f"touch {attacks.MARK}")
        match = "does not know" if module == "builtins" else "which is not part of Keras"
        refused(keras_file(tmp_path, described), match)
        described = attacks.layer("Lambda", function=attacks.function(module, name))
        refused(keras_file(tmp_path, described), match)
    for kind, module in (("system", "os"), ("Popen", "subprocess"), ("run_path", "runpy")):
        described = {**attacks.layer(kind, module), "config": {"name": "evil", "args": "id"}}
        refused(keras_file(tmp_path, described), "which is not part of Keras")


def test_modules_inside_keras_that_are_not_its_own(tmp_path: Path) -> None:
    for kind, module in (("os", "keras.src.saving.saving_lib"), ("system", "keras.src.os")):
        refused(keras_file(tmp_path, attacks.layer(kind, module)), f"{HARMFUL}|does not know")


DOWNLOAD = {"fname": attacks.MARK, "origin": "http://127.0.0.1:9/x", "cache_dir": "."}


def test_a_download(tmp_path: Path) -> None:  # CVE-2025-8747
    described = attacks.calling("keras.utils", "get_file", attacks.MARK, **DOWNLOAD)
    refused(keras_file(tmp_path, described), HARMFUL)


def test_a_download_that_is_extracted(tmp_path: Path) -> None:  # CVE-2025-12060, CVE-2025-12638
    described = attacks.calling(
        "keras.utils", "get_file", attacks.MARK, **DOWNLOAD, extract=True, archive_format="tar"
    )
    refused(keras_file(tmp_path, described), HARMFUL)
    path = keras_file(tmp_path, attacks.layer("ReLU"))
    with zipfile.ZipFile(path, "a") as file:
        file.writestr(f"assets/../../{attacks.MARK}", b"x")
    refused(path, "unsafe name")


def test_safe_mode_that_a_file_switches_off(tmp_path: Path) -> None:  # CVE-2025-9906
    last = attacks.layer("Lambda", function=attacks.PICKLED_LAMBDA)
    for module, name, inputs in (
        ("keras.config", "enable_unsafe_deserialization", []),
        ("keras.src.backend.common.global_state", "set_global_attribute", "safe_mode_saving"),
        ("keras.models", "load_model", "m.keras"),
    ):
        first = {**attacks.calling(module, name, inputs), "name": "first"}
        refused(keras_file(tmp_path, first), f"{HARMFUL}|does not know")
        refused(keras_file(tmp_path, first, last), PICKLED)


VOCABULARIES = [
    ("StringLookup", {}),
    ("IntegerLookup", {}),
    ("TextVectorization", {"standardize": None, "split": None, "ngrams": None}),
]


@pytest.mark.parametrize("secret", ["/etc/passwd", "http://127.0.0.1:9/x", "gs://bucket/x"])
def test_vocabularies_in_other_files(tmp_path: Path, secret: str) -> None:  # CVE-2025-12058
    for kind, options in VOCABULARIES:
        described = attacks.layer(kind, vocabulary=secret, **options)
        refused(keras_file(tmp_path, described), HARMFUL)
        config = attacks.legacy_model(kind, vocabulary=secret, **options)
        refused(attacks.legacy(tmp_path / "m.h5", config), HARMFUL)


def test_a_pickled_module(tmp_path: Path) -> None:  # CVE-2025-49655
    described = attacks.layer("TorchModuleWrapper", module=attacks.PICKLE)
    own = backends.current().name == "torch"
    refused(keras_file(tmp_path, described), HARMFUL if own else OTHER_BACKEND)
    for place in ("activation", "kernel_initializer", "kernel_regularizer"):
        inside = attacks.layer("Dense", units=2, **{place: described})
        refused(keras_file(tmp_path, inside), HARMFUL if own else OTHER_BACKEND)


def test_a_saved_model(tmp_path: Path) -> None:  # CVE-2026-1462
    described = attacks.layer("TFSMLayer", filepath=str(tmp_path / "saved"))
    own = backends.current().name == "tensorflow"
    match = HARMFUL if own else OTHER_BACKEND
    refused(keras_file(tmp_path, described), match)
    refused(keras_file(tmp_path, attacks.layer("Lambda", function=described)), match)


def test_weights_that_declare_a_large_shape(tmp_path: Path) -> None:  # CVE-2026-0897
    def bomb(file: Any) -> None:
        file.create_dataset("layers/evil", (1 << 40,), "f4", chunks=(1024,), compression="gzip")

    config = attacks.model(attacks.layer("ReLU"))
    refused(attacks.archive(tmp_path / "m.keras", config, bomb), "refused as a bomb")


def test_weights_in_another_file(tmp_path: Path) -> None:  # CVE-2026-1669
    def outside(file: Any) -> None:
        file.create_dataset("layers/evil", (4,), "u1", external=[("/etc/passwd", 0, 4)])

    config = attacks.model(attacks.layer("ReLU"))
    refused(attacks.archive(tmp_path / "m.keras", config, outside), "are in another file")


CALLS = [
    ("keras.applications.resnet50", "decode_predictions", [[0.0] * 1000]),
    ("keras.applications", "ResNet50", "imagenet"),
    ("keras.datasets.mnist", "load_data", attacks.MARK),
    ("keras.datasets.imdb", "get_word_index", attacks.MARK),
    ("keras.config", "set_floatx", "float64"),
    ("keras.config", "set_image_data_format", "channels_first"),
    ("keras.utils", "plot_model", attacks.MARK),
    ("keras.utils", "set_random_seed", 1),
    ("keras.distribution", "initialize", "127.0.0.1:9"),
    ("keras.layers", "deserialize", attacks.PICKLED_LAMBDA["config"]),
    ("keras.activations", "deserialize", "relu"),
    ("keras.ops", "fori_loop", 10**3),
    ("keras.ops", "while_loop", 10**3),
]


@pytest.mark.parametrize(("module", "name", "inputs"), CALLS)
def test_functions_of_keras_that_are_no_part_of_a_model(
    tmp_path: Path, module: str, name: str, inputs: Any
) -> None:
    refused(keras_file(tmp_path, attacks.calling(module, name, inputs)), HARMFUL)


def test_classes_of_keras_that_are_no_part_of_a_model(tmp_path: Path) -> None:
    secret = str(tmp_path / "secret.keras")
    for kind, module, config in (
        ("KerasFileEditor", "keras.saving", {"filepath": secret}),
        ("CSVLogger", "keras.callbacks", {"filename": attacks.MARK}),
        ("TensorBoard", "keras.callbacks", {"log_dir": attacks.MARK}),
        ("CustomObjectScope", "keras.saving", {}),
        ("ExportArchive", "keras.export", {}),
    ):
        refused(keras_file(tmp_path, attacks.layer(kind, module, **config)), HARMFUL)
        inside = attacks.layer("Dense", units=2, activation=attacks.layer(kind, module, **config))
        refused(keras_file(tmp_path, inside), HARMFUL)


def test_a_registered_name_without_a_module_name(tmp_path: Path) -> None:
    class Own(keras.layers.Layer):
        pass

    keras.saving.register_keras_serializable("advisories")(Own)
    try:
        for described in (
            {**attacks.layer("Dense", units=1), "registered_name": "advisories>Own"},
            {k: v for k, v in attacks.layer("advisories>Own").items() if k != "registered_name"},
        ):
            refused(keras_file(tmp_path, described), "which is not part of Keras")
        described = attacks.layer("Dense", units=1)
        described["config"]["activation"] = attacks.function("builtins", "advisories>Own")
        refused(keras_file(tmp_path, described), "which is not part of Keras")
    finally:
        del keras.saving.get_custom_objects()["advisories>Own"]


def test_functions_that_legacy_files_name_by_strings(tmp_path: Path) -> None:
    config = attacks.legacy_model("Dense", units=1, activation="deserialize")
    refused(attacks.legacy(tmp_path / "m.h5", config), HARMFUL)


def test_types_of_tensorflow(tmp_path: Path) -> None:
    described = {"class_name": "TypeSpec", "type_spec": "x", "serialized": []}
    config = attacks.legacy_model("ReLU", max_value=described)
    refused(attacks.legacy(tmp_path / "m.h5", config), "does not know")
    described = {"class_name": "__typespec__", "spec_name": "x", "module": "tf", "config": []}
    refused(keras_file(tmp_path, attacks.layer("ReLU", max_value=described)), "not part of Keras")


def test_constants_that_are_no_numbers(tmp_path: Path) -> None:
    for dtype in ("O", "S1000000000", "V1000000000", "object", 3):
        described = {"class_name": "__numpy__", "config": {"value": [1], "dtype": dtype}}
        refused(keras_file(tmp_path, attacks.layer("ReLU", max_value=described)), "__numpy__")


# --- the list ------------------------------------------------------------------------


def public() -> dict[str, Any]:
    from keras.src.api_export import REGISTERED_NAMES_TO_OBJS

    return {name: value for name, value in REGISTERED_NAMES_TO_OBJS.items() if "_tf_" not in name}


def test_every_public_name_of_keras() -> None:
    rooms = {
        *("activations", "constraints", "distillation", "dtype_policies", "initializers"),
        *("layers", "losses", "metrics", "ops", "optimizers", "quantizers", "regularizers"),
        *("_legacy",),
    }
    classes = {"Layer", "Model", "Sequential", "Function", "Operation", "Loss", "Metric"}
    classes |= {"Optimizer", "Initializer", "Regularizer", "Quantizer", "DTypePolicy"}
    classes |= {"FloatDTypePolicy", "FeatureSpace", "SeedGenerator"}
    for name, value in public().items():
        if internals.is_part(value):
            room, last = name.split(".")[1], name.rpartition(".")[2]
            assert room in rooms or last in classes, name
            assert last not in ("get", "deserialize", "serialize"), name


def test_every_layer_of_keras_is_part_of_models_unless_it_runs_something_else() -> None:
    for room, base in (
        ("layers", keras.Layer),
        ("initializers", keras.initializers.Initializer),
        ("regularizers", keras.regularizers.Regularizer),
        ("constraints", keras.constraints.Constraint),
        ("losses", keras.losses.Loss),
        ("metrics", keras.metrics.Metric),
        ("optimizers", keras.optimizers.Optimizer),
        ("dtype_policies", keras.dtype_policies.DTypePolicy),
    ):
        kinds = {
            name
            for name, value in vars(getattr(keras, room)).items()
            if isinstance(value, type) and issubclass(value, base) and not internals.is_part(value)
        }
        foreign = {"TorchModuleWrapper", "TFSMLayer", "JaxLayer", "FlaxLayer"}
        assert kinds - foreign == set(), room
        assert room != "layers" or "TFSMLayer" in kinds


def test_functions_that_take_functions_are_those_that_loop() -> None:
    refused = {
        name.rpartition(".")[2]
        for name, value in public().items()
        if name.startswith("keras.ops.") and not internals.is_part(value)
    }
    known = {"associative_scan", "cond", "custom_gradient", "fori_loop", "jvp", "map", "scan"}
    known |= {"unstack"}
    known |= {"switch", "vectorize", "vectorized_map", "while_loop"}
    assert refused <= known
    assert {"map", "while_loop", "vectorized_map"} <= refused


def test_what_a_config_of_any_other_public_name_says() -> None:
    harmless = 0
    for name, value in public().items():
        module, _, last = name.rpartition(".")
        as_function = attacks.function(module, last)
        as_class = {"module": module, "class_name": last, "config": {}, "registered_name": None}
        may = [internals.may_be_created(each) for each in (as_function, as_class)]
        assert may == [internals.is_part(value)] * 2 or last == "Lambda", name
        harmless += may[0]
    assert harmless > 500
