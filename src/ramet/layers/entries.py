"""What is known of an adapter of one layer: plain data, as it stands in the layer's config."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias, cast, get_args

Variant: TypeAlias = Literal["lora", "rslora", "dora"]
"""`lora` scales by alpha / rank, `rslora` by alpha / sqrt(rank); `dora` scales like `lora`, and
learns the length of each column of the kernel besides."""

VARIANTS: tuple[str, ...] = get_args(Variant)


@dataclass(frozen=True)
class Target:
    """One kernel that an adapter adapts."""

    path: str
    """The kernel's name in the layer: `kernel`, `query/kernel`."""
    held: str
    """The attributes that lead to the layer that has it: `_query_dense`; empty for the layer."""
    variable: str
    """The name of the variable there."""
    shape: tuple[int, ...]
    """The kernel's shape."""
    outs: tuple[int, ...]
    """The axes that make outputs; all others are summed over."""
    rank: int
    """The rank of the update."""
    dropout: float = 0.0
    """How many of the inputs that the update reads are dropped in training."""

    @property
    def ins(self) -> tuple[int, ...]:
        """The axes that are summed over."""
        return tuple(axis for axis in range(len(self.shape)) if axis not in self.outs)

    @property
    def sizes(self) -> tuple[int, int]:
        """The kernel as a matrix: how many numbers a sum has, and how many sums there are."""
        inside, outside = (
            math.prod(self.shape[axis] for axis in axes) for axes in (self.ins, self.outs)
        )
        return inside, outside


@dataclass(frozen=True)
class Entry:
    """One adapter of one layer."""

    name: str
    """The name of the adapter."""
    targets: tuple[Target, ...]
    """The kernels."""
    alpha: float | None = None
    """How strong the update is; `None` for each kernel's rank, so that its factor is 1."""
    variant: Variant = "lora"
    """How it is scaled."""
    trains: bool = True
    """Whether it trains."""
    froze: tuple[str, ...] = ()
    """The layers that were frozen for it, by path; the first layer of an adapter lists all."""
    thawed: tuple[str, ...] = ()
    """The layers that train with it and had been frozen, in the same way."""

    def scale(self, target: Target) -> float:
        """Return the factor of the update of one kernel."""
        alpha = target.rank if self.alpha is None else self.alpha
        return alpha / (math.sqrt(target.rank) if self.variant == "rslora" else target.rank)

    def to_dict(self) -> dict[str, Any]:
        """Return the adapter as plain data."""
        plain = asdict(self)
        plain |= {"froze": list(self.froze), "thawed": list(self.thawed)}
        plain["targets"] = [
            {key: list(value) if isinstance(value, tuple) else value for key, value in one.items()}
            for one in plain["targets"]
        ]
        return plain


def entry_of(plain: Any) -> Entry:
    """Return an adapter from plain data, which may come from a stranger's file.

    Raises:
        ValueError: If it is not one.
    """
    try:
        known = dict(cast("Mapping[str, Any]", plain))
        targets = tuple(_target_of(one) for one in known.pop("targets"))
        for name in ("froze", "thawed"):
            known[name] = tuple(map(str, known.get(name, ())))
        entry = Entry(targets=targets, **known)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"not the config of an adapter: {error}") from error
    right = (
        isinstance(cast("Any", entry.name), str)
        and (entry.alpha is None or isinstance(cast("Any", entry.alpha), (int, float)))
        and entry.variant in VARIANTS
        and isinstance(cast("Any", entry.trains), bool)
    )
    if not right:
        raise ValueError(f"not the config of an adapter: {entry}")
    return entry


def _target_of(plain: Any) -> Target:
    known = dict(cast("Mapping[str, Any]", plain))
    shape, outs = (tuple(known.pop(name)) for name in ("shape", "outs"))
    target = Target(shape=shape, outs=outs, **known)
    texts = target.path, target.held, target.variable
    numbers = *shape, *outs, target.rank
    right = (
        all(isinstance(cast("Any", text), str) for text in texts)
        and all(type(number) is int for number in numbers)
        and all(0 <= axis < len(shape) for axis in outs)
        and all(size >= 0 for size in shape)
        and target.rank > 0
        and isinstance(cast("Any", target.dropout), (int, float))
        and 0 <= target.dropout < 1
    )
    if not right:
        raise ValueError(f"not the config of an adapted kernel: {target}")
    return target
