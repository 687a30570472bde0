"""The edits of a Graph, as its methods."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from ramet.errors import GraphError, OptionError
from ramet.graph import cut, edit
from ramet.graph.block import replace_block
from ramet.graph.freeze import set_trainable
from ramet.graph.given import TensorFunction
from ramet.graph.inline import flatten
from ramet.graph.parts import Call, Layer, Ref, Spec
from ramet.graph.remove import remove
from ramet.graph.rename import prefix, rename
from ramet.graph.select import Selection, select
from ramet.graph.sharing import Tie, share, unshare
from ramet.graph.transfer import TransferReport
from ramet.graph.tree import Tree

if TYPE_CHECKING:
    from ramet.graph.core import Graph

Block: TypeAlias = tuple[Tree, Tree]
"""What lies between some tensors and some others."""


class Origin(Protocol):
    """Where a graph was read from: the way to live layers and back to a model."""

    def build(self, graph: "Graph", *, weights: str, seed: int | None, name: str | None) -> Any:
        """Makes a model of the graph."""
        ...

    def transfer_report(self, graph: "Graph", weights: str) -> TransferReport:
        """Tells what becomes of every variable when the graph is built."""
        ...

    def part(self, *others: "Origin") -> "Origin":
        """Returns the origin of a graph that is only a part of this one, and of others."""
        ...

    def is_layer(self, given: Any) -> bool:
        """Tells whether something is a live layer."""
        ...

    def is_of_tensors(self, given: Any) -> bool:
        """Whether a function is one of Keras's own, of tensors: `keras.ops.relu`."""
        ...

    def traced(self, function: TensorFunction, inner: "Graph", args: Tree, kwargs: Tree) -> "Graph":
        """Returns the calls that a function makes of some tensors of a graph."""
        ...

    def is_used(self, layer: Layer) -> bool:
        """Tells whether a live layer that an edit brings in is used elsewhere."""
        ...

    def layer(self, given: Any, where: str) -> Layer:
        """Records a live layer that an edit brings in."""
        ...

    def input(self, given: Any, spec: Spec, options: Mapping[str, Any]) -> tuple[Layer, Call]:
        """Records a symbolic input, or makes one like a spec but for some options."""
        ...

    def current(self, layer: Layer) -> Any:
        """Returns a live layer as it will be: the origin, or one made with the changes."""
        ...

    def hides_masks(self, graph: "Graph") -> bool:
        """Tells whether tensors carry masks that the graph does not show."""
        ...

    def remarks(self, graph: "Graph") -> tuple[str, ...]:
        """Lists what building an edited graph changes besides what its edits say."""
        ...

    def settled(self, graph: "Graph") -> "Graph":
        """Returns a graph as it is once it was built."""
        ...

    def conversion(self, given: Spec, wanted: Spec) -> list[tuple[Layer, Call]]:
        """Returns the operations by which a model adjusts a tensor to one of its inputs."""
        ...

    def tie(self, first: Layer, second: Layer) -> Tie:
        """Tells what two layers that are to be one differ in."""
        ...

    def accepts(self, layer: Layer, argument: str) -> bool:
        """Tells whether a layer can be called with a keyword argument."""
        ...

    def check_changes(self, layer: Layer, changes: Mapping[str, Any]) -> None:
        """Checks that a layer can be made again with other constructor arguments."""
        ...


class Editable:
    """What can be done to a graph. Nothing is executed before `build`.

    Every edit returns a new, checked Graph and leaves the old one as it was. A
    place is a layer's name, a path into a nested model such as `encoder/conv`, one
    call of a shared layer such as `conv#2`, or one output of several such as
    `split.1`.
    """

    if TYPE_CHECKING:
        name: str
        origin: Origin | None

    def select(
        self,
        *,
        kind: Any = None,
        name: str | None = None,
        regex: str | None = None,
        where: Callable[[Any], bool] | None = None,
        missing_ok: bool = False,
    ) -> Selection:
        """Selects layers, also in nested models, for which everything that is asked holds.

        Inputs are selected only by kind or by their very name.

        Args:
            kind: A class of layers, its name, or a tuple of them.
            name: A glob. With `/` it is a path into nested models, such as
                `encoder/*/attention`; without, the name of a layer wherever it is.
            regex: A regular expression to be found in the path.
            where: A function from the live layer to whether it is meant. Operations of
                `keras.ops` are asked too; one that lacks an attribute that the function
                reads, such as `weights`, is not meant.
            missing_ok: Whether an edit may find nothing to do.

        Returns:
            A selection, to be combined with `&`, `|`, `-` and edited.
        """
        return select(
            self._me, kind=kind, name=name, regex=regex, where=where, missing_ok=missing_ok
        )

    def replace(self, at: "str | Block | Selection", new: Any, *, weights: str = "fit") -> "Graph":
        """Puts a layer in the place of another, or of a whole block.

        The new layer takes the arguments and the readers of the old one, in all its
        calls. It is copied when the graph is built; the one that is given stays
        untouched.

        Args:
            at: The layer; `name#2` replaces it in its second call only. A pair of
                tensors, or of lists of tensors, replaces everything between them.
            new: A layer; a function from the old layer to a new one (from the list of
                layers in a block), which sees the shapes that were traced; or a function of
                the tensors that the old layer is called on, such as `keras.ops.relu` or
                `lambda x: x * 2`. On a selection only functions will do, since every place
                needs a layer of its own.
            weights: `"fit"` takes over the old layer's weights where role, meaning and shape
                agree, `"grow"` also the part that both have where shapes differ, by what each
                axis is made of, `"tile"` fills the rest by repeating, `"fresh"` takes nothing.

        Raises:
            GraphError: If there is no such layer, or the new one's name is taken.
            OptionError: If `new` is not a layer.
        """
        if isinstance(at, tuple):
            if len(cast("tuple[Any, ...]", at)) != len(("first", "last")):
                message = (
                    f"a block is named by what it starts from and what it ends with, got {len(at)} "
                    "places; pass a pair, of lists where there are several tensors"
                )
                raise OptionError(message)
            return replace_block(self._me, at[0], at[1], new)
        return self._each(at, new, lambda g, place, n: edit.replace_layer(g, place, n, weights))

    def configure(self, at: "str | Selection", *, weights: str = "fit", **changes: Any) -> "Graph":
        """Gives a layer other constructor arguments, so that they take effect.

        The layer is made again from its config with the changes.

        Args:
            at: The layer, or a selection.
            weights: How its weights are taken over; see `replace`.
            **changes: The arguments. None at all, with `weights="grow"` or so, makes the
                layer again for another input.

        Raises:
            GraphError: If there is no such layer.
            OptionError: If it has no such argument, or no config.
        """
        return self._each(
            at, None, lambda g, place, _: edit.configure_layer(g, place, changes, weights)
        )

    def freeze(self, at: "str | Selection | None" = None) -> "Graph":
        """Stop layers from training: their weights, and those of all layers inside them.

        A layer that a later edit brings in trains.

        Args:
            at: A layer, a nested model, a selection; by default all layers.

        Raises:
            GraphError: If there is no such layer, or it is an operation.
        """
        return set_trainable(self._me, at, trainable=False)

    def unfreeze(self, at: "str | Selection | None" = None) -> "Graph":
        """Let layers train, and all layers inside them; see `freeze`.

        Variables that no layer trains, such as moving averages, stay as they are.
        """
        return set_trainable(self._me, at, trainable=True)

    def insert_after(self, at: "str | Ref | Selection", new: Any) -> "Graph":
        """Lets a new layer read a tensor, and all its readers read the new layer.

        Args:
            at: The tensor, or a selection.
            new: A layer with one input and one output, a function from the layer
                that makes the tensor to one, or a function of the tensor, such as
                `keras.ops.relu`.
        """
        return self._each(at, new, edit.insert_after, calls=True)

    def insert_before(self, at: "str | Selection", new: Any) -> "Graph":
        """Lets a new layer stand between a call and the one tensor that it takes."""
        return self._each(
            at, new, lambda g, place, n: edit.insert_on(g, place, None, n), calls=True
        )

    def insert_on(self, at: str, argument: int | str, new: Any) -> "Graph":
        """Lets a new layer stand between a call and one of the tensors that it takes.

        Args:
            at: The call.
            argument: Which tensor: its number among those that the call takes, or a
                keyword.
            new: A layer, a function from the layer of the call to one, or a function of
                the tensor.
        """
        return edit.insert_on(self._me, at, argument, new)

    def remove(self, at: "str | Selection", *, reconnect: Any = None) -> "Graph":
        """Takes a layer out.

        Args:
            at: The layer, one call of it, or a selection.
            reconnect: The tensor that its readers read instead, a list of one for each
                output; by default the only one that the layer takes.

        Raises:
            GraphError: If it takes or gives several tensors and `reconnect` is not
                given, or the author passes on a mask that the layer makes.
        """
        return self._each(at, None, lambda g, place, _: remove(g, place, reconnect))

    def rewire(self, at: str, argument: int | str, tensor: "str | Ref") -> "Graph":
        """Lets an argument of a call be another tensor.

        Args:
            at: The call.
            argument: Which tensor: its number among those that the call takes, or a
                keyword.
            tensor: The tensor to take instead.

        Raises:
            GraphError: If there is no such argument or tensor, or a cycle results.
        """
        return edit.rewire(self._me, at, argument, tensor)

    def rename(self, names: Mapping[str, str]) -> "Graph":
        """Gives layers other names, by path: `rename({"fc": "head", "enc/a": "b"})`.

        Variables get paths to match.
        """
        return rename(self._me, names)

    def prefix(self, text: str) -> "Graph":
        """Puts a text before the name of every layer, but not of those in nested models."""
        return prefix(self._me, text)

    def flatten(self, at: str | None = None) -> "Graph":
        """Puts the layers of nested models into this graph, under prefixed names.

        Sharing is kept, and call arguments such as `training` are handed on to the
        layers inside.

        Args:
            at: One nested model; by default all, also those within others.
        """
        return flatten(self._me, at)

    def unshare(self, at: "str | Selection") -> "Graph":
        """Gives every call of a shared layer a layer of its own, with the same weights."""
        return self._each(at, None, lambda g, place, _: unshare(g, place))

    def share(self, first: str, *others: str, config: str = "same") -> "Graph":
        """Ties layers of one kind: all calls become calls of the first, with its weights.

        Args:
            first: The layer that stays.
            *others: The layers that go away, with their weights.
            config: `"same"` refuses layers with other constructor arguments than the
                first; `"first"` lets those of the first hold for all.

        Raises:
            GraphError: If the layers differ in kind, in the shapes of their weights, or in
                constructor arguments, names and trainable flags aside.
        """
        return share(self._me, first, others, config)

    def prune_unused(self) -> "Graph":
        """Leaves out what no output needs. A built model never has it."""
        return cut.prune_unused(self._me)

    def add_output(self, at: "str | Ref", *, name: str | None = None) -> "Graph":
        """Adds a tensor, also one inside a nested model, to the model's outputs.

        Args:
            at: The tensor.
            name: Its key, for a model whose outputs are a dict.
        """
        return cut.add_output(self._me, at, name)

    def extract(self, *, inputs: Tree = None, outputs: Tree = None) -> "Graph":
        """Cuts out a part, as a plain Functional model that is not compiled.

        A tensor among the inputs that carries a mask brings a second input along for
        the mask: the part takes a dict, `{"x": ..., "x_mask": ...}`. The mask may be
        `None` where every layer that reads it can do without.

        Args:
            inputs: Tensors to start from: a name, a list, or a dict of names; the
                model's own inputs by default, as far as they are needed.
            outputs: Tensors to end with, in the same way; the model's own by default.

        Raises:
            GraphError: If a tensor is unknown, or the part depends on something else.
        """
        return cut.extract(self._me, inputs, outputs)

    def split(self, at: Tree) -> "tuple[Graph, Graph]":
        """Cuts the graph in two: `tail(head(x))` is the model again.

        If there are several tensors, or one that carries a mask, the head gives a dict
        of tensors and masks, which the tail takes.

        Args:
            at: A tensor, or a list of tensors that lie between inputs and outputs.
        """
        return cut.split(self._me, at)

    def with_inputs(self, inputs: Any = None, **options: Any) -> "Graph":
        """Puts other inputs in the place of the model's.

        Args:
            inputs: A `keras.Input` for a model with one input, or a dict of them by the
                names of the old ones.
            **options: For a model with one input, what differs from the old one:
                `shape`, `batch_size`, `dtype`, `sparse`, `optional`, `name`.
        """
        return cut.with_inputs(self._me, inputs, options)

    def _each(
        self,
        at: "str | Ref | Selection",
        new: Any,
        change: "Callable[[Graph, Any, Any], Graph]",
        *,
        calls: bool = False,
    ) -> "Graph":
        """Makes an edit at one place, or at every place of a selection."""
        graph = self._me
        if not isinstance(at, Selection):
            return change(graph, at, new)
        at.need()
        places = at.calls() if calls else [*at]
        if len(places) > 1 and new is not None and graph.live_origin().is_layer(new):
            message = (
                f"{len(places)} places of graph '{graph.name}' cannot have one layer; pass a "
                f"function that makes one for each, such as lambda old: {type(new).__name__}(...)"
            )
            raise OptionError(message)
        for place in places:
            graph = change(graph, place, new)
        return graph

    def transfer_report(self, *, weights: str = "copy") -> TransferReport:
        """Tells what becomes of every variable, old ones that are dropped too.

        Builds the graph to know.

        Args:
            weights: How it is built; see `build`.
        """
        return self.live_origin().transfer_report(self._me, weights)

    @property
    def _me(self) -> "Graph":
        return cast("Graph", self)

    def live_origin(self) -> Origin:
        """Returns where the graph was read from.

        Raises:
            GraphError: If it was written by hand.
        """
        if self.origin is None:
            message = (
                f"graph '{self.name}' was not traced from a model, so there are no "
                "layers to build it with; make it with ramet.trace(model)"
            )
            raise GraphError(message)
        return self.origin
