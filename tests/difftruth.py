"""Whether what a diff says is true of two live models, and whether nothing is left unsaid.

Nothing of ramet's is asked: layers are looked up by the paths that the lines name.
"""

import re
from collections import Counter
from typing import Any

import keras
import numpy as np

KNOWN = {
    "added", "removed", "replaced", "renamed", "class", "config", "shape", "weights",
    "arguments", "sharing", "masks", "inputs", "outputs", "inlined", "wrapped",
}  # fmt: skip


def layers_of(model: Any, prefix: str = "") -> dict[str, Any]:
    """The layers and operations of a model by path, those of nested models too."""
    found = {}
    for layer in (getattr(model, "_functional", None) or model).operations:
        found[prefix + layer.name] = layer
        if is_model(layer):
            found |= layers_of(layer, f"{prefix}{layer.name}/")
    return found


def is_model(layer: Any) -> bool:
    return isinstance(layer, keras.Model)


def is_counted(layer: Any) -> bool:
    """Whether a layer is none of the operations that Keras adds for masks, with their names."""
    name = re.sub(r"(_\d+)+$", "", layer.name).replace("_", "")
    return isinstance(layer, keras.Layer) or name != type(layer).__name__.lower()


def plain(path: str) -> str:
    """The path of a call's layer."""
    return re.sub(r"#\d+", "", path)


def values(layer: Any) -> list[Any]:
    return [np.asarray(keras.ops.convert_to_numpy(v.value)) for v in getattr(layer, "weights", ())]


def setting(layer: Any) -> str:
    if not isinstance(layer, keras.Layer) or is_model(layer):
        return ""
    config = keras.saving.serialize_keras_object(layer)["config"]
    return re.sub(r"'trainable': (True|False)", "", str({**config, "name": ""}))


class Truth:
    """Judges the lines of one diff."""

    def __init__(self, first: Any, second: Any, entries: Any) -> None:
        self.entries = [*entries]
        self.models = first, second
        self.layers = [layers_of(model) for model in (first, second)]
        self.kinds = Counter(entry.kind for entry in self.entries)

    def check(self, *, names: bool = True) -> None:
        """Judges the lines, and with `names`, for models whose names persist, what they leave."""
        assert {*self.kinds} <= KNOWN
        for entry in self.entries:
            getattr(self, f"check_{entry.kind}", self.check_place)(entry)
        if names and not self.kinds.keys() & {"inlined", "wrapped", "sharing"}:
            self.check_names()

    # --- each line

    def layer(self, side: int, path: str, entry: Any) -> Any:
        assert plain(path) in self.layers[side], f"no '{path}' in model {side + 1}: {entry}"
        return self.layers[side][plain(path)]

    def check_place(self, entry: Any) -> None:
        if entry.where not in ("inputs", "outputs", self.models[0].name) and not (
            entry.where.endswith(("/inputs", "/outputs"))
        ):
            self.layer(0, entry.where, entry)

    def check_alone(self, entry: Any, side: int) -> None:
        layer = self.layer(side, entry.where, entry)
        kind = entry.text.partition("a call of ")[2]
        if not kind:
            assert entry.text in ("input", type(layer).__name__), f"{entry}: {type(layer)}"

    def check_added(self, entry: Any) -> None:
        self.check_alone(entry, 1)

    def check_removed(self, entry: Any) -> None:
        self.check_alone(entry, 0)

    def check_wrapped(self, entry: Any) -> None:
        self.layer(1, entry.where, entry)

    def twin(self, entry: Any, new: str) -> Any:
        """The layer of the second model that a line names, behind the models around it."""
        names = [path for path in self.layers[1] if path == new or path.endswith(f"/{new}")]
        assert names, f"no '{new}' in the second model: {entry}"
        return self.layers[1][names[0]]

    def check_renamed(self, entry: Any) -> None:
        old = self.layer(0, entry.where, entry)
        (new,) = re.fullmatch("now '(.*)'", entry.text).groups()
        twin = self.twin(entry, new)
        assert old.name != twin.name, entry
        assert type(old) is type(twin) or is_model(old), entry

    def check_replaced(self, entry: Any) -> None:
        old = self.layer(0, entry.where, entry)
        kinds = re.match(r"(\S+) by (\S+) '([^']*)'", entry.text).groups()
        new = self.twin(entry, kinds[2])
        assert kinds[:2] == (type(old).__name__, type(new).__name__), entry
        assert type(old) is not type(new) or setting(old) != setting(new), entry

    def check_weights(self, entry: Any) -> None:
        layer = self.layer(0, entry.where, entry)
        names = [variable.path.rpartition("/")[2] for variable in layer.weights]
        for text in entry.text.split("; "):
            name = text.partition(" ")[0].rpartition(".")[2]
            assert name in names or name == "variable", f"{entry}: {names}"
        which = re.search("in '([^']*)'$", entry.text)
        now = which[1] if which else self.now().get(plain(entry.where), "")
        twin = self.layers[1].get(now)
        if twin is not None:
            pairs = zip(values(layer), values(twin), strict=False)
            assert not all(np.array_equal(x, y, equal_nan=True) for x, y in pairs), entry

    # --- all lines together

    def now(self) -> dict[str, str]:
        """The paths of the first model's layers in the second, as the lines have it."""
        names = {}
        for entry in self.entries:
            match = re.search("^now '(.*)'|^\\S+ by \\S+ '([^']*)'", entry.text)
            if entry.kind in ("renamed", "replaced") and match:
                live = self.layers[0].get(entry.where)
                for path, layer in self.layers[0].items():
                    if layer is live:  # It may be used inside of a model and beside it.
                        names[path] = match[1] or match[2]
        alone = [entry for entry in self.entries if not entry.text.startswith("a call of")]
        gone = {entry.where for entry in alone if entry.kind == "removed"}
        found = {}
        for path in self.layers[0]:
            parts = path.split("/")
            starts = ["/".join(parts[: size + 1]) for size in range(len(parts))]
            if not gone.intersection(starts):
                found[path] = "/".join(names.get(s, p) for s, p in zip(starts, parts, strict=True))
        return found

    def is_told(self, path: str, known: dict[str, Any]) -> bool:
        layers = [side[path] for side in (known, self.layers[1]) if path in side]
        return not layers or any(map(is_counted, layers))

    def check_names(self) -> None:
        """What is said, done to the names of the first model, gives those of the second."""
        now = self.now()
        added = {entry.where for entry in self.entries if entry.kind == "added"}
        new = {plain(path) for path in added}
        new |= {path for path in self.layers[1] if any(path.startswith(f"{n}/") for n in new)}
        models = {e.where for e in self.entries if e.kind == "replaced"}
        kept = {
            old: path
            for old, path in now.items()
            if not any(old.startswith(f"{model}/") for model in models)
        }
        there = {
            path
            for path in self.layers[1]
            if not any(path.startswith(f"{now[model]}/") for model in models if model in now)
        }
        known = {path: self.layers[0][old] for old, path in kept.items()}
        wrong = {p for p in ({*kept.values()} | new) ^ there if self.is_told(p, known)}
        assert not wrong, f"{wrong} after {self.entries}"
        told = {entry.where for entry in self.entries}
        for old, path in kept.items():
            a, b = self.layers[0][old], self.layers[1].get(path)
            if path not in self.layers[1] or old in told or is_model(a):
                continue
            assert type(a) is type(b), f"{old} is of another class, which no line says"
            if "/" in old and isinstance(a, keras.layers.InputLayer):
                continue  # It has the shape that the model is called on.
            assert setting(a) == setting(b), f"{old} has another config, which no line says"
            pairs = [
                (x, y) for x, y in zip(values(a), values(b), strict=False) if x.shape == y.shape
            ]
            same = all(np.array_equal(x, y, equal_nan=True) for x, y in pairs)
            assert same, f"{old} has other weights, which no line says"
