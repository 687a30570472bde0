"""The parts of a graph: tensors, calls and layers, as plain frozen data."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, cast

from ramet._arguments import check_index, check_text, shown
from ramet._words import Promise
from ramet.errors import OptionError
from ramet.graph.identity import token_of
from ramet.graph.names import brief, counted, listed
from ramet.graph.tree import Tree, leaves, same_value

if TYPE_CHECKING:  # values need NumPy, whose import takes longer than all of this
    from ramet.graph.core import Graph
    from ramet.graph.values import Recipe


class Gist(NamedTuple):
    """The words of a journal entry that the edits of several places have in common."""

    before: str
    """The words before the place: `replace`, `insert Dropout after`."""
    kind: str
    """Class of the layer at the place."""
    after: str = ""
    """The words after the place: ` with PReLU`."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Edit:
    """One entry of the journal: what was done to a graph.

    Examples:
        >>> (edit,) = ramet.trace(model).remove("drop").journal
        >>> edit.text
        "remove 'drop' (Dropout)"
    """

    text: str
    """What was done, in words."""
    parts: "tuple[Edit, ...]" = ()
    """The edits of the single places, for an edit of many; empty for an edit of one."""
    gist: Gist | None = None
    """How to summarize the edit with others of the same selection."""
    promise: Promise = "changed"
    """What it promises of the new model."""

    @classmethod
    def of_many(cls, text: str, lines: Iterable[str], promise: Promise = "changed") -> "Edit":
        """Return an edit of several places, with one part for each, which promises the same."""
        parts = tuple(cls(line, promise=promise) for line in lines)
        return cls(text, parts if len(parts) > 1 else (), promise=promise)

    @property
    def count(self) -> int:
        """The number of places that were edited."""
        return len(self.parts) or 1

    def to_dict(self) -> dict[str, Any]:
        """Return the edit as plain data."""
        parts = [part.text for part in self.parts]
        return {"text": self.text, "promise": self.promise, "count": self.count, "parts": parts}

    def __str__(self) -> str:
        """Return what was done."""
        return self.text

    def __repr__(self) -> str:
        """Return what was done, on one line."""
        return brief("Edit", self.text)


@dataclass(frozen=True, slots=True)
class Ref:
    """One tensor: output `index` of a call.

    Examples:
        >>> graph = ramet.trace(model).extract(outputs=ramet.graph.Ref("relu", 0))
    """

    call: str
    """Name of the call that computes the tensor."""
    index: int = 0
    """Which of the call's outputs it is, in flattened order."""

    def __post_init__(self) -> None:
        """Check the types, so that a Ref can be looked up anywhere."""
        if type(self.call) is not str or type(self.index) is not int:
            check_text(self.call, "the call of a Ref")
            check_index(self.index, "the index of a Ref")


@dataclass(frozen=True, slots=True, repr=False)
class Spec:
    """What is known about a tensor before it has a value.

    Examples:
        >>> (spec,) = ramet.trace(model).calls["pool"].outputs
        >>> spec.shape, spec.dtype
        ((None, 4), 'float32')
    """

    shape: tuple[int | None, ...]
    """Shape, with `None` for dimensions that are not known."""
    dtype: str
    """Name of the dtype."""
    name: str
    """Name of the symbolic tensor."""
    sparse: bool = False
    """Whether the tensor is sparse."""
    ragged_rank: int | None = None
    """Number of ragged dimensions; `None` if the tensor is not ragged."""
    row_splits_dtype: str | None = None
    """Dtype of the row splits of a ragged tensor, if it was specified."""
    ragged: bool = False
    """Whether the tensor is ragged."""
    mask: Any = None
    """The mask attached to the tensor: a `Ref`, a constant, or `None`."""
    known: bool = True
    """Whether the above is known; not for outputs of a new layer, before it is built."""

    def __repr__(self) -> str:
        """Return name, dtype and shape; a mask, which may be a whole array, is only mentioned."""
        if not self.known:
            return brief("Spec", "not known before the graph is built")
        mask = "" if self.mask is None else ", masked"
        shape = ", ".join(map(str, self.shape))
        return brief("Spec", f"'{self.name}': {self.dtype}[{shape}]{mask}")


class _Record:
    """A frozen record that may refer to live objects, which comparisons ignore."""

    __slots__ = ()

    def detached(self) -> Any:
        """Return the record without live objects."""
        raise NotImplementedError

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        values: Any = self.detached()
        return type(self), tuple(getattr(values, f.name) for f in fields(values) if f.init)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Call(_Record):
    """One use of a layer, with its arguments.

    Examples:
        >>> call = ramet.trace(model).calls["norm"]
        >>> call.layer, call.refs
        ('norm', (Ref(call='conv', index=0),))
    """

    name: str
    """Unique in the graph: the layer's name, `name#2` for its second call."""
    layer: str | None
    """Key of the layer in the graph; `None` for a bare symbolic input."""
    args: Tree
    """Positional arguments: a tuple of trees of `Ref`s and constants."""
    kwargs: Tree
    """Keyword arguments: a dict of trees of `Ref`s and constants."""
    outputs: tuple[Spec, ...]
    """One spec per output, in flattened order."""
    derived: frozenset[str] = frozenset()
    """Keyword arguments that Keras filled in, not the author."""
    origin: Any = field(default=None, repr=False, compare=False)
    """The live call that was traced; `None` for a call that an edit added."""
    edit: Edit | None = field(default=None, repr=False, compare=False)
    """The last edit that added the call or changed its arguments."""
    refs: tuple[Ref, ...] = field(init=False, repr=False, compare=False)
    """The tensors among the arguments, in order."""
    written: dict[str, Tree] = field(init=False, repr=False, compare=False)
    """The keyword arguments that the author wrote: all except the derived ones."""
    written_refs: tuple[Ref, ...] = field(init=False, repr=False, compare=False)
    """The tensors among the arguments that the author wrote, in order."""
    masked: bool = field(init=False, repr=False, compare=False)
    """Whether an output carries a mask."""

    def __repr__(self) -> str:
        """Return the layer and the tensors it is called on; constants may be whole arrays."""
        of = "" if self.layer in {None, self.name} else f" of '{self.layer}'"
        on = listed([f"{ref.call}.{ref.index}" if ref.index else ref.call for ref in self.refs])
        return brief("Call", f"'{self.name}'{of}{' on ' if on else ''}{on}")

    def __post_init__(self) -> None:
        """Collect the arguments and tensors that the author wrote, and all tensors."""
        _check_call(self)
        refs = written_refs = _refs((self.args, self.kwargs))
        written = self.kwargs
        if self.derived:
            written = {key: item for key, item in self.kwargs.items() if key not in self.derived}
            written_refs = _refs((self.args, written))
        object.__setattr__(self, "refs", refs)
        object.__setattr__(self, "written", written)
        object.__setattr__(self, "written_refs", written_refs)
        object.__setattr__(self, "masked", any(spec.mask is not None for spec in self.outputs))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Call)
            and (self.name, self.layer, self.derived) == (other.name, other.layer, other.derived)
            and same_value((self.args, self.kwargs), (other.args, other.kwargs))
            and same_value(self.outputs, other.outputs)
        )

    def __hash__(self) -> int:
        return hash((self.name, self.layer, self.refs))

    def detached(self) -> "Call":
        """Return the call without the live call that was traced."""
        return replace(self, origin=None)


def _check_call(call: Call) -> None:
    if type(call.name) is not str:
        check_text(call.name, "the name of a call")
    where = f"of call '{call.name}'"
    if call.layer is not None:
        check_text(call.layer, f"the layer {where}")
    if not isinstance(call.args, tuple):
        raise OptionError(f"the args {where} must be a tuple, got {shown(call.args)}")
    if not isinstance(call.kwargs, dict):
        raise OptionError(f"the kwargs {where} must be a dict, got {shown(call.kwargs)}")
    if not isinstance(cast("Any", call.outputs), tuple) or not all(map(_is_spec, call.outputs)):
        message = f"the outputs {where} must be a tuple of Specs, got {shown(call.outputs)}"
        raise OptionError(message)
    if not isinstance(cast("Any", call.derived), (frozenset, set)):
        message = f"the derived arguments {where} must be a frozenset, got {shown(call.derived)}"
        raise OptionError(message)


def _is_spec(value: object) -> bool:
    return isinstance(value, Spec)


def _refs(tree: Tree) -> tuple[Ref, ...]:
    return tuple(leaf for leaf in leaves(tree) if isinstance(leaf, Ref))


@dataclass(frozen=True, slots=True)
class Facts:
    """What edits need to know of a live layer, as it was when it was recorded."""

    role: Literal["layer", "operation", "input"] = "layer"
    """Whether it is a layer, an operation of `keras.ops`, or an input of a model."""
    built: bool = False
    """Whether it has been built."""
    has_weights: bool = False
    """Whether it has weights, layers inside of it included."""
    trainable: bool = True
    """Its `trainable` flag."""
    optional: bool = False
    """Whether an input may be `None`."""


class Step(Protocol):
    """What an edit does to a new layer once it has its weights."""

    @property
    def text(self) -> str:
        """The step in words; two steps with the same words do the same."""
        ...

    def apply(self, layer: Any) -> None:
        """Change a live layer that nobody else uses."""
        ...

    def changes_variables(self, layer: Any) -> bool:
        """Whether it changes variables that a layer has, not only adds some."""
        ...


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Layer(_Record):
    """A Keras layer, operation or nested model: anything that is called.

    Examples:
        >>> layer = ramet.trace(model).layers["conv"]
        >>> layer.name, layer.kind, layer.is_input
        ('conv', 'Conv2D', False)
    """

    name: str
    """The layer's own name."""
    kind: str
    """Name of its class."""
    origin: Any = field(repr=False)
    """The live object with its state, which this package never looks inside."""
    graph: "Graph | None" = field(default=None, repr=False)
    """The graph of a nested model; `None` for everything else."""
    changes: Mapping[str, Any] | None = None
    """Constructor arguments that differ from the origin's, for a layer to be re-created."""
    inherits: Any = field(default=None, repr=False, compare=False)
    """The live layer that it replaced, and whose weights it takes over."""
    weights: str = "fit"
    """How it takes over weights: a `Policy`."""
    recipe: "Recipe | None" = field(default=None, repr=False)
    """The weights that the last edit computes, by role; `None` if it computes none."""
    steps: "tuple[Step, ...]" = field(default=(), repr=False)
    """What edits do to the new layer once it has its weights, such as adding adapters."""
    trainable: bool | None = None
    """The `trainable` flag set by an edit; `None` if its own flag counts."""
    place: "tuple[Graph, str] | None" = field(default=None, repr=False, compare=False)
    """The graph that the last edit was made in, and its key there."""
    earlier: "Layer | None" = field(default=None, repr=False, compare=False)
    """The record before the last edit, if an earlier edit had changed the layer."""
    brought: bool = field(default=False, repr=False, compare=False)
    """Whether an edit added it."""
    apart: int = 0
    """0 for the layer `origin` itself; another number for an unshared copy of it. Layers that
    were unshared together, such as those of one model, have the same number."""
    edit: Edit | None = field(default=None, repr=False, compare=False)
    """The last edit that added or changed the layer."""
    facts: Facts = Facts()
    """What is known of the live layer."""
    token: int = field(default=0, repr=False)
    """The number that identifies the live layer; see `token_of`."""

    def __post_init__(self) -> None:
        """Look up the number of the live layer, unless it was passed."""
        if not self.token:
            object.__setattr__(self, "token", token_of(self.origin))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Layer)
            and self.identity == other.identity
            and self.says_the_same(other)
            and self.graph == other.graph
        )

    def __hash__(self) -> int:
        return hash((self.name, self.kind))

    def says_the_same(self, other: "Layer") -> bool:
        """Whether two records agree, ignoring their graphs and `apart`.

        Records without live layers, as in a graph written by hand, may be of the same layer.
        """
        return (
            (self.name, self.kind, self.weights, self.trainable)
            == (other.name, other.kind, other.weights, other.trainable)
            and (self.token == other.token or max(self.token, other.token) < 0)
            and (self.graph is None) == (other.graph is None)
            and same_value(_plain(self.changes), _plain(other.changes))
            and _same_recipe(self.recipe, other.recipe)
            and [step.text for step in self.steps] == [step.text for step in other.steps]
        )

    def detached(self) -> "Layer":
        """Return the record without live layers, and without the graph of a nested model."""
        return replace(
            self,
            origin=None,
            graph=None,
            changes=_plain(self.changes),
            recipe=None if self.recipe is None else dict(self.recipe),
            inherits=None,
            place=None,
            earlier=None,
        )

    def with_graph(self, graph: "Graph") -> "Layer":
        """Return the record of a nested model with another graph."""
        return replace(self, graph=graph)

    @property
    def is_input(self) -> bool:
        """Whether it is an input of a model."""
        return self.facts.role == "input"

    @property
    def is_operation(self) -> bool:
        """Whether it is an operation of `keras.ops`: it has no weights, flags or masks."""
        return self.facts.role == "operation"

    @property
    def can_train(self) -> bool:
        """Whether it has a flag that says whether it trains."""
        return self.facts.role == "layer"

    def __repr__(self) -> str:
        """Return name and class; for a nested model, the number of its layers."""
        size = "" if self.graph is None else f", {counted(len(self.graph.layers), 'layer')}"
        return brief("Layer", f"'{self.name}' ({self.kind}{size})")

    @property
    def is_complete(self) -> bool:
        """Whether it is built and has weights, so that a new layer keeps its own."""
        return self.facts.built and self.facts.has_weights

    @property
    def is_changed(self) -> bool:
        """Whether its weights are only known once the graph is built."""
        is_new = self.brought or self.inherits is not None
        computed = self.recipe is not None
        return self.changes is not None or computed or (is_new and not self.is_complete)

    @property
    def identity(self) -> tuple[int, int]:
        """What identifies the layer: two records of one layer have the same."""
        return self.token, self.apart

    def is_record_of(self, other: "Layer") -> bool:
        """Whether two records describe the same layer, with the same changes."""
        return (
            self.identity == other.identity
            and self.changes == other.changes
            and self.recipe is other.recipe
            and self.steps == other.steps
            and self.trainable == other.trainable
            and (self.graph is other.graph or self.edit is other.edit)
        )


def _same_recipe(first: "Recipe | None", second: "Recipe | None") -> bool:
    if first is None or second is None:
        return first is second
    from ramet.graph.values import same_computation  # noqa: PLC0415 see above

    return first.keys() == second.keys() and all(
        same_computation(value, second[role]) for role, value in first.items()
    )


def _plain(changes: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if changes is None else dict(changes)
