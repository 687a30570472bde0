"""Channels removed from all layers that have them, with an entry in the journal."""

from collections.abc import Collection, Mapping

from ramet.compress.channels.arrange import Arrangement
from ramet.compress.channels.follow import Channels
from ramet.compress.channels.resize import resized
from ramet.compress.pruning.masked import RemovedChannels
from ramet.errors import OptionError
from ramet.graph import Graph
from ramet.graph.data import Edit
from ramet.graph.names import counted
from ramet.graph.stages import Stage


def remove(
    channels: Channels, arrangement: Arrangement, removed: Mapping[str, Collection[int]]
) -> Graph:
    """Return a graph without some channels.

    Args:
        channels: The channels of the graph.
        arrangement: Its groups.
        removed: The numbers of the channels to be removed, by group.

    Raises:
        OptionError: If nothing would be left of a group.
    """
    sources: dict[str, list[int]] = {}
    lines: list[str] = []
    for name, numbers in removed.items():
        group, gone = arrangement.groups[name], {*numbers}
        left = [number for number in range(group.size) if number not in gone]
        if not left:
            message = (
                f"all {counted(group.size, 'channel')} of group '{name}' would be removed; "
                "leave at least one"
            )
            raise OptionError(message)
        if len(left) < group.size:
            sources[name] = left
            state = "" if group.exact else " (lossy)"
            lines.append(f"prune '{name}': {group.size} → {len(left)} channels{state}")
    count = sum(arrangement.groups[name].size - len(left) for name, left in sources.items())
    if len(lines) == 1:
        edit = Edit.of_many(lines[0], lines)
    else:
        text = f"prune {counted(count, 'channel')} of {counted(len(sources), 'group')}"
        edit = Edit.of_many(text, lines)
    removal = RemovedChannels(channels, arrangement, sources)
    stage = Stage(channels.graph, removed=(removal,) if sources else ())
    return resized(channels, arrangement, sources, edit, stage=stage)
