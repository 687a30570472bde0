"""Edits written as text, such as `replace` with `relu*=keras.layers.PReLU()`."""

from collections.abc import Callable
from typing import TypeAlias

from ramet.cli.written_layers import LayerText, read_arguments, read_layer
from ramet.errors import OptionError
from ramet.files.words import one_line
from ramet.graph import Graph, Selection
from ramet.graph.names import counted

Change: TypeAlias = Callable[[Graph], Graph]
"""An edit, parsed."""

_QUOTED = 60
"""How many characters of an edit a message quotes."""


def read(how: str, text: str) -> Change:
    """Parse an edit.

    Args:
        how: The type of edit: one of `HOWS`.
        text: Where and what.

    Raises:
        OptionError: If it cannot be parsed; the message quotes it.
    """
    try:
        return HOWS[how](text)
    except OptionError as error:
        quoted = f"--{how.replace('_', '-')} '{one_line(text, _QUOTED)}'"
        raise OptionError(f"{quoted}: {error}") from error


def _replace(text: str) -> Change:
    glob, layer = _layer_at(text)

    def change(graph: Graph) -> Graph:
        at = _places(graph, glob)
        return graph.replace(at, _maker(layer, len(at) if isinstance(at, Selection) else 1))

    return change


def _insert_after(text: str) -> Change:
    glob, layer = _layer_at(text)

    def change(graph: Graph) -> Graph:
        at = _places(graph, glob)
        return graph.insert_after(at, _maker(layer, _count_calls(at)))

    return change


def _insert_before(text: str) -> Change:
    glob, layer = _layer_at(text)

    def change(graph: Graph) -> Graph:
        at = _places(graph, glob)
        return graph.insert_before(at, _maker(layer, _count_calls(at)))

    return change


def _insert_on(text: str) -> Change:
    where, layer = _layer_at(text)
    call, argument = _argument_of(where)
    return lambda graph: graph.insert_on(call, argument, layer.make())


def _remove(text: str) -> Change:
    glob = text.strip()
    return lambda graph: graph.remove(_places(graph, glob))


def _rename(text: str) -> Change:
    old, new = _halves(text, "=", "OLD=NEW")
    return lambda graph: graph.rename({old: new})


def _configure(text: str) -> Change:
    glob, written = _halves(text, ":", "GLOB:key=value,key=value")
    changes = read_arguments(written)
    return lambda graph: graph.configure(_places(graph, glob), **changes)


def _freeze(text: str) -> Change:
    glob = text.strip()
    return lambda graph: graph.freeze(None if glob == "*" else _places(graph, glob))


def _unfreeze(text: str) -> Change:
    glob = text.strip()
    return lambda graph: graph.unfreeze(None if glob == "*" else _places(graph, glob))


def _flatten(text: str) -> Change:
    name = text.strip()
    return lambda graph: graph.flatten(None if name == "*" else name)


def _prefix(text: str) -> Change:
    return lambda graph: graph.prefix(text.strip())


def _share(text: str) -> Change:
    first, others = _halves(text, "=", "FIRST=OTHER,OTHER")
    return lambda graph: graph.share(first, *_listed(others))


def _unshare(text: str) -> Change:
    glob = text.strip()
    return lambda graph: graph.unshare(_places(graph, glob))


def _rewire(text: str) -> Change:
    where, tensor = _halves(text, "=", "CALL=TENSOR or CALL:ARGUMENT=TENSOR")
    call, argument = _argument_of(where)
    return lambda graph: graph.rewire(call, argument, tensor)


def _add_output(text: str) -> Change:
    return lambda graph: graph.add_output(text.strip())


def _extract(text: str) -> Change:
    places = _listed(text)
    return lambda graph: graph.extract(outputs=places if len(places) > 1 else places[0])


def _inputs(text: str) -> Change:
    options = read_arguments(text)
    return lambda graph: graph.with_inputs(**options)


HOWS: dict[str, Callable[[str], Change]] = {
    "replace": _replace,
    "remove": _remove,
    "insert_after": _insert_after,
    "insert_before": _insert_before,
    "insert_on": _insert_on,
    "rename": _rename,
    "configure": _configure,
    "freeze": _freeze,
    "unfreeze": _unfreeze,
    "flatten": _flatten,
    "prefix": _prefix,
    "share": _share,
    "unshare": _unshare,
    "rewire": _rewire,
    "add_output": _add_output,
    "extract": _extract,
    "inputs": _inputs,
}
"""The edits that can be written, by the names of their options."""


def _halves(text: str, sign: str, form: str) -> tuple[str, str]:
    first, separator, second = (part.strip() for part in text.partition(sign))
    if not (first and separator and second):
        raise OptionError(f"it does not have the form {form}")
    return first, second


def _listed(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise OptionError("it does not have the form NAME,NAME")
    return names


def _argument_of(text: str) -> tuple[str, int | str]:
    """Return the call and the argument in CALL:ARGUMENT; the first without one."""
    call, _, argument = text.partition(":")
    return call, int(argument) if argument.isdecimal() else argument or 0


def _layer_at(text: str) -> tuple[str, LayerText]:
    glob, layer = _halves(text, "=", "GLOB=LAYER")
    return glob, read_layer(layer)


def _places(graph: Graph, glob: str) -> "str | Selection":
    """Return the layers that match a glob; a plain text may also be a place, such as `conv#2`."""
    selection = graph.select(name=glob)
    return selection if len(selection) or any(sign in glob for sign in "*?[") else glob


def _count_calls(at: "str | Selection") -> int:
    return len(at.calls()) if isinstance(at, Selection) else 1


def _maker(layer: LayerText, count: int) -> Callable[[object], object]:
    """Return a function that creates the layer, a new one for each place."""
    if layer.named and count > 1:
        message = (
            f"cannot use one name at {counted(count, 'place')}: '{layer.text}'; "
            "leave name=... out, or narrow the glob"
        )
        raise OptionError(message)
    return lambda _: layer.make()
