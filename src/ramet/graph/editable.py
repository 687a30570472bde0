"""The edits of a Graph, as its methods."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from ramet._words import Policy, Weights
from ramet.errors import GraphError, OptionError
from ramet.graph.data import Ref
from ramet.graph.edits import cut
from ramet.graph.edits.arguments import rewire
from ramet.graph.edits.block import replace_block
from ramet.graph.edits.freeze import set_trainable
from ramet.graph.edits.inline import flatten
from ramet.graph.edits.insert import insert_after, insert_on
from ramet.graph.edits.remove import remove
from ramet.graph.edits.rename import prefix, rename
from ramet.graph.edits.replace import configure_layer, replace_layer
from ramet.graph.edits.sharing import share, unshare
from ramet.graph.journal import with_one_entry_for, without_stages
from ramet.graph.origin import Origin
from ramet.graph.select import Selection, select
from ramet.graph.tree import Tree

if TYPE_CHECKING:
    from ramet.graph.core import Graph
    from ramet.results.transfer import TransferReport

Block: TypeAlias = tuple[Tree, Tree]
"""A block of calls: the tensors that it starts from, and those that it ends with."""


class Editable:
    """The edits of a graph. Nothing is executed before `build`.

    Every edit returns a new, checked Graph and does not change the old one. A place is the
    name of a layer, a path into a nested model such as `encoder/conv`, one call of a shared
    layer such as `conv#2`, or one of several outputs such as `split.1`.
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
        """Select the layers that meet all criteria, in nested models too.

        Inputs are selected only by class or by their exact name.

        Args:
            kind: A class of layers, its name, or a tuple of them.
            name: A glob. With `/` it is a path into nested models, such as
                `encoder/*/attention`; without, the name of a layer wherever it is. A step `**`
                stands for any number of steps.
            regex: A regular expression that occurs in the path.
            where: A function of the live layer that returns whether to select it. It is
                called on operations of `keras.ops` too; one that lacks an attribute that the
                function reads, such as `weights`, is not selected.
            missing_ok: Whether an edit of an empty selection is allowed.

        Returns:
            A selection. It can be edited, and combined with `&`, `|` and `-`.

        Examples:
            >>> graph = ramet.trace(model)
            >>> [*graph.select(kind=layers.Dropout)]
            ['drop']
            >>> [*graph.select(name="*o*", where=lambda layer: bool(layer.weights))]
            ['conv', 'norm']
        """
        return select(
            self._me, kind=kind, name=name, regex=regex, where=where, missing_ok=missing_ok
        )

    def replace(
        self, at: "str | Block | Selection", new: Any, *, weights: Policy = "fit"
    ) -> "Graph":
        """Replace a layer, or a whole block, by another layer.

        The new layer gets the arguments and the consumers of the old one, in all its calls.
        It is copied when the graph is built; the layer that is passed is not changed.

        Args:
            at: The layer; `name#2` replaces it in its second call only. A pair of
                tensors, or of lists of tensors, replaces everything between them.
            new: A layer; a function that returns a new layer for the old one (for the list of
                layers in a block), with the shapes that were traced; or a function of the
                tensors that the old layer is called on, such as `keras.ops.relu` or
                `lambda x: x * 2`. For a selection of several layers, pass a function: every
                place needs its own layer.
            weights: `"fit"` takes over the old layer's weights whose role, meaning and shape
                agree; `"grow"` also keeps the common part where shapes differ, by the meaning of
                each axis; `"tile"` fills the rest by repetition; `"fresh"` takes over nothing.

        Raises:
            GraphError: If there is no such layer, or the new one's name is taken.
            OptionError: If `new` is not a layer.

        Examples:
            >>> graph = ramet.trace(model).replace("relu", layers.PReLU(name="prelu"))
            >>> graph = graph.replace("prelu", keras.ops.silu)
        """
        if isinstance(at, tuple):
            if len(cast("tuple[Any, ...]", at)) != len(("first", "last")):
                message = (
                    f"a block is named by what it starts from and what it ends with, got {len(at)} "
                    "places; pass a pair, of lists where there are several tensors"
                )
                raise OptionError(message)
            return replace_block(self._me, at[0], at[1], new)
        return self._each(at, new, lambda g, place, n: replace_layer(g, place, n, weights))

    def configure(
        self, at: "str | Selection", *, weights: Policy = "fit", **changes: Any
    ) -> "Graph":
        """Change constructor arguments of a layer.

        The layer is re-created from its config with the changes.

        Args:
            at: The layer, or a selection.
            weights: What happens to its weights; see `replace`.
            **changes: The arguments. If there are none, for instance with `weights="grow"`, the
                layer is re-created for another input shape.

        Raises:
            GraphError: If there is no such layer.
            OptionError: If the layer has no such argument, or no config.

        Examples:
            >>> graph = ramet.trace(model).configure("head", units=5, weights="grow")
            >>> graph.build().output_shape
            (None, 5)
        """
        return self._each(at, None, lambda g, place, _: configure_layer(g, place, changes, weights))

    def freeze(self, at: "str | Selection | None" = None) -> "Graph":
        """Freeze layers, so that their weights, and those of all layers inside them, do not train.

        A layer that a later edit adds is trainable.

        Args:
            at: A layer, a nested model, a selection; by default all layers.

        Raises:
            GraphError: If there is no such layer, or it is an operation, which has no weights.

        Examples:
            >>> graph = ramet.trace(model).freeze().unfreeze("head")
            >>> [variable.path for variable in graph.build().trainable_variables]
            ['head/kernel', 'head/bias']
        """
        return set_trainable(self._me, at, trainable=False)

    def unfreeze(self, at: "str | Selection | None" = None) -> "Graph":
        """Make layers, and all layers inside them, trainable; see `freeze`.

        Variables that are never trained, such as moving averages, stay as they are.

        Examples:
            >>> graph = ramet.trace(model).freeze().unfreeze("conv")
        """
        return set_trainable(self._me, at, trainable=True)

    def insert_after(self, at: "str | Ref | Selection", new: Any) -> "Graph":
        """Insert a layer after a tensor and reconnect its consumers.

        Args:
            at: The tensor, or a selection.
            new: A layer with one input and one output, a function that returns one for the
                layer that computes the tensor, or a function of the tensor, such as
                `keras.ops.relu`.

        Examples:
            >>> graph = ramet.trace(model).insert_after("relu", layers.Dropout(0.1, name="noise"))
        """
        return self._each(at, new, insert_after, calls=True)

    def insert_before(self, at: "str | Selection", new: Any) -> "Graph":
        """Insert a layer between a call and its only input tensor.

        Examples:
            >>> graph = ramet.trace(model).insert_before("head", layers.LayerNormalization())
        """
        return self._each(at, new, lambda g, place, n: insert_on(g, place, None, n), calls=True)

    def insert_on(self, at: str, argument: int | str, new: Any) -> "Graph":
        """Insert a layer between a call and one of its input tensors.

        Args:
            at: The call.
            argument: The tensor, by its number among the input tensors, or by keyword.
            new: A layer, a function that returns one for the layer of the call, or a
                function of the tensor.

        Examples:
            >>> graph = ramet.trace(model).insert_on("head", 0, keras.ops.tanh)
        """
        return insert_on(self._me, at, argument, new)

    def remove(self, at: "str | Selection", *, reconnect: Any = None) -> "Graph":
        """Remove a layer and reconnect its consumers.

        Args:
            at: The layer, one call of it, or a selection.
            reconnect: The tensor that replaces its output, or a list of one for each output;
                by default its only input tensor.

        Raises:
            GraphError: If it has several input tensors or outputs and `reconnect` is not
                passed, or a mask that it computes is passed explicitly to another layer.

        Examples:
            >>> graph = ramet.trace(model).remove("drop")
        """
        return self._each(at, None, lambda g, place, _: remove(g, place, reconnect))

    def rewire(self, at: str, argument: int | str, tensor: "str | Ref") -> "Graph":
        """Replace one of the input tensors of a call.

        Args:
            at: The call.
            argument: The tensor to replace, by its number among the input tensors, or by
                keyword.
            tensor: The new tensor.

        Raises:
            GraphError: If there is no such argument or tensor, or a cycle results.

        Examples:
            >>> graph = ramet.trace(model).rewire("relu", 0, "conv").prune_unused()
            >>> "norm" in graph.layers
            False
        """
        return rewire(self._me, at, argument, tensor)

    def rename(self, names: Mapping[str, str]) -> "Graph":
        """Rename layers, by path: `rename({"fc": "head", "enc/a": "b"})`.

        The paths of their variables change accordingly.

        Examples:
            >>> graph = ramet.trace(model).rename({"head": "logits"})
        """
        return rename(self._me, names)

    def prefix(self, text: str) -> "Graph":
        """Prefix the name of every layer, except those inside nested models.

        Examples:
            >>> [*ramet.trace(model).prefix("a_").layers][:2]
            ['a_image', 'a_conv']
        """
        return prefix(self._me, text)

    def flatten(self, at: str | None = None) -> "Graph":
        """Inline nested models: move their layers into this graph, under prefixed names.

        Sharing is kept, and call arguments such as `training` are passed on to the layers
        inside.

        Args:
            at: One nested model; by default all, at any depth.

        Examples:
            >>> outer = keras.Sequential([keras.Input((8, 8, 3)), model], name="outer")
            >>> "classifier_conv" in ramet.trace(outer).flatten().layers
            True
        """
        return flatten(self._me, at)

    def unshare(self, at: "str | Selection") -> "Graph":
        """Give every call of a shared layer its own layer, with the same weights.

        Examples:
            >>> first, second = keras.Input((4,)), keras.Input((4,))
            >>> tower = layers.Dense(2, name="tower")
            >>> siamese = keras.Model([first, second], layers.Add()([tower(first), tower(second)]))
            >>> len(ramet.trace(siamese).unshare("tower").build().weights)
            4
        """
        return self._each(at, None, lambda g, place, _: unshare(g, place))

    def share(self, first: str, *others: str, config: Literal["same", "first"] = "same") -> "Graph":
        """Tie layers of one class: all calls become calls of the first, with its weights.

        Args:
            first: The layer that stays.
            *others: The layers that are removed, with their weights.
            config: `"same"` refuses layers with other constructor arguments than the first;
                `"first"` uses those of the first for all.

        Raises:
            GraphError: If the layers differ in class, in the shapes of their weights, or in
                constructor arguments other than name and `trainable`.

        Examples:
            >>> x = keras.Input((4,))
            >>> y = layers.Dense(4, name="second")(layers.Dense(4, name="first")(x))
            >>> graph = ramet.trace(keras.Model(x, y)).share("first", "second")
            >>> len(graph.build().weights)
            2
        """
        return share(self._me, first, others, config)

    def prune_unused(self) -> "Graph":
        """Remove calls that no output depends on. A built model never has any.

        Examples:
            >>> graph = ramet.trace(model).rewire("head", 0, "pool").prune_unused()
            >>> "drop" in graph.layers
            False
        """
        return cut.prune_unused(self._me)

    def add_output(self, at: "str | Ref", *, name: str | None = None) -> "Graph":
        """Add a tensor to the model's outputs; it may be inside a nested model.

        Args:
            at: The tensor.
            name: Its key, for a model whose outputs are a dict.

        Examples:
            >>> graph = ramet.trace(model).add_output("pool")
            >>> graph.build().output_shape
            [(None, 3), (None, 4)]
        """
        return cut.add_output(self._me, at, name)

    def extract(self, *, inputs: Tree = None, outputs: Tree = None) -> "Graph":
        """Extract a part, as a plain Functional model that is not compiled.

        An input tensor that carries a mask becomes two inputs, the second one for the mask:
        the part takes a dict, `{"x": ..., "x_mask": ...}`. The mask may be `None` if every
        layer that uses it accepts `None`.

        Args:
            inputs: Tensors to start from: a name, a list, or a dict of names; by default
                the model inputs that the outputs depend on.
            outputs: Tensors to end with, in the same form; the model's outputs by default.

        Raises:
            GraphError: If a tensor is unknown, or the outputs depend on another input.

        Examples:
            >>> features = ramet.trace(model).extract(outputs="relu").build()
            >>> features.output_shape
            (None, 8, 8, 4)
        """
        return cut.extract(self._me, inputs, outputs)

    def split(self, at: Tree) -> "tuple[Graph, Graph]":
        """Split the graph in two: `tail(head(x))` computes the same as the model.

        If there are several tensors, or one that carries a mask, the head returns a dict of
        tensors and masks, which is the input of the tail.

        Args:
            at: A tensor, or a list of tensors, between inputs and outputs.

        Examples:
            >>> head, tail = (part.build() for part in ramet.trace(model).split("pool"))
            >>> tail(head(np.ones((1, 8, 8, 3)))).shape == (1, 3)
            True
        """
        return cut.split(self._me, at)

    def stages(
        self,
        n: int,
        *,
        by: Literal["macs", "params", "memory"] = "macs",
        shapes: Any = None,
    ) -> "tuple[Graph, ...]":
        """Cut the graph into stages for a pipeline: the outputs of each are the inputs of the next.

        Tensors that several later stages need, and their masks, are passed on from stage to stage.
        `for stage in stages: x = stage(x)` computes the same as the model. The largest stage
        costs at most a tenth more than it has to, and cuts are where few bytes cross. A layer
        that several stages call has weights of its own in each, unless the stages are built
        with `weights="share"`; then the journal says so. Nested models are not cut: `flatten`
        them before if they are large. An edited graph is built first, on the same weights.

        Args:
            n: How many stages.
            by: What to balance: multiply-accumulates, number of weights, or bytes of weights
                and activations.
            shapes: Sizes of the inputs that the model leaves open; see `ramet.profile`.

        Raises:
            GraphError: If there are fewer calls than stages, or what is to be balanced is not
                known for a call.
            OptionError: If `n`, `by` or `shapes` is not valid.

        Examples:
            >>> first, second = (part.build() for part in ramet.trace(model).stages(2))
            >>> images = np.ones((1, 8, 8, 3), "float32")
            >>> bool(keras.ops.all(second(first(images)) == model(images)))
            True
        """
        return self.live_origin().stages(self._me, n, by, shapes)

    def with_inputs(self, inputs: Any = None, **options: Any) -> "Graph":
        """Replace inputs of the model.

        Args:
            inputs: A `keras.Input` for a model with one input, or a dict of them by the names
                of the old ones.
            **options: For a model with one input, what differs from the old one:
                `shape`, `batch_size`, `dtype`, `sparse`, `optional`, `name`.

        Examples:
            >>> graph = ramet.trace(model).with_inputs(shape=(16, 16, 3))
            >>> graph.build().input_shape
            (None, 16, 16, 3)
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
        """Apply an edit at one place, or at every place of a selection."""
        graph = self._me
        if not isinstance(at, Selection):
            return change(graph, at, new)
        at.need()
        places = at.calls() if calls else [*at]
        if len(places) > 1 and new is not None and graph.live_origin().is_layer(new):
            message = (
                f"cannot use one layer at {len(places)} places of graph '{graph.name}'; pass a "
                f"function that makes one for each, such as lambda old: {type(new).__name__}(...)"
            )
            raise OptionError(message)
        for place in places:
            graph = change(graph, place, new)
            if len(places) > 1:
                graph = without_stages(self._me, graph)
        return with_one_entry_for(self._me, graph, at)

    def transfer_report(self, *, weights: Weights = "copy") -> "TransferReport":
        """Report what happens to every variable, including those that are dropped.

        Builds the graph to find out.

        Args:
            weights: How it is built; see `build`.

        Examples:
            >>> graph = ramet.trace(model).configure("head", units=5, weights="grow")
            >>> [change.path for change in graph.transfer_report().of("grown")]
            ['head/kernel', 'head/bias']
        """
        return self.live_origin().transfer_report(self._me, weights)

    @property
    def _me(self) -> "Graph":
        return cast("Graph", self)

    def live_origin(self) -> Origin:
        """Return where the graph was traced from.

        Raises:
            GraphError: If it was written by hand, or unpickled.

        Examples:
            >>> ramet.trace(model).live_origin().model is model
            True
        """
        if self.origin is None:
            message = (
                f"graph '{self.name}' was not traced from a model in this process, so there are no "
                "layers to build it with; trace the model again, with ramet.trace(model)"
            )
            raise GraphError(message)
        return self.origin
