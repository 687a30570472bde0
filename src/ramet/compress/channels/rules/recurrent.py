"""Recurrent layers, their cells, and layers around layers."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ramet.compress.channels.rules.making import channel_axis
from ramet.compress.channels.rules.zeros import KEEPING
from ramet.compress.channels.site import Axis, Site, Tensor, axis_of, outputs_of, rule, rule_for


def _gates(axis: Axis, count: int) -> Axis:
    return axis_of(np.tile(axis.label(), count))


def _cell(site: Site, gates: int, state: str) -> Axis | None:
    """Label the weights of a cell, and return its output.

    Args:
        site: The cell.
        gates: How many gates it has.
        state: The attribute with the function that computes the state.
    """
    seen, out = site.tensor(), site.make("", site.layer.units)
    function = getattr(site.layer, state)
    name = getattr(function, "__name__", "")
    if not seen:
        return None
    wide = _gates(out, gates)
    site.weight("kernel", (seen[-1], "read"), (wide, "made"))
    site.weight("recurrent_kernel", (out, "read"), (wide, "made"))
    bias: list[Any] = [(wide, "made")]
    if len(site.size_of("bias")) == 2:  # noqa: PLR2004 GRU with two biases
        bias.insert(0, (Axis(2), "carried"))
    site.weight("bias", *bias)
    site.configure(units=out)
    if name not in KEEPING:
        why = f"a unit is not zero after the {name or 'activation'} of {site.name}"
        site.lose(out, why, mixes=False)
    return out


def _cell_outputs(out: Axis | None) -> Sequence[Tensor] | None:
    return None if out is None else [(Axis(None), out)]


@rule("LSTMCell")
def lstm_cell(site: Site) -> Sequence[Tensor] | None:
    """Four gates."""
    return _cell_outputs(_cell(site, 4, "activation"))


@rule("GRUCell")
def gru_cell(site: Site) -> Sequence[Tensor] | None:
    """Three gates."""
    return _cell_outputs(_cell(site, 3, "activation"))


@rule("SimpleRNNCell")
def simple_cell(site: Site) -> Sequence[Tensor] | None:
    """One gate."""
    return _cell_outputs(_cell(site, 1, "activation"))


@rule("StackedRNNCells")
def stacked(site: Site) -> Sequence[Tensor] | None:
    """The input of each cell is the output of the one before it."""
    tensor = site.tensor()
    states: list[Tensor] = []
    for number, cell in enumerate(site.layer.cells):
        reads = {"inputs": tensor}
        part = site.inside(f"cells.{number}", reads, steps=("cells", number))
        outputs = outputs_of(part)
        if not outputs:
            return None
        tensor = outputs[0]
        states += [tensor] * len(_sizes_of(cell.state_size))
    return [tensor, *states]


def _sizes_of(value: Any) -> list[Any]:
    return [*value] if isinstance(value, (list, tuple)) else [value]


@rule("RNN")
def rnn(site: Site) -> Sequence[Tensor] | None:
    """A cell for every step."""
    layer = site.layer
    seen = site.tensor("sequences") if "sequences" in site.reads else site.tensor()
    site.lock(seen[1], f"{site.name} takes it for steps")
    is_flat = {cls.__name__ for cls in type(layer).__mro__} & {"LSTM", "GRU", "SimpleRNN"}
    cell = site.inside("cell", {"inputs": (seen[0], *seen[2:])}, steps=() if is_flat else ("cell",))
    states = outputs_of(cell)
    if not states or len(states[0]) != 2:  # noqa: PLR2004 a batch of vectors
        return None
    out = states[0][-1]
    if len(states) == 1:
        states = [states[0], *[states[0]] * len(_sizes_of(layer.cell.state_size))]
    if "initial_state" in site.reads:
        initial = site.reads["initial_state"]
        initial = initial if isinstance(initial, list) else [initial]
        for tensor, state in zip(initial, states[1:], strict=False):
            site.tie(tensor[-1], state[-1])
            site.read(tensor[-1], weighted=True)
    if getattr(layer, "stateful", False):
        site.lock_all(reason=f"{site.name} keeps its state between batches")
        site.lock(out, f"{site.name} keeps its state between batches")
    first = (seen[0], seen[1], out) if layer.return_sequences else (seen[0], out)
    return [first, *((seen[0], state[-1]) for state in states[1:])]


@rule("Bidirectional")
def bidirectional(site: Site) -> Sequence[Tensor] | None:
    """Two layers whose units of the same number belong together."""
    layer = site.layer
    reads = {"sequences": site.tensor()}
    if "initial_state" in site.reads:
        return None
    sides: list[Sequence[Tensor]] = []
    for part, step in (("forward_layer", "layer"), ("backward_layer", "backward_layer")):
        inner = site.inside(part, reads, steps=(step,))
        outputs = rnn(inner) if rule_for(type(inner.layer)) is rnn else None
        if outputs is None:
            return None
        sides.append(outputs)
    for one, other in zip(*sides, strict=True):
        site.tie(one[-1], other[-1])
    first, second = sides[0][0], sides[1][0]
    states = [*sides[0][1:], *sides[1][1:]] if layer.return_state else []
    if layer.merge_mode is None:
        return [first, second, *states]
    last = first[-1]
    if layer.merge_mode == "concat":
        last = axis_of(np.concatenate([first[-1].label(), second[-1].label()]))
    return [(*first[:-1], last), *states]


@rule("TimeDistributed")
def time_distributed(site: Site) -> Sequence[Tensor] | None:
    """A layer for every step."""
    seen = site.tensor()
    site.lock(seen[1], f"{site.name} takes it for steps")
    reads = {"inputs": (seen[0], *seen[2:])}
    shapes = [(shape[0], *shape[2:]) for shape in site.shapes]
    outputs = outputs_of(site.inside("layer", reads, shapes, steps=("layer",)))
    return [(tensor[0], Axis(seen[1].size), *tensor[1:]) for tensor in outputs]


# --- convolutional ---


@rule("ConvLSTM")
def conv_lstm(site: Site) -> Sequence[Tensor] | None:
    """A convolutional cell for every step."""
    layer, seen = site.layer, site.tensor()
    cell = layer.cell
    rank = cell.rank
    channels = seen[channel_axis(cell, rank)]
    out = site.make("", cell.filters)
    wide = _gates(out, 4)
    if getattr(layer, "stateful", False) or "initial_state" in site.reads:
        return None
    for name, axis in (("kernel", channels), ("recurrent_kernel", out)):
        around = _space(site, ("cell", name), rank)
        site.weight(("cell", name), *around, (axis, "read"), (wide, "made"))
    site.weight(("cell", "bias"), (wide, "made"))
    site.configure(filters=out)
    name = getattr(cell.activation, "__name__", "")
    if name not in KEEPING:
        why = f"a channel is not zero after the {name or 'activation'} of {site.name}"
        site.lose(out, why, mixes=False)
    for i, axis in enumerate(seen):
        if i and axis is not channels:
            site.positions(axis, axis.size)
    outputs: list[Tensor] = []
    for shape in site.shapes:
        axes = [*map(Axis, shape)]
        axes[channel_axis(cell, rank)] = out
        outputs.append(tuple(axes))
    return outputs


def _space(site: Site, role: tuple[str, ...], rank: int) -> list[tuple[Axis, Any]]:
    return [(Axis(size), "carried") for size in site.size_of(*role)[:rank]]
