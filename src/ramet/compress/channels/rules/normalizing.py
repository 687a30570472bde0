"""Layers that normalize, and others with a weight for each channel."""

from collections.abc import Sequence
from typing import Any

from ramet.compress.channels.site import Axis, Kind, Site, Tensor, axis_of, rule


def axes_of(value: Any, rank: int) -> list[int]:
    """Return an argument `axis` as numbers from zero, in order."""
    several = [*value] if isinstance(value, (list, tuple)) else [value]
    return sorted(axis % rank for axis in several)


def _carry(site: Site, names: str, at: Sequence[int]) -> None:
    seen = site.tensor()
    axes: list[tuple[Axis, Kind]] = [(seen[i], "carried") for i in at]
    for name in names.split():
        site.weight(name, *axes)


def _masked(tensor: Tensor, at: Sequence[int]) -> Tensor:
    """Return a tensor that was multiplied by weights which are masked along some axes."""
    return tuple(
        axis_of(axis.label()) if i in at and axis.labels is not None else axis
        for i, axis in enumerate(tensor)
    )


def _others(site: Site, tensor: Tensor, at: Sequence[int]) -> Tensor:
    """Return a tensor after something that does not keep zeros along other axes than some."""
    return tuple(axis if i in at else site.nonzero(axis) for i, axis in enumerate(tensor))


@rule("BatchNormalization")
def batch_norm(site: Site) -> Sequence[Tensor]:
    """Each channel has statistics of its own."""
    seen = site.tensor()
    at = axes_of(site.layer.axis, len(seen))
    _carry(site, "gamma beta moving_mean moving_variance moving_stddev", at)
    _carry(site, "renorm_mean renorm_stddev", at)
    return [_others(site, _masked(seen, at), at)]


def _statistics(site: Site, axes: Sequence[Axis]) -> None:
    for axis in axes:
        site.lose(axis, f"{site.name} computes statistics of all channels")


@rule("LayerNormalization", "RMSNormalization")
def layer_norm(site: Site) -> Sequence[Tensor]:
    """The statistics are of all channels."""
    seen = site.tensor()
    at = axes_of(site.layer.axis, len(seen))
    _carry(site, "gamma beta scale", at)
    _statistics(site, [seen[i] for i in at])
    masked = bool(site.size_of("gamma") or site.size_of("scale") or site.size_of("beta"))
    return [_others(site, _masked(seen, at) if masked else seen, at)]


@rule("GroupNormalization")
def group_norm(site: Site) -> Sequence[Tensor]:
    """The statistics are of all channels in a group, and of all positions."""
    layer, seen = site.layer, site.tensor()
    (at,) = axes_of(layer.axis, len(seen))
    channels, groups = seen[at], layer.groups
    if groups not in (-1, channels.size):
        blocks, inside = site.atoms.split(channels.label(), groups, site.path)
        site.lose(axis_of(inside), f"{site.name} computes statistics of groups of channels")
        site.configure(groups=axis_of(blocks))
    elif groups != -1:
        site.configure(groups=channels)
    _carry(site, "gamma beta", [at])
    others = [axis for i, axis in enumerate(seen) if i not in (0, at)]
    _statistics(site, others)
    return [_others(site, _masked(seen, [at]), [at])]


@rule("Normalization")
def normalization(site: Site) -> Sequence[Tensor] | None:
    """Mean and variance were adapted to data, or are constants."""
    layer, seen = site.layer, site.tensor()
    if layer.axis is None or not site.size_of("mean"):
        return None
    at = axes_of(layer.axis, len(seen))
    _carry(site, "mean variance", at)
    return [_others(site, _masked(seen, at), at)]


@rule("UnitNormalization")
def unit_norm(site: Site) -> Sequence[Tensor]:
    """Zeros add nothing to a norm."""
    seen = site.tensor()
    for i in axes_of(site.layer.axis, len(seen)):
        site.read(seen[i])
    return [seen]


@rule("PReLU")
def prelu(site: Site) -> Sequence[Tensor]:
    """A slope for each index of some axes."""
    seen, shared = site.tensor(), site.layer.shared_axes or ()
    axes: list[tuple[Axis, Kind]] = [
        (Axis(1) if i in shared else seen[i], "carried") for i in range(1, len(seen))
    ]
    site.weight("alpha", *axes)
    return [seen]


@rule("LayerScale")
def layer_scale(site: Site) -> Sequence[Tensor]:
    """A factor for each channel: a layer of `keras.applications`."""
    seen = site.tensor()
    site.weight("gamma", (seen[-1], "carried"))
    site.configure(projection_dim=seen[-1])
    return [seen]
