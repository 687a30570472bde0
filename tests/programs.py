"""Random programs of edits over random models, and a judge of what ramet makes of them.

A program is a model (a plan, see `programplans`) and some edits (see `programedits`), all
plain data. `play` makes the edits on the plan and on a ramet graph; `judge` compares
what ramet builds with the plan's layers called by hand.
"""

import collections
import copy
import dataclasses
import functools
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
from keras import ops

import ramet
from programedits import (
    EDITS,
    Choices,
    Edit,
    New,
    NothingThereError,
    State,
    find,
    is_bool,
    is_int,
    keeping,
    rnn_options,
)
from programplans import (
    STEPS,
    WIDTH,
    ByHand,
    Call,
    Hand,
    Invalid,
    Layer,
    Net,
    Port,
    T,
    batch,
    live_layers,
    make_model,
    nets,
    random_weights,
    reachable,
    trained,
    unified,
)

__all__ = ["Call", "Edit", "Layer", "Net", "New", "Port", "Program", "T", "replay"]

BATCHES = ((0, 4), (2, 4))
"""All rows, one of which is masked as a whole; those of which none is."""

# --- drawing models ------------------------------------------------------------------


class Drafter:
    """Draws a plan: each call is made by hand as soon as it is drawn, so shapes are known."""

    def __init__(self, choose: Choices, hand: Hand, names: list[int], depth: int = 0) -> None:
        self.choose = choose
        self.hand = hand
        self.names = names
        self.depth = depth
        self.net = Net("net", {}, {}, {}, None)
        self.values: dict[T, Any] = {}

    def name(self, base: str) -> str:
        self.names[0] += 1
        return f"{base}{self.names[0]}"

    def add_input(self, name: str, data: str, value: Any) -> None:
        shape = tuple(value.shape[1:])
        self.net.inputs[name] = Port(shape, data, name)
        self.values[T(name)] = value

    def add(self, kind: str, options: dict[str, Any], *args: Any, net=None, **kwargs: Any):
        """Adds a layer and its first call; returns its outputs, none if it cannot be called."""
        base = {"Functional": "model", "Plain": "model", "Sequential": "chain"}.get(kind, kind)
        key = self.name(base.lower())
        layer = Layer(kind, options, self.names[0] * 10, net)
        if net is not None:
            net.name, net.kind = key, kind
        self.net.layers[key] = layer
        return self.call(key, args, kwargs)

    def call(self, key: str, args: Any, kwargs: Any) -> list[T]:
        """Adds a call of a layer."""
        calls = len(self.net.calls_of(key))
        name = key if not calls else f"{key}#{calls + 1}"
        self.net.calls[name] = Call(key, [*args], kwargs)
        try:
            found = self.hand.call(self.net, name, self.values)
        except Exception:  # noqa: BLE001  whatever Keras raises
            del self.net.calls[name]
            self.net.forget_unused()
            return []
        tensors = [T(name, index) for index in range(len(found))]
        self.values |= zip(tensors, found, strict=True)
        return tensors

    def latest(self, rank: int) -> list[T]:
        """Lists the tensors of real numbers and of a rank, the latest first."""
        found = [t for t, v in self.values.items() if len(v.shape) == rank]
        return [t for t in reversed(found) if self.is_open(t)]

    def is_open(self, tensor: T) -> bool:
        value = self.values[tensor]
        call = self.net.calls.get(tensor.call)
        private = call is not None and "for_attention" in self.net.layers[call.layer].options
        return not (is_int(value) or is_bool(value) or private)

    # --- what can be added

    def unary(self) -> None:
        x = self.choose.pick(self.latest(3) or self.latest(2))
        kinds = keeping(self.values[x])
        if len(self.values[x].shape) == 3:
            kinds += [
                ("LSTM", rnn_options(WIDTH, sequences=False)),
                ("GlobalAveragePooling1D", {}),
                ("MaskedMean", {}),
                ("MaxPooling1D", {"pool_size": 2}),
                ("EverySecond", {}),
                ("TwoViews", {}),
                ("TwoMasks", {}),
            ]
        kind, options = self.choose.pick(kinds)
        self.add(kind, options, x)

    def operation(self) -> None:
        x = self.choose.pick(self.latest(3) + self.latest(2))
        rank = len(self.values[x].shape)
        kind = self.choose.pick(["relu", "plus", "times", *(["later", "flip"] * (rank == 3))])
        self.add(kind, {}, x)

    def recurrent(self) -> None:
        """Draws a layer that uses masks, maybe one that the author passes."""
        if not self.latest(3):
            return
        x = self.choose.pick(self.latest(3))
        kind = self.choose.pick(["SimpleRNN", "SimpleRNN", "GRU", "LSTM"])
        options = rnn_options(WIDTH, sequences=self.choose.flag())
        extra = {}
        if self.choose.flag(4) and "tokens" in self.net.inputs:
            found = self.add("is_known", {}, T("tokens"))
            extra = {"mask": found[0]}
        elif self.choose.flag(4):
            options["return_state"] = True
        if not self.add(kind, options, x, **extra) and extra:
            self.net.calls.popitem()
            self.net.forget_unused()

    def wrapped(self) -> None:
        if self.latest(3):
            options = {"wrapped": ("SimpleRNN", rnn_options(WIDTH, sequences=self.choose.flag()))}
            self.add("Bidirectional", options, self.choose.pick(self.latest(3)))

    def merge(self) -> None:
        rank = self.choose.pick([3, 2])
        if self.latest(rank):
            pair = [self.choose.pick(self.latest(rank)) for _ in range(2)]
            kind = self.choose.pick(["Add", "Concatenate", "Multiply", "minus"])
            self.add(kind, {}, *(pair if kind == "minus" else [pair]))

    def attend(self) -> None:
        """Draws attention on tensors that nothing else reads.

        MultiHeadAttention takes the masks off the tensors that it is given, so what
        reads them too depends on the order in which Keras happens to run a graph.
        """
        if not self.latest(3):
            return
        query, value = (self.choose.pick(self.latest(3)) for _ in range(2))
        if self.choose.flag():
            self.add("Attention", {}, [query, value])
            return
        own = []
        for tensor in (query, value):
            own += self.add("UnitNormalization", {}, tensor)
        self.add("MultiHeadAttention", {"num_heads": 1, "key_dim": 2}, *own)

    def share(self) -> None:
        """Calls a layer again, on another tensor."""
        steps = [
            (name, call)
            for name, call in self.net.calls.items()
            if isinstance(call.args[0], T)
            and len(call.args) == 1
            and not self.net.layers[call.layer].is_operation
            and not call.kwargs
        ]
        if not steps:
            return
        _, call = self.choose.pick(steps)
        old = self.values[call.args[0]]
        fits = [t for t, v in self.values.items() if v.shape == old.shape and v.dtype == old.dtype]
        self.call(call.layer, [self.choose.pick(fits)], {})

    def nest(self) -> None:
        if self.depth > 1 or not self.latest(3):
            return
        x = self.choose.pick(self.latest(3))
        inner = Drafter(self.choose, self.hand, self.names, self.depth + 1)
        kind = self.choose.pick(["Functional", "Sequential", "Plain", "Small"])
        if kind == "Small":
            if self.values[x].shape[-1] != WIDTH:
                return
            self.add(kind, {}, x, net=small())
            return
        inner.add_input(self.name("start"), "signal", self.values[x])
        if kind == "Sequential":
            inner.chain()
        else:
            if self.choose.flag(3) and (mine := self.reusable()):
                inner.borrow(self.net, mine, self.choose)
            inner.steps(self.choose.number(1, 3))
        net = inner.done()
        if net is None:
            return
        found = self.add(kind, {}, x, net=net)
        if found and self.choose.flag(3):
            others = [t for t in self.latest(3) if self.values[t].shape == self.values[x].shape]
            self.call(found[0].call, [self.choose.pick(others)], {})

    def reusable(self) -> list[str]:
        """Names layers that a nested model could call as well."""
        layers = self.net.layers.items()
        return [k for k, v in layers if v.kind in ("Dense", "LayerNormalization", "Block")]

    def borrow(self, outer: Net, keys: list[str], choose: Choices) -> None:
        """Calls a layer of the outer model inside of this one."""
        key = choose.pick(keys)
        (x,) = self.values
        self.net.layers[key] = outer.layers[key]
        self.call(key, [x], {})

    def chain(self) -> None:
        """Adds one layer after the other."""
        (x,) = self.values
        for _ in range(self.choose.number(1, 3)):
            kind, options = self.choose.pick(keeping(self.values[x]))
            found = self.add(kind, options, x)
            x = found[0] if found else x

    def steps(self, count: int) -> None:
        ways = [self.unary, self.unary, self.operation, self.recurrent, self.wrapped, self.merge]
        ways += [self.attend, self.share, self.share, self.nest, self.nest]
        for _ in range(count):
            if self.latest(3) or self.latest(2):
                self.choose.pick(ways)()

    def done(self) -> Net | None:
        """Ends with the tensors that nothing reads, at most three of them."""
        net = self.net
        read = {t for call in net.calls.values() for t in call.tensors()}
        ends = [t for t in self.values if t not in read and t.call in net.calls]
        ends = [t for t in ends if not is_bool(self.values[t]) and not is_int(self.values[t])][-3:]
        if not ends:
            return None
        net.outputs = ends[0] if len(ends) == 1 else ends
        kept = net.needed()
        dropped = [name for name in net.calls if name not in kept]
        if any(len(net.calls_of(net.calls[name].layer)) > 1 for name in dropped):
            net.outputs = [*ends, *(T(n) for n in dropped if not is_int(self.values[T(n)]))]
            return None if len(net.outputs) > 5 else self._pruned()
        return self._pruned()

    def _pruned(self) -> Net:
        net, kept = self.net, self.net.needed()
        net.calls = {name: call for name, call in net.calls.items() if name in kept}
        net.forget_unused()
        read = {t.call for call in net.calls.values() for t in call.tensors()}
        net.inputs = {name: port for name, port in net.inputs.items() if name in read}
        return net


def small() -> Net:
    """Returns the plan of what `Small` makes."""
    layers = {
        "first": Layer("Dense", {"units": WIDTH, "activation": "tanh"}),
        "second": Layer("Dense", {"units": WIDTH}),
    }
    calls = {"first": Call("first", [T("start")]), "second": Call("second", [T("first")])}
    inputs = {"start": Port((None, WIDTH), "signal", "start")}
    return Net("small", inputs, layers, calls, T("second"), "Small")


def draw_net(choose: Choices, hand: Hand) -> Net | None:
    """Draws a model over tokens, signals or both."""
    drafter = Drafter(choose, hand, [0])
    kinds = choose.pick([("tokens",), ("tokens",), ("tokens", "signal"), ("signal",),
                         ("signal", "other")])  # fmt: skip
    for name in kinds:
        shape = (STEPS,) if name == "tokens" else (STEPS, WIDTH)
        rows = batch(Net("", {name: Port(shape, name, name)}, {}, {}, None))[name]
        drafter.add_input(name, name, ops.convert_to_tensor(rows))
    if "tokens" in kinds:
        options = {"input_dim": 9, "output_dim": WIDTH, "mask_zero": not choose.flag(4)}
        tokens = drafter.add("Roll", {}, T("tokens"))[0] if choose.flag(5) else T("tokens")
        drafter.add("Embedding", options, tokens)
    elif choose.flag():
        drafter.add("Masking", {"mask_value": 0.0}, T("signal"))
    drafter.steps(choose.number(2, 5))
    net = drafter.done()
    if net is None:
        return None
    net.kind = choose.pick(["Functional", "Functional", "Plain"])
    ends = keras.tree.flatten(net.outputs)
    if choose.flag(4):
        net.outputs = {f"out_{index}": tensor for index, tensor in enumerate(ends)}
    for layer in reachable(net):
        if choose.flag(8):
            layer.trainable = False
    return net


# --- programs ------------------------------------------------------------------------


@dataclass
class Program:
    """A model and edits, as data."""

    net: Net
    edits: list[Edit] = field(default_factory=list)
    checks: tuple[str, ...] = ()

    def __str__(self) -> str:
        edits = "".join(f"        {e!r},\n" for e in self.edits)
        return (
            "from programs import *  # with PYTHONPATH=tests\n\nreplay(\n    Program(\n"
            f"        {self.net!r},\n        [\n{edits}        ],\n"
            f"        {self.checks!r},\n    )\n)"
        )


@dataclass
class Tally:
    """How programs fared."""

    programs: int = 0
    edits: collections.Counter = field(default_factory=collections.Counter)
    refused: collections.Counter = field(default_factory=collections.Counter)
    invalid: collections.Counter = field(default_factory=collections.Counter)
    checks: collections.Counter = field(default_factory=collections.Counter)
    excused: collections.Counter = field(default_factory=collections.Counter)

    def __str__(self) -> str:
        done, refused = sum(self.edits.values()), sum(self.refused.values())
        lines = [f"{self.programs} programs, {done} edits made, {refused} refused"]
        for what in ("edits", "refused", "checks", "excused", "invalid"):
            found = getattr(self, what).most_common(40)
            lines += [f"  {what}:", *(f"    {count:6} {key}" for key, count in found)]
        return "\n".join(lines)


def make_source(net: Net) -> Any:
    """Makes the model of a plan, with weights that matter."""
    keras.utils.clear_session(free_memory=False)
    model = make_model(net)
    random_weights(model, 7)
    for _, layer, live in live_layers(net, model):
        live.trainable = layer.trainable
    return model


class Run:
    """A program while it is played."""

    def __init__(self, net: Net, tally: Tally) -> None:
        self.tally = tally
        self.source = make_source(net)  # This names the operations of the plan.
        self.program = Program(copy.deepcopy(net))
        hand = Hand()
        hand.learn(net, self.source)
        self.state = State(net, hand)
        check_fair(net)
        hand.outputs(net, batch(net))
        self.graph = ramet.trace(self.source)
        self.before = snapshot(self.source)

    def make(self, edit: Edit) -> bool:
        """Makes an edit on the plan, then on the graph; returns whether both could."""
        state = State(
            copy.deepcopy(self.state.root),
            self.state.hand,
            self.state.count,
            self.state.touched | {edit.op},
        )
        try:
            edit.on_plan(state)
            check_fair(state.root)
            for rows in reversed(BATCHES):
                state.hand.outputs(state.root, batch(state.root, rows))
        except Exception as error:  # noqa: BLE001  the layers cannot be called like this
            self.state.hand.outputs(self.state.root, batch(self.state.root))
            self.tally.invalid[f"{edit.op}: {type(error).__name__}"] += 1
            return False
        self.program.edits.append(edit)
        try:
            self.graph = edit.on_graph(self.graph)
        except ramet.RametError as error:
            self.program.edits.pop()
            self.state.hand.outputs(self.state.root, batch(self.state.root))
            self.tally.refused[f"{edit.op}: {classed(error)}"] += 1
            return False
        except Exception as error:
            raise Fault("raw", f"{edit.op} raises {type(error).__name__}: {error}") from error
        self.tally.edits[edit.op] += 1
        self.state = state
        return True


def check_fair(root: Net) -> None:
    """Checks that how Keras runs a model does not depend on its own choices.

    Attention must have tensors of its own, see `Drafter.attend`, and no model may hand on
    what it is given: that is then one tensor with two masks.
    """
    for path, net in nets(root):
        needed = net.needed()
        outputs = keras.tree.flatten(net.outputs)
        if any(tensor.call in net.inputs for tensor in outputs):
            raise Invalid(f"{path} hands on what it is given")
        for name in needed:
            if net.layers[net.calls[name].layer].kind == "MultiHeadAttention":
                for tensor in net.calls[name].tensors():
                    maker = net.calls.get(tensor.call)
                    kind = None if maker is None else net.layers[maker.layer].kind
                    readers = [n for n in needed if tensor in net.calls[n].tensors()]
                    if kind != "UnitNormalization" or len(readers) > 1 or tensor in outputs:
                        raise Invalid("attention shares a tensor")


def classed(error: Exception) -> str:
    """Returns an error's message without the names in it."""
    parts = str(error).split("'")
    return f"{type(error).__name__}: {'…'.join(parts[::2])[:110]}"


def snapshot(model: Any) -> list[Any]:
    """Returns what must stay as it is in the source."""
    found = [("weights", [np.array(w) for w in model.get_weights()])]
    for layer in model._flatten_layers():
        nodes = len(layer._inbound_nodes), len(layer._outbound_nodes)
        found.append((layer.name, (nodes, layer.trainable, layer.built)))
    return found


# --- judging -------------------------------------------------------------------------


class Fault(AssertionError):  # noqa: N818  a fault of ramet's
    """What ramet built is not what the program says."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


def need(kind: str, text: str, *, holds: bool) -> None:
    if not holds:
        raise Fault(kind, text)


def numbers(tree: Any) -> list[np.ndarray]:
    return [np.array(ops.convert_to_numpy(x)) for x in keras.tree.flatten(tree)]


def feed(model: Any, net: Net, data: dict[str, np.ndarray]) -> Any:
    """Puts data into the structure of a model's inputs."""
    if isinstance(model._inputs_struct, dict):
        keyed = {net.inputs[name].key: value for name, value in data.items()}
        return {key: keyed[key] for key in model._inputs_struct}
    return next(iter(data.values())) if len(data) == 1 else [*data.values()]


def called(model: Any, net: Net, data: dict[str, np.ndarray]) -> list[np.ndarray]:
    given = keras.tree.map_structure(ops.convert_to_tensor, feed(model, net, data))
    return numbers(model(given))


def differ(ours: list[np.ndarray], theirs: list[np.ndarray]) -> str | None:
    """Returns how numbers differ, if they do."""
    if len(ours) != len(theirs):
        return f"{len(ours)} outputs instead of {len(theirs)}"
    for index, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"output {index} is {a.dtype}{a.shape} instead of {b.dtype}{b.shape}"
        if not np.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True):
            return f"output {index} differs by {np.nanmax(np.abs(a - b)):.3g}"
    return None


def judge(run: Run, checks: tuple[str, ...]) -> None:
    """Compares what a graph builds with the layers called by hand."""
    run.program.checks = checks
    net, hand = run.state.root, run.state.hand
    built = build(run)
    expected = {rows: numbers(hand.outputs(net, batch(net, rows))) for rows in BATCHES}
    hand.outputs(net, batch(net))
    judge_outputs(run, built, expected, "built")
    judge_structure(built, net)
    judge_weights(run, built)
    judge_trainable(run, built)
    for check in checks:
        run.tally.checks[check] += 1
        CHECKS[check](run, built, expected)
    after = snapshot(run.source)
    for (name, before), (_, now) in zip(run.before, after, strict=True):
        same = keras.tree.map_structure(np.array_equal, before, now)
        need("source", f"'{name}' of the source changed", holds=all(keras.tree.flatten(same)))


def build(run: Run) -> Any:
    try:
        return run.graph.build()
    except Exception as error:
        if not is_ours(run):
            run.tally.excused[f"build: {classed(error)}"] += 1
            raise Invalid("Keras cannot build it either") from error
        kind = "refusal" if isinstance(error, ramet.RametError) else "raw"
        raise Fault(kind, f"build raises {type(error).__name__}: {error}") from error


def is_ours(run: Run) -> bool:
    """Whether plain Keras can make a model of the plan that agrees with its layers by hand."""
    net, model = run.state.root, plain_model(run)
    if model is None:
        return False
    wanted = numbers(run.state.hand.outputs(net, batch(net)))
    return differ(called(model, net, batch(net)), wanted) is None


def plain_model(run: Run) -> Any:
    """Returns a model of the plan that ramet had no part in, if Keras can make one."""
    net = copy.deepcopy(run.state.root)
    for _, inner in nets(net):
        inner.kind = "Functional"  # Edited chains need not be chains any more.
    try:
        model = make_model(net)
        for _, layer, live in live_layers(net, model):
            twin = run.state.hand.live(layer)
            live.set_weights(twin.get_weights())
            live.trainable = twin.trainable
        called(model, net, batch(net))
    except Exception:  # noqa: BLE001  whatever Keras raises
        return None
    return model


def judge_outputs(run: Run, model: Any, expected: Any, what: str) -> None:
    net = run.state.root
    for rows, wanted in expected.items():
        try:
            found = called(model, net, batch(net, rows))
        except Exception as error:
            if not is_ours(run):
                raise Invalid("Keras cannot run it either") from error
            raise Fault("raw", f"calling the {what} model raises {error}") from error
        how = differ(found, wanted)
        if how is not None and not is_ours(run):
            run.tally.excused[f"{what}: other numbers in plain Keras too"] += 1
            raise Invalid("Keras computes something else too")
        need("numbers", f"{what}: {how}", holds=how is None)


def judge_structure(model: Any, net: Net) -> None:
    found = model._outputs_struct
    if isinstance(net.outputs, dict):
        same = isinstance(found, dict) and found.keys() == net.outputs.keys()
    else:
        same = isinstance(found, (list, tuple)) == isinstance(net.outputs, list)
    need("structure", "the outputs have another structure", holds=same)


def judge_weights(run: Run, model: Any) -> None:
    """Every layer has the bits that it should have, and there are no others."""
    count: dict[int, int] = {}
    for path, layer, live in live_layers(run.state.root, model):
        wanted, found = run.state.hand.live(layer).get_weights(), live.get_weights()
        need("weights", f"'{path}' has {len(found)} weights", holds=len(wanted) == len(found))
        for index, (a, b) in enumerate(zip(wanted, found, strict=True)):
            same = a.shape == b.shape and np.array_equal(a, b)
            need("weights", f"weight {index} of '{path}' has other values", holds=same)
        count |= {id(weight): 1 for weight in live.weights}
    extra = [w.path for w in model.weights if id(w) not in count]
    need("left behind", f"{len(extra)} weights of no layer: {extra[:3]}", holds=not extra)
    ours = sum(len(run.state.hand.live(layer).weights) for layer in reachable(run.state.root))
    need("sharing", f"{len(count)} weights instead of {ours}", holds=len(count) == ours)


def judge_trainable(run: Run, model: Any) -> None:
    free = {id(weight) for weight in model.trainable_weights}
    expected = trained(run.state.root)
    for path, layer, live in live_layers(run.state.root, model):
        twin = run.state.hand.live(layer)
        twin.trainable = expected[layer.uid]
        ours = [any(w is v for v in twin.trainable_weights) for w in twin.weights]
        theirs = [id(w) in free for w in live.weights]
        need("trainable", f"'{path}' trains {theirs} instead of {ours}", holds=ours == theirs)


# --- checks that cost more -----------------------------------------------------------


def loaded(model: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/m.keras")
        return keras.models.load_model(f"{folder}/m.keras")


def judge_loaded(run: Run, built: Any, expected: Any) -> None:
    try:
        again = loaded(built)
    except Exception as error:
        if not is_saved_by_keras(run):
            run.tally.excused["cannot be saved by plain Keras either"] += 1
            return
        raise Fault(
            "saving", f"saving or loading raises {type(error).__name__}: {error}"
        ) from error
    try:
        judge_outputs(run, again, expected, "loaded")
    except Fault as fault:
        if not is_saved_by_keras(run):
            run.tally.excused["other numbers in plain Keras, loaded"] += 1
            return
        raise Fault("loaded", str(fault)) from fault


def is_saved_by_keras(run: Run) -> bool:
    """Whether a model of the plan that Keras alone made computes the same once loaded."""
    net = run.state.root
    try:
        again = loaded(plain_model(run))
        wanted = numbers(run.state.hand.outputs(net, batch(net)))
        return differ(called(again, net, batch(net)), wanted) is None
    except Exception:  # noqa: BLE001  whatever Keras raises
        return False


def judge_split(run: Run, built: Any, expected: Any) -> None:
    """The tail of the head is the whole."""
    del built
    net = run.state.root
    cuts = [n for n in net.needed() if is_cut(net, n) and run.state.hand.arity[net.uid, n] == 1]
    for name in cuts[:1]:
        place = next(p for p in run.state.tensors() if p.net is net and p.tensor == T(name))
        try:
            head, tail = (part.build() for part in run.graph.split(place.text))
        except ramet.RametError as error:
            run.tally.refused[f"split: {classed(error)}"] += 1
            continue
        for rows, wanted in expected.items():
            given = feed(head, net, batch(net, rows))
            middle = head(keras.tree.map_structure(ops.convert_to_tensor, given))
            how = differ(numbers(tail(middle)), wanted)
            need("numbers", f"split at '{place.text}': {how}", holds=how is None)


def is_cut(net: Net, name: str) -> bool:
    """Whether all outputs follow from one call alone."""
    waiting, met = keras.tree.flatten(net.outputs), set()
    while waiting:
        tensor = waiting.pop()
        if tensor.call in net.inputs:
            return False
        if tensor.call != name and tensor.call not in met:
            met.add(tensor.call)
            waiting += net.calls[tensor.call].tensors()
    return True


def judge_twice(run: Run, built: Any, expected: Any) -> None:
    """A graph can be built again, and the first model does not mind."""
    del built
    judge_outputs(run, run.graph.build(), expected, "built again")


def judge_clone(run: Run, built: Any, expected: Any) -> None:
    """What was built can be traced and copied like any model."""
    judge_outputs(run, ramet.clone(built), expected, "cloned")


def judge_merged(run: Run, built: Any, expected: Any) -> None:
    """Beside its source, an edited model computes what it computes alone, and so does that."""
    del built
    net, first = run.state.root, run.program.net
    shapes = [{p.key: p.shape for p in each.inputs.values()} for each in (net, first)]
    if shapes[0] != shapes[1]:
        return
    try:
        merged = ramet.merge([run.graph, run.source]).build()
    except ramet.RametError as error:
        run.tally.refused[f"merge: {classed(error)}"] += 1
        return
    for rows, wanted in expected.items():
        both = [*wanted, *called(run.source, first, batch(first, rows))]
        how = differ(called(merged, net, batch(net, rows)), both)
        need("numbers", f"merged with its source: {how}", holds=how is None)


def judge_chained(run: Run, built: Any, expected: Any) -> None:
    """A model after it computes what it computes of the outputs."""
    del built
    net = run.state.root
    shapes = [x.shape[1:] for x in expected[BATCHES[0]]]
    starts = [keras.Input(shape) for shape in shapes]
    parts = [keras.layers.Dense(2, name=f"end{i}")(x) for i, x in enumerate(starts)]
    after = keras.Model(starts, parts, name="after")
    try:
        whole = ramet.chain(run.graph, after).build()
    except ramet.RametError as error:
        run.tally.refused[f"chain: {classed(error)}"] += 1
        return
    for rows, wanted in expected.items():
        ends = numbers(after([ops.convert_to_tensor(x) for x in wanted]))
        how = differ(called(whole, net, batch(net, rows)), ends)
        need("numbers", f"chained: {how}", holds=how is None)


def judge_training(run: Run, built: Any, expected: Any) -> None:
    """One step of training changes the weights as it does by hand."""
    del expected
    net, hand = run.state.root, run.state.hand
    if not can_train(net):
        return
    data = batch(net, BATCHES[1])
    wanted = hand.outputs(net, data)
    targets = [np.full(x.shape, 0.3, "float32") for x in numbers(wanted)]
    if not all(np.isfinite(x).all() for x in numbers(wanted)):
        return
    hand.memo = None
    free = trained(net)
    for layer in reachable(net):
        hand.live(layer).trainable = free[layer.uid]
    plain = plain_model(run)
    losses = [train(ByHand(net, hand), data, targets)]
    losses.append(train(built, feed(built, net, data), structured(net, targets)))
    how = trained_otherwise(run, built, *losses)
    if how is not None and plain is not None:
        losses[1] = train(plain, feed(plain, net, data), structured(net, targets))
        if trained_otherwise(run, plain, *losses) is not None:
            run.tally.excused["plain Keras trains it otherwise too"] += 1
            return
    need("training", f"{how}", holds=how is None)


def structured(net: Net, targets: list[Any]) -> Any:
    """Puts one target for each output into the structure of the outputs."""
    if isinstance(net.outputs, dict):
        return dict(zip(sorted(net.outputs), targets, strict=True))
    return targets if isinstance(net.outputs, list) else targets[0]


def trained_otherwise(run: Run, model: Any, wanted: float, loss: float) -> str | None:
    """Returns how a step of training differed from the one by hand, if it did."""
    if not np.allclose(loss, wanted, rtol=1e-3, atol=1e-5):
        return f"the loss is {loss} instead of {wanted}"
    for path, layer, live in live_layers(run.state.root, model):
        pairs = zip(run.state.hand.live(layer).get_weights(), live.get_weights(), strict=True)
        if not all(np.allclose(a, b, rtol=1e-3, atol=1e-4, equal_nan=True) for a, b in pairs):
            return f"'{path}' is trained otherwise"
    return None


def can_train(net: Net) -> bool:
    """Whether a step of training is the same however the layers are called."""
    if not any(trained(net).values()) or len(set(keras.tree.flatten(net.outputs))) < len(
        keras.tree.flatten(net.outputs)
    ):
        return False
    shared = collections.Counter(
        inner.layers[c.layer].uid for _, inner in nets(net) for c in inner.calls.values()
    )
    models = [v.uid for _, inner in nets(net) for v in inner.layers.values() if v.net is not None]
    for layer in reachable(net):
        if layer.kind == "Dropout":
            return False
        if layer.kind == "BatchNormalization" and (
            shared[layer.uid] > 1 or any(shared[uid] > 1 for uid in models)
        ):
            return False
    return True


def train(model: Any, data: Any, targets: Any) -> float:
    """Makes one step, without compiling anything."""
    loss: Any = "mse"
    if isinstance(targets, (dict, list)):
        loss = keras.tree.map_structure(lambda _: "mse", targets)
    if isinstance(targets, list) and len(targets) == 1:
        loss = ["mse"]
    model.compile(keras.optimizers.SGD(0.1), loss=loss, run_eagerly=True)
    return float(np.ravel(model.train_on_batch(data, targets))[0])


def judge_proven(run: Run, built: Any, expected: Any) -> None:
    """No edit promises more than is true."""
    del built, expected
    proof = ramet.prove(run.graph)
    for each in (*proof.edits, proof.whole):
        run.tally.checks[f"{each.promised}: {each.judgement}"] += 1
    need("promise", f"{proof.broken}\n{proof}", holds=not proof.broken)


CHECKS = {
    "twice": judge_twice,
    "proven": judge_proven,
    "clone": judge_clone,
    "split": judge_split,
    "merged": judge_merged,
    "chained": judge_chained,
    "loaded": judge_loaded,
    "training": judge_training,
}
"""In this order: training changes the weights."""

# --- playing -------------------------------------------------------------------------


def play(seed: int, tally: Tally) -> Run | None:
    """Draws a model and edits, makes them, and judges the result."""
    choose = Choices(seed)
    net = draw_net(choose, Hand())
    if net is None:
        return None
    checks = tuple(name for name in CHECKS if name != "proven" and choose.flag(6))
    checks = ("proven", *checks) if seed % 5 == 0 else checks
    try:
        run = Run(net, tally)
    except Exception as error:  # noqa: BLE001  Keras infers less than it computes
        tally.invalid[f"model: {classed(error)}"] += 1
        return None
    try:
        for _ in range(choose.number(1, 6)):
            op = choose.pick(EDITS)
            try:
                args = EDITS[op].draw(choose, run.state)
            except NothingThereError:
                continue
            if args is not None:
                run.make(Edit(op, args))
        judge(run, checks)
    except Invalid:
        return None
    except Exception as error:
        error.program = copy.deepcopy(run.program)
        raise
    tally.programs += 1
    return run


def replay(program: Program, *, strict: bool = True) -> None:
    """Plays a program again that was written down.

    Args:
        program: What to play.
        strict: Whether every edit has to be possible.
    """
    program = copy.deepcopy(program)
    run = Run(unified(program.net), Tally())
    for edit in program.edits:
        made = run.make(edit)
        assert made or not strict, f"not made: {edit} ({run.tally})"
    judge(run, program.checks)


# --- shrinking -----------------------------------------------------------------------


def shrunk(program: Program, error: Exception, seconds: float = 60) -> Program:
    """Leaves out of a program what its fault does not need."""
    end = time.monotonic() + seconds
    smaller = True
    while smaller:
        smaller = False
        for candidate in simpler(program):
            if time.monotonic() > end:
                return program
            if fails_alike(candidate, error):
                program, smaller = candidate, True
                break
    return program


def fails_alike(program: Program, error: Exception) -> bool:
    if any(len(net.needed()) < len(net.calls) for _, net in nets(program.net)):
        return False  # Keras would number the calls of a layer otherwise.
    try:
        replay(program, strict=False)
    except type(error) as found:
        return getattr(found, "kind", None) == getattr(error, "kind", None)
    except Exception:  # noqa: BLE001  another fault, or none that counts
        return False
    return False


def simpler(program: Program) -> Iterator[Program]:
    """Yields programs with less in them: edits, checks, outputs, calls."""
    for index in range(len(program.edits)):
        edits = [e for at, e in enumerate(program.edits) if at != index]
        yield dataclasses.replace(program, edits=edits)
    for check in program.checks:
        yield dataclasses.replace(program, checks=tuple(c for c in program.checks if c != check))
    ends = keras.tree.flatten(program.net.outputs)
    for index in range(len(ends) if len(ends) > 1 else 0):
        rest = [t for at, t in enumerate(ends) if at != index]
        yield with_net(program, lambda net, r=rest: vars(net).update(outputs=r))
    if not isinstance(program.net.outputs, T) and len(ends) == 1:
        yield with_net(program, lambda net: vars(net).update(outputs=ends[0]))
    for path, net in nets(program.net):
        if net.kind not in ("Small", "Sequential"):
            for name in net.needed():
                if name == net.calls_of(net.calls[name].layer)[-1]:  # The others keep their names.
                    skip = functools.partial(skip_call, path=path, name=name)
                    yield with_net(program, skip)


def with_net(program: Program, change: Callable[[Net], Any]) -> Program:
    net = unified(copy.deepcopy(program.net))
    change(net)
    for _, inner in [*nets(net)]:
        for name in [n for n in inner.calls if n not in inner.needed()]:
            key = inner.calls[name].layer
            if name == inner.calls_of(key)[-1]:
                del inner.calls[name]
        inner.forget_unused()
    return dataclasses.replace(program, net=net)


def skip_call(root: Net, path: tuple[str, ...], name: str) -> None:
    """Lets what reads a call read what the call reads."""
    net = find(root, path)
    first = net.calls[name].tensors()[0]
    net.redirect({T(name, index): first for index in range(4)})
