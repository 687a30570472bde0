"""Smaller and faster models, and larger ones: edits of channels, with a promise each."""

from ramet.compress._channel_rule import channel_rule
from ramet.compress._deepen import deepen
from ramet.compress._factorize import factorizable, factorize
from ramet.compress._fold import fold, foldable
from ramet.compress._groups import groups
from ramet.compress._prune import prune
from ramet.compress._prune_channels import prune_channels
from ramet.compress._widen import widen

__all__ = [
    "channel_rule",
    "deepen",
    "factorizable",
    "factorize",
    "fold",
    "foldable",
    "groups",
    "prune",
    "prune_channels",
    "widen",
]
