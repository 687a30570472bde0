"""Recurrent layers, their cells, and layers around layers."""

from ramet.building.growth.axes import Axes, Part, agreed, crossed, joined
from ramet.building.growth.makers import channel_axis, kernel_space
from ramet.building.growth.site import Meaning, Rule, Site, Slots, meaning_of


def _gates(site: Site, count: int, out: Part) -> Part:
    """Return gates side by side, each as wide as the output."""
    return crossed([site.fixed("gates", count), out])


def _lstm_cell(site: Site) -> Meaning:
    out = site.own("units", site.layer.units)
    gates = _gates(site, 4, out)
    seen = site.input(-1, site.size_of("kernel", 0))
    weights: dict[str, Slots] = {
        "kernel": (("in", seen), ("gates", gates)),
        "recurrent_kernel": (("out", out), ("gates", gates)),
        "bias": (("gates", gates),),
    }
    return Meaning(_step(site, out), weights, family="lstm")


def _gru_cell(site: Site) -> Meaning:
    out = site.own("units", site.layer.units)
    gates = _gates(site, 3, out)
    seen = site.input(-1, site.size_of("kernel", 0))
    both = [("both", site.fixed("biases", 2))] if site.layer.reset_after else []
    weights: dict[str, Slots] = {
        "kernel": (("in", seen), ("gates", gates)),
        "recurrent_kernel": (("out", out), ("gates", gates)),
        "bias": (*both, ("gates", gates)),
    }
    return Meaning(_step(site, out), weights, family="gru")


def _simple_cell(site: Site) -> Meaning:
    out = site.own("units", site.layer.units)
    seen = site.input(-1, site.size_of("kernel", 0))
    weights: dict[str, Slots] = {
        "kernel": (("in", seen), ("out", out)),
        "recurrent_kernel": (("out", out), ("out", out)),
        "bias": (("out", out),),
    }
    return Meaning(_step(site, out), weights, family="simple_rnn")


def _step(site: Site, out: Part) -> list[Axes]:
    """Return the axes of one step of a cell."""
    axes = site.tensor()
    return [(axes[0] if axes else site.fixed("batch", None), out)]


def _stacked(site: Site) -> Meaning:
    """Stacked cells: the input of each is the output of the one before it."""
    reads, outputs = site.reads, list[Axes]()
    parts: dict[str, Site] = {}
    for number in range(len(site.layer.cells)):
        part = parts[f"cells.{number}"] = site.inside(f"cells.{number}", reads)
        outputs = meaning_of(part).outputs
        reads = {"x": outputs[0]} if outputs else None
    return Meaning(outputs, parts=parts)


def _rnn(site: Site) -> Meaning:
    axes = site.tensor()
    step = None if axes is None else {"x": (axes[0], *axes[2:])}
    cell = site.inside("cell", step)
    outputs = meaning_of(cell).outputs
    if axes is None or not outputs:
        return Meaning(parts={"cell": cell})
    out = outputs[0]
    first = (out[0], axes[1], *out[1:]) if site.layer.return_sequences else out
    return Meaning([first, *[out] * (len(site.shapes) - 1)], parts={"cell": cell})


def _conv_lstm_cell(site: Site) -> Meaning:
    layer, rank = site.layer, site.layer.rank
    out = site.own("filters", layer.filters)
    gates = _gates(site, 4, out)
    seen = site.input(channel_axis(layer, rank), site.size_of("kernel", -2))
    weights: dict[str, Slots] = {
        "kernel": (*kernel_space(site, rank, layer.padding), ("in", seen), ("gates", gates)),
        "recurrent_kernel": (*kernel_space(site, rank, "same"), ("out", out), ("gates", gates)),
        "bias": (("gates", gates),),
    }
    return Meaning(weights=weights, family=f"conv_lstm{rank}")


def _conv_lstm(site: Site) -> Meaning:
    axes = site.tensor()
    cell = site.inside("cell", None if axes is None else {"x": (axes[0], *axes[2:])})
    outputs: list[Axes] = []
    for shape in site.shapes if axes is not None else ():
        output = [site.places(axis) for axis in range(len(shape))]
        output[channel_axis(cell.layer, cell.layer.rank)] = cell.own("filters", cell.layer.filters)
        outputs.append(tuple(output))
    return Meaning(outputs, parts={"cell": cell})


def _bidirectional(site: Site) -> Meaning:
    layer = site.layer
    parts = {
        name: Site(part.layer, part.key, part.reads, site.shapes)
        for name in ("forward_layer", "backward_layer")
        for part in [site.inside(name, site.reads)]
    }
    both = [meaning_of(part).outputs for part in parts.values()]
    if layer.return_state or not all(both):
        return Meaning(parts=parts)
    if layer.merge_mode is None:
        return Meaning([both[0][0], both[1][0]], parts=parts)
    merge = joined if layer.merge_mode == "concat" else agreed
    first, second = both[0][0], both[1][0]
    return Meaning([(*first[:-1], merge([first[-1], second[-1]]))], parts=parts)


def _time_distributed(site: Site) -> Meaning:
    axes = site.tensor()
    inner = site.inside("layer", None if axes is None else {"x": (axes[0], *axes[2:])})
    shapes = tuple((shape[0], *shape[2:]) for shape in site.shapes)
    inner = Site(inner.layer, inner.key, inner.reads, shapes)
    inside = meaning_of(inner).outputs
    outputs = [(out[0], axes[1], *out[1:]) for out in inside] if axes is not None else []
    return Meaning(outputs, parts={"layer": inner})


def _spectral(site: Site) -> Meaning:
    part = site.inside("layer", site.reads)
    inner = Site(part.layer, part.key, part.reads, site.shapes)
    meaning = meaning_of(inner)
    # It tracks the weight of the inner layer that it normalizes as one of its own.
    names = [name for name in ("kernel", "embeddings") if name in meaning.weights]
    weights: dict[str, Slots] = {name: meaning.weights[name] for name in names}
    if names:
        weights["vector_u"] = (("one", site.fixed("one", 1)), meaning.weights[names[0]][-1])
    return Meaning(meaning.outputs, weights, {"layer": inner}, family="spectral")


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
"""Rules for recurrent layers and wrappers, by class."""
