"""Parts of Keras that a config may name: what models are made of, and nothing else.

Keras looks up any public name that a config gives it, and calls what it finds: also functions that
download, write files or change settings. So a config that is not trusted may only name classes that
models are built from, and functions that compute on tensors. Which these are follows from where
Keras defines them and from their base classes, not from a list of names.
"""

import contextlib
import functools
import importlib
import inspect
import re
import sys
from typing import Any

import keras
from keras.src.api_export import get_symbol_from_name
from keras.src.saving.keras_saveable import KerasSaveable

_HOMES = frozenset(
    {
        *("activations", "applications", "constraints", "distillation", "dtype_policies"),
        *("initializers", "layers", "legacy", "losses", "metrics", "models", "ops"),
        *("optimizers", "quantizers", "random", "regularizers"),
    }
)
"""The packages of Keras in which parts of models are defined.

Layers that run what is not Keras are elsewhere: those for JAX, Flax, PyTorch and SavedModels.
"""

_COMPUTING = frozenset({"activations", "losses", "metrics", "ops"})
"""The packages in which functions of tensors are defined."""

_ROOMS = (
    *("", "layers", "models", "activations", "initializers", "regularizers", "constraints"),
    *("losses", "metrics", "optimizers", "optimizers.schedules", "dtype_policies"),
)
"""The public modules that a config may mean if it names no module, as in files of Keras 2."""

_BUILTIN_ROOMS = (
    *("activations", "constraints", "initializers", "losses", "metrics", "optimizers"),
    "regularizers",
)
"""Where Keras looks for a function of the module `builtins`."""

_OPTIMIZERS = re.compile(r"keras\.src\.backend\.\w+\.optimizers\.")
"""Modules with the optimizers of a backend. Files that were saved on it name them."""

_TOOLS = frozenset({"deserialize", "get", "serialize"})
"""Functions among the activations, losses and metrics that create objects."""

_UNBOUNDED = frozenset({"unstack"})
"""Functions that return as many tensors as an axis is long."""

_FUNCTIONS = frozenset(
    {
        *("f", "fn", "fun", "func", "function", "pyfunc", "body", "body_fun"),
        *("branches", "combine_fn", "true_fn"),
    }
)
"""How Keras calls the parameters of operations that are functions. Such operations may loop."""


@functools.cache
def _bases() -> tuple[type, ...]:
    names = (
        *("initializers.Initializer", "regularizers.Regularizer", "constraints.Constraint"),
        *("dtype_policies.DTypePolicy", "dtype_policies.DTypePolicyMap", "quantizers.Quantizer"),
        *("quantizers.QuantizationConfig", "optimizers.schedules.LearningRateSchedule"),
        *("random.SeedGenerator", "optimizers.OptimizerMap", "distillation.DistillationLoss"),
    )
    public = (_public(*name.rpartition(".")[::2]) for name in names)
    return (KerasSaveable, *(base for base in public if isinstance(base, type)))


@functools.cache
def _functions() -> frozenset[Any]:
    """Return the public functions of tensors."""
    rooms = [getattr(keras, room) for room in _COMPUTING]
    rooms += [room for room in vars(keras.ops).values() if inspect.ismodule(room)]
    return frozenset(
        value
        for room in rooms
        for name, value in vars(room).items()
        if inspect.isfunction(value)
        and name not in _TOOLS | _UNBOUNDED
        and not _takes_functions(value)
    )


def is_part(value: Any) -> bool:
    """Whether a class or function of Keras is one that models are made of."""
    if inspect.isfunction(value):
        return value in _functions()
    if not isinstance(value, type) or not issubclass(value, _bases()):
        return False
    package, source, home = [*value.__module__.split("."), "", ""][:3]
    if (package, source) != ("keras", "src"):
        return False
    if home == "ops":
        return not _takes_functions(value.__init__, getattr(value, "call", value))
    return home in _HOMES or _OPTIMIZERS.match(value.__module__) is not None


def _takes_functions(*callables: Any) -> bool:
    return any(_FUNCTIONS & {*inspect.signature(each).parameters} for each in callables)


def named_parts(described: dict[str, Any]) -> list[Any]:
    """Return what Keras may find where a config describes a class or function.

    It is a list because a config can leave the module open.
    """
    name, config = described["class_name"], described.get("config")
    is_function = name == "function"
    name = config if is_function else name
    module = described.get("module")
    if not isinstance(name, str):
        return []
    if module is None:
        paths = [f"keras.{room}.{name}" if room else f"keras.{name}" for room in _ROOMS]
    elif is_function and module == "builtins":
        paths = [f"keras.{room}.{name}" for room in _BUILTIN_ROOMS]
    else:
        paths = [f"{module}.{name}"]
    found = [_symbol(path) for path in paths]
    if module is None and name == "Functional":  # private in some versions, and in every file
        found.append(_symbol("keras.src.models.functional.Functional"))
    return [one for one in found if one is not None]


def _symbol(path: str) -> Any:
    public = get_symbol_from_name(path) if path.startswith("keras.") else None
    return _public(*path.rpartition(".")[::2]) if public is None else public


def _public(module: str, name: str) -> Any:
    """Return what a module of Keras has by a name, if it is imported already."""
    module = module if module.partition(".")[0] == "keras" else f"keras.{module}"
    if _OPTIMIZERS.match(module) and module not in sys.modules:
        with contextlib.suppress(ImportError):  # of a backend that is not installed
            importlib.import_module(module)
    return vars(sys.modules[module]).get(name) if module in sys.modules else None


_PLAIN = frozenset(
    {
        *("__bytes__", "__ellipsis__", "__keras_tensor__", "__numpy__", "__slice__"),
        *("__tensor__", "__tuple__", "TensorShape"),
    }
)
"""How Keras describes constants that JSON lacks."""

_DTYPES = frozenset(
    {
        *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
        *("bfloat16", "float16", "float32", "float64", "complex64", "complex128", "string"),
    }
)
"""The dtypes of constants. NumPy knows others, whose values take any space or are objects."""

_PATHS = frozenset(
    {
        *("vocabulary", "idf_weights", "filepath", "filename", "path", "file", "fname"),
        *("directory", "cache_dir", "log_dir", "url", "origin"),
    }
)
"""Entries of a config that Keras takes for a file or an address if they are strings."""


def may_be_created(described: dict[str, Any]) -> bool:
    """Whether creating what a config describes runs and reads nothing; the parts in it aside."""
    config = described.get("config")
    if described["class_name"] in ("__numpy__", "__tensor__"):
        dtype = config.get("dtype") if isinstance(config, dict) else None
        return isinstance(dtype, str) and dtype in _DTYPES
    if described["class_name"] in tuple(_PLAIN):
        return True
    parts = named_parts(described)
    if not parts or not all(map(is_part, parts)):
        return False
    if not isinstance(config, dict):
        return config is None or described["class_name"] == "function"
    texts = {key for key, value in config.items() if isinstance(value, str)}
    if texts & _PATHS or (keras.layers.Lambda in parts and not _names_function(config)):
        return False
    # Keras replaces strings in the configs of older files by functions of these names.
    older = [config[key] for key in texts - {"name"}] if "module" not in described else []
    return not _TOOLS & {*older}


def _names_function(config: dict[str, Any]) -> bool:
    """Whether a Lambda names its functions. Older files hold a list with the code of one."""
    return isinstance(config.get("function"), dict)
