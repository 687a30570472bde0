"""Recurrent layers, their cells, and layers around layers."""

from ramet.bridge.growth.axes import Axes, Part, agreed, crossed, joined
from ramet.bridge.growth.makers import channel_axis, kernel_space
from ramet.bridge.growth.site import Made, Rule, Site, Slots, made_of


def _gates(site: Site, count: int, out: Part) -> Part:
    """Returns gates side by side, each as wide as the output."""
    return crossed([site.fixed("gates", count), out])


def _lstm_cell(site: Site) -> Made:
    out = site.own("units", site.layer.units)
    gates = _gates(site, 4, out)
    seen = site.input(-1, site.size_of("kernel", 0))
    weights: dict[str, Slots] = {
        "kernel": (("in", seen), ("gates", gates)),
        "recurrent_kernel": (("out", out), ("gates", gates)),
        "bias": (("gates", gates),),
    }
    return Made(_step(site, out), weights, family="lstm")


def _gru_cell(site: Site) -> Made:
    out = site.own("units", site.layer.units)
    gates = _gates(site, 3, out)
    seen = site.input(-1, site.size_of("kernel", 0))
    both = [("both", site.fixed("biases", 2))] if site.layer.reset_after else []
    weights: dict[str, Slots] = {
        "kernel": (("in", seen), ("gates", gates)),
        "recurrent_kernel": (("out", out), ("gates", gates)),
        "bias": (*both, ("gates", gates)),
    }
    return Made(_step(site, out), weights, family="gru")


def _simple_cell(site: Site) -> Made:
    out = site.own("units", site.layer.units)
    seen = site.input(-1, site.size_of("kernel", 0))
    weights: dict[str, Slots] = {
        "kernel": (("in", seen), ("out", out)),
        "recurrent_kernel": (("out", out), ("out", out)),
        "bias": (("out", out),),
    }
    return Made(_step(site, out), weights, family="simple_rnn")


def _step(site: Site, out: Part) -> list[Axes]:
    """Returns the axes of one step of a cell."""
    axes = site.tensor()
    return [(axes[0] if axes else site.fixed("batch", None), out)]


def _stacked(site: Site) -> Made:
    """Cells on top of each other: each reads what the one before it makes."""
    reads, outputs = site.reads, list[Axes]()
    parts: dict[str, Site] = {}
    for number in range(len(site.layer.cells)):
        part = parts[f"cells.{number}"] = site.inside(f"cells.{number}", reads)
        outputs = made_of(part).outputs
        reads = {"x": outputs[0]} if outputs else None
    return Made(outputs, parts=parts)


def _rnn(site: Site) -> Made:
    axes = site.tensor()
    step = None if axes is None else {"x": (axes[0], *axes[2:])}
    cell = site.inside("cell", step)
    found = made_of(cell).outputs
    if axes is None or not found:
        return Made(parts={"cell": cell})
    out = found[0]
    first = (out[0], axes[1], *out[1:]) if site.layer.return_sequences else out
    return Made([first, *[out] * (len(site.shapes) - 1)], parts={"cell": cell})


def _conv_lstm_cell(site: Site) -> Made:
    layer, rank = site.layer, site.layer.rank
    out = site.own("filters", layer.filters)
    gates = _gates(site, 4, out)
    seen = site.input(channel_axis(layer, rank), site.size_of("kernel", -2))
    weights: dict[str, Slots] = {
        "kernel": (*kernel_space(site, rank, layer.padding), ("in", seen), ("gates", gates)),
        "recurrent_kernel": (*kernel_space(site, rank, "same"), ("out", out), ("gates", gates)),
        "bias": (("gates", gates),),
    }
    return Made(weights=weights, family=f"conv_lstm{rank}")


def _conv_lstm(site: Site) -> Made:
    axes = site.tensor()
    cell = site.inside("cell", None if axes is None else {"x": (axes[0], *axes[2:])})
    outputs: list[Axes] = []
    for shape in site.shapes if axes is not None else ():
        made = [site.places(axis) for axis in range(len(shape))]
        made[channel_axis(cell.layer, cell.layer.rank)] = cell.own("filters", cell.layer.filters)
        outputs.append(tuple(made))
    return Made(outputs, parts={"cell": cell})


def _bidirectional(site: Site) -> Made:
    layer = site.layer
    parts = {
        name: Site(part.layer, part.key, part.reads, site.shapes)
        for name in ("forward_layer", "backward_layer")
        for part in [site.inside(name, site.reads)]
    }
    both = [made_of(part).outputs for part in parts.values()]
    if layer.return_state or not all(both):
        return Made(parts=parts)
    if layer.merge_mode is None:
        return Made([both[0][0], both[1][0]], parts=parts)
    merge = joined if layer.merge_mode == "concat" else agreed
    first, second = both[0][0], both[1][0]
    return Made([(*first[:-1], merge([first[-1], second[-1]]))], parts=parts)


def _time_distributed(site: Site) -> Made:
    axes = site.tensor()
    inner = site.inside("layer", None if axes is None else {"x": (axes[0], *axes[2:])})
    shapes = tuple((shape[0], *shape[2:]) for shape in site.shapes)
    inner = Site(inner.layer, inner.key, inner.reads, shapes)
    found = made_of(inner).outputs
    outputs = [(out[0], axes[1], *out[1:]) for out in found] if axes is not None else []
    return Made(outputs, parts={"layer": inner})


def _spectral(site: Site) -> Made:
    part = site.inside("layer", site.reads)
    inner = Site(part.layer, part.key, part.reads, site.shapes)
    made = made_of(inner)
    # It tracks the weight of its layer that it divides as one of its own.
    names = [name for name in ("kernel", "embeddings") if name in made.weights]
    weights: dict[str, Slots] = {name: made.weights[name] for name in names}
    if names:
        weights["vector_u"] = (("one", site.fixed("one", 1)), made.weights[names[0]][-1])
    return Made(made.outputs, weights, {"layer": inner}, family="spectral")


RECURRENT: dict[str, Rule] = {
    "LSTMCell": _lstm_cell,
    "GRUCell": _gru_cell,
    "SimpleRNNCell": _simple_cell,
    "StackedRNNCells": _stacked,
    "ConvLSTMCell": _conv_lstm_cell,
    "ConvLSTM": _conv_lstm,
    "RNN": _rnn,
    "Bidirectional": _bidirectional,
    "TimeDistributed": _time_distributed,
    "SpectralNormalization": _spectral,
}
"""What recurrent layers of Keras's make, by class."""
