"""What a diff has to list, told by two plans and the history of every call.

Plans are of `programplans`. Each call knows which call of the first plan it was (its trail), so
nothing has to be aligned here: what is expected follows from what was done.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np

from programplans import INITIALIZED, Layer, Net, T, nets

Line = tuple[str, str]
"""The kind of an entry, and where; for `sharing` just that there is one."""
ANYWHERE: Any = object()


def mark(root: Net) -> None:
    """Notes in every call of a plan which call it is."""
    for _, net in nets(root):
        for name, call in net.calls.items():
            call.trail = (name,)


@dataclass(eq=False)
class Step:
    """A call of a plan, those of models that were inlined in their place."""

    key: str
    """Path of the layer."""
    path: str
    """Path of the call."""
    layer: Layer
    reads: list[tuple[Any, int]]
    """The steps or names of inputs that make the tensors it reads, and which of their outputs."""
    words: tuple[str, ...]
    """Names of its keyword arguments."""
    trail: tuple[str, ...]


@dataclass
class Flat:
    """The steps of a plan, and the tensors by their makers."""

    steps: list[Step] = field(default_factory=list)
    tensors: dict[T, tuple[Any, int]] = field(default_factory=dict)


def flat(net: Net, opened: set[tuple[str, ...]], around=((), "", ""), starts=None) -> Flat:
    """Returns the steps of a plan, behind the trail, the key and the path of a call around it."""
    trail, key, path = around
    found = Flat()
    found.tensors = {T(name): (name, 0) for name in net.inputs} if starts is None else dict(starts)
    for name in in_turn(net):
        call = net.calls[name]
        layer = net.layers[call.layer]
        mine = (*trail, *call.trail)
        reads = [found.tensors[t] for t in call.tensors()]
        if layer.net is not None and mine in opened:
            inner = layer.net
            given = dict(zip((T(start) for start in inner.inputs), reads, strict=True))
            around = mine, f"{key}{call.layer}/", f"{path}{name}/"
            inside = flat(inner, opened, around, given)
            found.steps += inside.steps
            ends = keras.tree.flatten(inner.outputs)
            found.tensors |= {T(name, i): inside.tensors[t] for i, t in enumerate(ends)}
            continue
        words = tuple(sorted(call.kwargs))
        step = Step(f"{key}{call.layer}", f"{path}{name}", layer, reads, words, mine)
        found.steps.append(step)
        found.tensors |= {T(name, i): (step, i) for i in range(8)}
    return found


def in_turn(net: Net) -> list[str]:
    waiting, done = net.needed(), {*net.inputs}
    order = []
    while waiting:
        name = next(n for n in waiting if all(t.call in done for t in net.calls[n].tensors()))
        order.append(name)
        done.add(name)
        waiting.remove(name)
    return order


class Expected:
    """The lines that a diff of two models has to have."""

    def __init__(self, before: Net, after: Net, first: Any, second: Any) -> None:
        self.models = first, second
        self.lines: Counter[Line] = Counter()
        self.flips: list[tuple[str, bool, bool, bool, bool]] = []
        self.members: list[tuple[int, int]] = []
        self.met: set[tuple[int, int]] = set()
        self.compared: set[tuple[int, int]] = set()
        if type(first).__name__ != type(second).__name__:
            self.add("class", first.name)
        self.level(before, after, ("", ""), split=False)
        self.flags(first.name)
        self.sharing()

    def add(self, kind: str, where: str) -> None:
        """Adds a line; a model that is two now is compared with both, and said once."""
        self.lines[kind, where] = self.lines[kind, where] + 1 if kind == "sharing" else 1

    def level(self, before: Net, after: Net, prefixes: tuple[str, str], *, split: bool) -> None:
        if (before.uid, after.uid) in self.met:
            return
        self.met.add((before.uid, after.uid))
        trails = [after.calls[name].trail for name in after.needed()]
        opened = {trail[:size] for trail in trails for size in range(1, len(trail))}
        old, new = flat(before, opened), flat(after, set())
        by_trail = {step.trail: step for step in old.steps}
        pairs = [(by_trail[s.trail], s) for s in new.steps if s.trail in by_trail]
        for key in {inlined_key(before, trail) for trail in opened}:
            self.add("inlined", prefixes[0] + key)
        one, two = ({id(pair[side]) for pair in pairs} for side in (0, 1))
        self.missing("removed", prefixes[0], old.steps, one)
        self.missing("added", prefixes[1], new.steps, two)
        self.inputs(before, after, prefixes[0])
        self.layers(pairs, prefixes, split=split)
        self.wiring((before, after), prefixes[0], (old, new), pairs)
        for a, b in {(id(a.layer), id(b.layer)): (a, b) for a, b in pairs}.values():
            if a.layer.net is not None and b.layer.net is not None:
                inner = f"{prefixes[0]}{a.key}/", f"{prefixes[1]}{b.key}/"
                apart = split or self.is_apart(a, b, pairs)
                self.level(a.layer.net, b.layer.net, inner, split=apart)

    def is_apart(self, a: Step, b: Step, pairs: list[tuple[Step, Step]]) -> bool:
        """Whether calls of one layer are of several now, or the other way round."""
        with_a = {y.key for x, y in pairs if x.key == a.key}
        with_b = {x.key for x, y in pairs if y.key == b.key}
        return len(with_a) > 1 or len(with_b) > 1

    def missing(self, kind: str, prefix: str, steps: list[Step], paired: set[int]) -> None:
        known = {step.key for step in steps if id(step) in paired}
        alone = [step for step in steps if id(step) not in paired]
        for step in alone:
            if step.key in known:
                self.add(kind, prefix + step.path)
        for key in {step.key for step in alone} - known:
            self.add(kind, prefix + key)

    def inputs(self, before: Net, after: Net, prefix: str) -> None:
        for (name, port), (now, other) in zip(
            before.inputs.items(), after.inputs.items(), strict=True
        ):
            renamed, changed = name != now, port.shape != other.shape
            if renamed and changed:
                self.add("replaced", prefix + name)
            elif renamed or changed:
                self.add("renamed" if renamed else "config", prefix + name)

    def layers(self, pairs, prefixes, *, split: bool) -> None:
        counts = Counter((a.key, b.key) for a, b in pairs)
        steps = {(a.key, b.key): (a, b) for a, b in reversed(pairs)}
        primary, met = [], (set(), set())

        def rank(keys: tuple[str, str]) -> tuple[bool, bool, int]:
            return keys[0] != keys[1], keys[0].replace("/", "_") != keys[1], -counts[keys]

        for keys in sorted(counts, key=rank):
            if keys[0] not in met[0] and keys[1] not in met[1]:
                met[0].add(keys[0])
                met[1].add(keys[1])
                primary.append(steps[keys])
        for a, b in primary:
            uids = a.layer.uid, b.layer.uid
            if uids not in self.compared:  # It may be used inside of a model and beside it.
                self.compared.add(uids)
                self.layer(a, b, prefixes)
        if not split:
            self.members += [(a.layer.uid, b.layer.uid) for a, b in pairs]

    def layer(self, a: Step, b: Step, prefixes: tuple[str, str]) -> None:
        where = prefixes[0] + a.key
        old, new = a.layer, b.layer
        name = a.key.replace("/", "_")
        is_renamed = b.key not in (a.key, name)
        if "/" in a.key and b.key.rpartition("_")[0] == name:
            is_renamed = False  # It got a number where its model was inlined.
        if (old.net is None) != (new.net is None) or (old.net is None and old.kind != new.kind):
            self.add("replaced", where)
            return
        if old.is_operation:
            if is_renamed:
                self.add("renamed", where)
            return
        live = [
            at(model, p + s.key) for model, p, s in zip(self.models, prefixes, (a, b), strict=True)
        ]
        if old.net is not None and type(live[0]) is not type(live[1]):
            self.add("class", where)
        config = settings(old) != settings(new)
        values, alike = (False, False) if old.net is not None else compared(*live)
        if is_renamed and config and not alike:
            self.add("replaced", where)
            return
        if is_renamed:
            self.add("renamed", where)
        has_weights, is_model = bool(live[0].weights), old.net is not None
        flip = where, live[0].trainable, live[1].trainable, has_weights, is_model
        if config:
            self.add("config", where)
        self.flips.append((*flip, config))
        if values and not config:
            self.add("weights", where)

    def wiring(self, plans, prefix: str, flats: tuple[Flat, Flat], pairs) -> None:
        before, after = plans
        inputs = dict(zip(after.inputs, before.inputs, strict=True))
        partners = {id(b): a for a, b in pairs}
        firsts = {id(a) for a, _ in pairs}

        def settle(tensor, side):
            maker, index = tensor
            known = partners if side else firsts
            past = not isinstance(maker, str) and id(maker) not in known
            while not isinstance(maker, str) and id(maker) not in (partners if side else firsts):
                if len(maker.reads) != 1:
                    return ANYWHERE
                ((maker, index),) = maker.reads
            if isinstance(maker, str):
                return (inputs[maker] if side else maker), index, past
            return id(partners[id(maker)] if side else maker), index, past

        def same(mine, theirs):
            mapped = [settle(t, 0) for t in mine], [settle(t, 1) for t in theirs]
            return len(mine) == len(theirs) and all(
                x is ANYWHERE or y is ANYWHERE or x[:2] == y[:2] or (x[2] and y[2])
                for x, y in zip(*mapped, strict=True)
            )

        for a, b in pairs:
            if not same(a.reads, b.reads) or (a.layer.kind == b.layer.kind and a.words != b.words):
                self.add("arguments", prefix + a.path)
        ends = [
            [flat_.tensors[t] for t in keras.tree.flatten(net.outputs)]
            for flat_, net in zip(flats, plans, strict=True)
        ]
        kinds = [
            sorted(net.outputs) if isinstance(net.outputs, dict) else type(net.outputs).__name__
            for net in (before, after)
        ]
        if kinds[0] != kinds[1] or not same(*ends):
            self.add("outputs", prefix + "outputs")

    def flags(self, name: str) -> None:
        """Adds a line for what was frozen at once, and one for each other layer."""
        listed: list[tuple[str, bool]] = []
        models = [("", None), *((f"{f[0]}/", f) for f in self.flips if f[4])]
        for prefix, own in models:
            if any(prefix.startswith(known) for known, _ in listed):
                continue
            inside = [f for f in self.flips if f[0].startswith(prefix) and not f[4]]
            flipped = [f for f in inside if f[1] != f[2]]
            inner = [p for p, _ in models if p != prefix and p.startswith(prefix)]
            if flipped and any(all(f[0].startswith(p) for f in flipped) for p in inner):
                continue
            states = {f[2] for f in inside if f[3]} | {f[2] for f in flipped}
            many = len(flipped) > 1 or (own is not None and own[1] != own[2] and flipped)
            if many and len(states) == 1:
                listed.append((prefix, states.pop()))
                self.add("config", prefix[:-1] or name)
        for where, old, new, _, _, config in self.flips:
            if old == new or config:
                continue
            if not any(f"{where}/".startswith(p) and new == state for p, state in listed):
                self.add("config", where)

    def sharing(self) -> None:
        """Adds a line for every group of layers that became others."""
        groups: dict[Any, set[Any]] = {}
        for a, b in self.members:
            whole = groups.get((0, a), {(0, a)}) | groups.get((1, b), {(1, b)})
            groups |= dict.fromkeys(whole, whole)
        for group in {id(g): g for g in groups.values()}.values():
            if len(group) > 2:
                self.add("sharing", "")


def settings(layer: Layer) -> Any:
    """What is in the config of a layer."""
    kind, *_ = layer.options.get("wrapped", (layer.kind,))
    is_initialized = kind in INITIALIZED or "Block" in kind
    return layer.options, layer.init if is_initialized else 0


def inlined_key(net: Net, trail: tuple[str, ...]) -> str:
    keys = []
    for name in trail:
        keys.append(net.calls[name].layer)
        net = net.layers[keys[-1]].net
    return "/".join(keys)


def at(model: Any, path: str) -> Any:
    for name in path.split("/"):
        model = next(layer for layer in model.layers if layer.name == name)
    return model


def compared(first: Any, second: Any) -> tuple[bool, bool]:
    """Whether values of one shape differ, and whether any that tell agree."""
    differ, alike = False, False
    if len(first.weights) != len(second.weights):
        return True, False
    for a, b in zip(first.weights, second.weights, strict=True):
        x, y = (np.array(keras.ops.convert_to_numpy(v.value)) for v in (a, b))
        if x.shape == y.shape:
            differ = differ or not np.array_equal(x, y)
            alike = alike or (np.array_equal(x, y) and bool((x != x.flat[0]).any()))
    return differ, alike


def lines_of(entries: Any) -> Counter[Line]:
    lines = Counter({(e.kind, e.where) for e in entries if e.kind != "sharing"})
    sharing = sum(e.kind == "sharing" for e in entries)
    return lines + Counter({("sharing", ""): sharing})
