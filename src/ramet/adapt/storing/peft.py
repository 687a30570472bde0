"""Adapters as PEFT writes them: a folder with adapter_model.safetensors and adapter_config.json.

PEFT keeps the weights of PyTorch's layers: a factor of a Linear is the transpose of the one here,
and that of a convolution has its axes in another order. Kernels go by the dotted names of modules.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import keras
import numpy as np

from ramet.adapt.adapting.places import Place
from ramet.adapt.storing import safetensors
from ramet.adapt.storing.contents import Contents, Part
from ramet.errors import FileError, GraphError
from ramet.files import config
from ramet.graph.names import listed
from ramet.layers import Entry, Kernel, Target, dropout_obstacle

WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
PREFIX = "base_model.model."
_ROLES = re.compile(
    r"(?P<module>.+)\.(?P<role>lora_A|lora_B|lora_embedding_A|lora_embedding_B|"
    r"lora_magnitude_vector)(\.weight)?"
)
_PLAIN = re.compile(r"[\w.-]+")
_SHOWN = 4
"""How many names a message lists."""

Names = Mapping[str, str] | Callable[[str], str] | None
"""The paths of kernels or their layers by the names of PEFT's modules."""


@dataclass(frozen=True)
class _Form:
    """How PEFT keeps the factors of one kind of layer."""

    down: str
    up: str
    spatial: int = 0
    """How many axes of the kernel are spatial."""

    def to_peft(self, target: Target, down: np.ndarray, up: np.ndarray) -> dict[str, np.ndarray]:
        """Return both factors as PEFT keeps them."""
        first, second = down.T, up.T
        if self.spatial:
            space = target.shape[: self.spatial]
            first = np.moveaxis(down.reshape(*space, -1, target.rank), (-1, -2), (0, 1))
            second = second.reshape(*second.shape, *(1,) * self.spatial)
        return {self.down: first, self.up: second}

    def to_ours(self, down: np.ndarray, up: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return both factors as matrices of inputs by rank and of rank by outputs."""
        if self.spatial:
            down = np.moveaxis(down, (0, 1), (-1, -2))
            down = down.reshape(-1, down.shape[-1])
            return down, up.reshape(up.shape[0], -1).T
        return down.T, up.T


_LINEAR = _Form("lora_A.weight", "lora_B.weight")
_EMBEDDING = _Form("lora_embedding_A", "lora_embedding_B")
_CONVOLUTIONS = (keras.layers.Conv1D, keras.layers.Conv2D, keras.layers.Conv3D)


def _form_of(kernel: Kernel) -> _Form | None:
    """Return how PEFT keeps factors for a kernel; `None` if it has no such layer."""
    owner = kernel.owner
    if isinstance(owner, keras.layers.Embedding):
        return _EMBEDDING if kernel.variable.name == "embeddings" else None
    if isinstance(owner, (keras.layers.Dense, keras.layers.EinsumDense)):
        return _LINEAR
    if not isinstance(owner, _CONVOLUTIONS) or owner.groups != 1:
        return None  # PEFT's update of a grouped convolution is not grouped
    return _Form("lora_A.weight", "lora_B.weight", len(kernel.shape) - 2)


def module_of(path: str) -> str:
    """Return the dotted name of the module that has a kernel."""
    return path.rpartition("/")[0].replace("/", ".")


# --- writing ---


def packed(contents: Contents, kernels: Mapping[str, Kernel]) -> tuple[bytes, str]:
    """Return the two files of an adapter.

    Args:
        contents: The adapter.
        kernels: The kernels by path.

    Raises:
        GraphError: If PEFT cannot represent something.
    """
    arrays: dict[str, np.ndarray] = {}
    ranks: dict[str, int] = {}
    alphas: dict[str, float] = {}
    if contents.besides:
        raise GraphError(
            f"{listed([*contents.besides], _SHOWN)} trained besides, for which PEFT needs the "
            "names of its own layers; save in ramet's format"
        )
    for part in contents.parts:
        for number, target in enumerate(part.entry.targets):
            path = f"{part.path}/{target.path}"
            form = _form_of(kernels[path])
            if form is None:
                kind = type(kernels[path].owner).__name__.removeprefix("Adapted")
                message = (
                    f"PEFT cannot represent the kernel '{path}' ({kind}); save in ramet's format"
                )
                raise GraphError(message)
            module = module_of(path)
            down, up = (part.values[f"{number}_{role}"] for role in ("down", "up"))
            factors = form.to_peft(target, down, up)
            if part.entry.variant == "dora":
                length = part.values[f"{number}_length"]
                if form.spatial:
                    length = length.reshape(1, -1, *(1,) * form.spatial)
                factors["lora_magnitude_vector"] = length
            arrays |= {f"{PREFIX}{module}.{role}": value for role, value in factors.items()}
            ranks[module] = target.rank
            alphas[module] = target.rank if part.entry.alpha is None else part.entry.alpha
    variant = contents.parts[0].entry.variant
    plain = _config(ranks, alphas, variant, _dropout_of(contents, kernels))
    return safetensors.written(arrays, {"format": "pt"}), f"{json.dumps(plain, indent=2)}\n"


def _dropout_of(contents: Contents, kernels: Mapping[str, Kernel]) -> float:
    """Return the one rate of dropout that PEFT has for an adapter; it has none for embeddings."""
    rates = {
        f"{part.path}/{target.path}": target.dropout
        for part in contents.parts
        for target in part.entry.targets
        if not isinstance(kernels[f"{part.path}/{target.path}"].owner, keras.layers.Embedding)
    }
    if len({*rates.values()}) > 1:
        has = listed([f"{rate} for '{path}'" for path, rate in rates.items()], _SHOWN)
        message = f"PEFT has one dropout for all kernels, not {has}; save in ramet's format"
        raise GraphError(message)
    return next(iter(rates.values()), 0.0)


def _config(
    ranks: dict[str, int], alphas: dict[str, float], variant: str, dropout: float
) -> dict[str, Any]:
    rank, alpha = next(iter(ranks.values())), next(iter(alphas.values()))
    return {
        "peft_type": "LORA",
        "task_type": None,
        "base_model_name_or_path": None,
        "inference_mode": True,
        "r": rank,
        "lora_alpha": alpha,
        "lora_dropout": dropout,
        "target_modules": [*ranks],
        "rank_pattern": {name: one for name, one in ranks.items() if one != rank},
        "alpha_pattern": {name: one for name, one in alphas.items() if one != alpha},
        "use_rslora": variant == "rslora",
        "use_dora": variant == "dora",
        "bias": "none",
        "fan_in_fan_out": False,
        "modules_to_save": None,
    }


# --- reading ---


def unpacked(folder: Path, places: list[Place], names: Names) -> Contents:
    """Return the adapter in a folder, for the kernels of a graph.

    Raises:
        FileError: If the files are broken, hostile, or say what is not supported.
        GraphError: If a module is not a kernel of the graph.
    """
    plain = config.parse(folder / CONFIG, bytes(safetensors.content_of(folder / CONFIG)))
    _check_config(folder, plain)
    arrays, _ = safetensors.read(folder / WEIGHTS)
    modules: dict[str, dict[str, np.ndarray]] = {}
    for key, array in arrays.items():
        match = _ROLES.fullmatch(key.removeprefix(PREFIX))
        if match is None:
            message = (
                f"'{folder}' has '{config.brief(key)}', which is not a factor of a LoRA adapter"
            )
            raise FileError(message)
        modules.setdefault(match["module"], {})[match["role"]] = array
    found: dict[str, list[tuple[Kernel, Target, str]]] = {}
    held = {place.path: place for place in places}
    for module, roles in modules.items():
        place, kernel = _kernel_of(folder, module, places, names)
        ranks = [len(array) for role, array in roles.items() if role[-1] == "A" and array.ndim]
        target = _target(folder, place, kernel, min(ranks, default=0), plain)
        found.setdefault(place.path, []).append((kernel, target, module))
    if not found:
        raise FileError(f"'{folder}' has no factors of a LoRA adapter")
    parts = [_part(folder, held[path], found[path], modules, plain) for path in found]
    return Contents("default", tuple(parts), {})


def _target(folder: Path, place: Place, kernel: Kernel, rank: int, plain: dict[str, Any]) -> Target:
    if rank < 1:
        raise FileError(f"'{folder}' has factors of rank {rank}")
    dropout = plain.get("lora_dropout") or 0.0
    if isinstance(dropout, bool) or not isinstance(dropout, (int, float)) or not 0 <= dropout < 1:
        raise FileError(
            f"'{folder}' has lora_dropout={config.brief(str(dropout))}, which is no rate"
        )
    if isinstance(kernel.owner, keras.layers.Embedding):
        dropout = 0.0  # PEFT ignores it for these
    elif dropout and (obstacle := dropout_obstacle(place.live, kernel)) is not None:
        message = (
            f"'{folder}' has lora_dropout={dropout}, which '{place.full(kernel)}' cannot have: "
            f"{obstacle}; write 0 in {CONFIG}"
        )
        raise GraphError(message)
    variable = kernel.variable.name
    shape, outs = kernel.shape, kernel.outs
    return Target(kernel.path, kernel.held, variable, shape, outs, rank, float(dropout))


_USUAL: dict[str, tuple[Any, ...]] = {
    "peft_type": ("LORA",),
    "bias": ("none", None),
    "init_lora_weights": (True, False, None, "gaussian", "eva", "orthogonal"),
}
"""What entries may be; other starts than these change the kernels of the base too."""

_HARMLESS = frozenset(
    {
        *("r", "lora_alpha", "lora_dropout", "rank_pattern", "alpha_pattern"),
        *("use_rslora", "use_dora", "qalora_group_size", "eva_config", "velora_config"),
        *("target_modules", "target_parameters", "exclude_modules"),
        *("layers_to_transform", "layers_pattern", "megatron_core", "ensure_weight_tying"),
        *("fan_in_fan_out", "inference_mode", "task_type", "auto_mapping", "revision"),
        *("base_model_name_or_path", "peft_version", "runtime_config"),
    }
)
"""Entries that are read, or that say what the names and shapes of the factors say too."""


def _check_config(folder: Path, plain: Any) -> None:
    if not isinstance(plain, dict):
        raise FileError(f"'{folder / CONFIG}' is not an object")
    known = cast("dict[str, Any]", plain)
    for key, value in {"peft_type": None, **known}.items():
        if key in _HARMLESS or (key not in _USUAL and not value):
            continue
        if key not in _USUAL or value not in _USUAL[key]:
            message = (
                f"'{folder}' is an adapter with {key}={config.brief(str(value))}, which ramet "
                "does not read; merge it with PEFT"
            )
            raise FileError(message)


def _kernel_of(
    folder: Path, module: str, places: list[Place], names: Names
) -> tuple[Place, Kernel]:
    """Return the kernel that PEFT's name of a module means."""
    wanted = module
    if callable(names):
        wanted = names(module)
    elif names is not None:
        wanted = names.get(module, module)
    both = [(place, kernel) for place in places for kernel in place.kernels]
    for place, kernel in both:
        full = place.full(kernel)
        if wanted in (full, full.rpartition("/")[0], module_of(full)):
            return place, kernel
    has = listed([module_of(place.full(kernel)) for place, kernel in both], _SHOWN)
    message = (
        f"'{folder}' has an adapter of module '{config.brief(module)}', which is not a kernel of "
        f"the graph; it has: {has}; pass names={{...}} from PEFT's names to paths"
    )
    raise GraphError(message)


def _part(
    folder: Path,
    place: Place,
    found: list[tuple[Kernel, Target, str]],
    modules: dict[str, dict[str, np.ndarray]],
    plain: dict[str, Any],
) -> Part:
    """Return the adapter of one layer."""
    dora, rslora = bool(plain.get("use_dora")), bool(plain.get("use_rslora"))
    alphas = [_number(folder, plain, "lora_alpha", "alpha_pattern", name) for *_, name in found]
    same = len({*alphas}) == 1 and not (dora and rslora)
    variant = "dora" if dora else "rslora" if rslora and same else "lora"
    values: dict[str, np.ndarray] = {}
    for number, ((kernel, target, module), alpha) in enumerate(zip(found, alphas, strict=True)):
        down, up = _factors(folder, kernel, target, modules[module])
        if not same:  # one factor for all kernels of a layer, so it becomes part of the values
            up = up * (alpha / (target.rank**0.5 if rslora else target.rank))
        values |= {f"{number}_down": down, f"{number}_up": up}
        if dora:
            values[f"{number}_length"] = _length(folder, target, modules[module])
    targets = tuple(target for _, target, _ in found)
    entry = Entry("default", targets, alphas[0] if same else None, variant)
    return Part(place.path, entry, values, ())


def _factors(
    folder: Path, kernel: Kernel, target: Target, held: dict[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    form = _form_of(kernel)
    inside, outside = target.sizes
    if form is not None:
        down, up = (held.get(name.partition(".")[0]) for name in (form.down, form.up))
        axes = 2 + form.spatial
        if down is not None and up is not None and down.ndim == up.ndim == axes:
            down, up = form.to_ours(np.asarray(down, "float32"), np.asarray(up, "float32"))
            if down.shape == (inside, target.rank) and up.shape == (target.rank, outside):
                return down, up
    message = (
        f"'{folder}' has factors for the kernel '{kernel.path}' that do not fit its shape "
        f"{kernel.shape}; it was trained for another base"
    )
    raise GraphError(message)


def _length(folder: Path, target: Target, held: dict[str, np.ndarray]) -> np.ndarray:
    length = held.get("lora_magnitude_vector")
    if length is None or length.size != target.sizes[1]:
        raise FileError(f"'{folder}' has no lengths for the kernel '{target.path}'")
    return np.asarray(length, "float32").reshape(-1)


def _number(folder: Path, plain: dict[str, Any], key: str, patterns: str, module: str) -> float:
    """Return a number of the config, which may be another one for some modules."""
    value = plain.get(key, 8)
    others = plain.get(patterns)
    for pattern, other in (others if isinstance(others, dict) else {}).items():
        name = str(pattern).removeprefix("^").removesuffix("$").replace("\\.", ".")
        if _PLAIN.fullmatch(name) is None:
            raise FileError(
                f"'{folder}' has a pattern that is not a name: {config.brief(str(pattern))}"
            )
        if module == name or module.endswith(f".{name}"):
            value = other
            break  # PEFT takes the first that matches
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise FileError(f"'{folder}' has {key}={config.brief(str(value))}, which is not a number")
    return float(value)
