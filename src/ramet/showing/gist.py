"""What matters of a layer's config, in a few words, such as `64 filters, stride 2, relu`."""

from collections.abc import Mapping
from typing import Any, cast

_BY = "\N{MULTIPLICATION SIGN}"

_SIZES = {
    "filters": "{} filters",
    "units": "{} units",
    "output_dim": "{} wide",
    "num_heads": "{} heads",
    "num_query_heads": "{} heads",
    "key_dim": "key {}",
    "head_dim": "head {}",
    "rate": "rate {}",
    "target_shape": "to {}",
    "equation": "{}",
    "output_shape": "to {}",
    "groups": "{} groups",
    "depth_multiplier": _BY + "{}",
    "axis": "axis {}",
}
_DULL = {"groups": (1,), "depth_multiplier": (1,), "axis": (-1, 3, [-1], None)}
"""Values that most layers have, which are not shown."""


def gist_of(config: Mapping[str, Any] | None) -> str:
    """Return what matters of a config; nothing if there is none."""
    if not config:
        return ""
    words = [
        _singular(text.format(_short(config[key])))
        for key, text in _SIZES.items()
        if config.get(key) is not None and config[key] not in _DULL.get(key, ())
    ]
    window = config.get("kernel_size", config.get("pool_size"))
    if window is not None:
        first = " ".join([*words[:1], _times(window)])
        words[:1] = [first]
    strides = config.get("strides")
    if strides is not None and {*_flat(strides)} != {1} and strides != config.get("pool_size"):
        words.append(f"stride {_times(strides)}")
    if {*_flat(config.get("dilation_rate", 1))} != {1}:
        words.append(f"dilation {_times(config['dilation_rate'])}")
    if config.get("return_sequences"):
        words.append("sequences")
    activation = _name(config.get("activation"))
    if activation not in {None, "linear"}:
        words.append(str(activation))
    return ", ".join(words)


def _singular(text: str) -> str:
    return text.removesuffix("s") if text.startswith("1 ") else text


def _name(value: Any) -> Any:
    """Return the name of an activation: a config may describe it as an object."""
    if isinstance(value, Mapping):
        described = cast("Mapping[str, Any]", value)
        inner = described.get("config")
        return inner if isinstance(inner, str) else described.get("class_name")
    return value if isinstance(value, str) or value is None else type(value).__name__


def _flat(value: Any) -> list[Any]:
    return list(cast("Any", value)) if isinstance(value, (list, tuple)) else [value]


def _times(value: Any) -> str:
    sizes = _flat(value)
    return str(sizes[0]) if len(sizes) == 1 else _BY.join(map(str, sizes))


def _short(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"({', '.join(map(str, _flat(value)))})"
    return f"{value:g}" if isinstance(value, float) else str(value)
