"""The edits of a Graph, as its methods."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast

from ramet.errors import GraphError
from ramet.graph import cut, edit
from ramet.graph.parts import Call, Layer, Ref, Spec
from ramet.graph.tree import Tree

if TYPE_CHECKING:
    from ramet.graph.core import Graph


class Origin(Protocol):
    """Where a graph was read from: the way to live layers and back to a model."""

    def build(self, graph: "Graph", *, weights: str, seed: int | None, name: str | None) -> Any:
        """Makes a model of the graph."""
        ...

    def part(self) -> "Origin":
        """Returns the origin of a graph that is only a part of this one."""
        ...

    def is_layer(self, given: Any) -> bool:
        """Tells whether something is a live layer."""
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

    def replace(self, at: str, new: Any) -> "Graph":
        """Puts a layer in the place of another.

        The new layer takes the arguments and the readers of the old one, in all its
        calls, and its weights as far as role and shape fit. It is copied when the
        graph is built; the one that is given stays untouched.

        Args:
            at: The layer; `name#2` replaces it in its second call only.
            new: A layer, or a function from the old layer to a new one.

        Raises:
            GraphError: If there is no such layer, or the new one's name is taken.
            OptionError: If `new` is not a layer.
        """
        return edit.replace_layer(self._me, at, new)

    def configure(self, at: str, **changes: Any) -> "Graph":
        """Gives a layer other constructor arguments, so that they take effect.

        The layer is made again from its config with the changes; its weights are
        kept where shapes allow.

        Raises:
            GraphError: If there is no such layer.
            OptionError: If it has no such argument, or no config.
        """
        return edit.configure_layer(self._me, at, changes)

    def insert_after(self, at: "str | Ref", new: Any) -> "Graph":
        """Lets a new layer read a tensor, and all its readers read the new layer.

        Args:
            at: The tensor.
            new: A layer with one input and one output, or a function from the layer
                that makes the tensor to one.
        """
        return edit.insert_after(self._me, at, new)

    def insert_before(self, at: str, new: Any) -> "Graph":
        """Lets a new layer stand between a call and the one tensor that it takes."""
        return edit.insert_on(self._me, at, None, new)

    def insert_on(self, at: str, argument: int | str, new: Any) -> "Graph":
        """Lets a new layer stand between a call and one of the tensors that it takes.

        Args:
            at: The call.
            argument: Which tensor: its number among those that the call takes, or a
                keyword.
            new: A layer, or a function from the layer of the call to one.
        """
        return edit.insert_on(self._me, at, argument, new)

    def remove(self, at: str, *, reconnect: Any = None) -> "Graph":
        """Takes a layer out.

        Args:
            at: The layer, or one call of it.
            reconnect: The tensor that its readers read instead, a list of one for each
                output; by default the only one that the layer takes.

        Raises:
            GraphError: If it takes or gives several tensors and `reconnect` is not
                given, or the author passes on a mask that the layer makes.
        """
        return edit.remove(self._me, at, reconnect)

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

    def extract(self, *, inputs: Tree = None, outputs: Tree = None) -> "Graph":
        """Cuts out a part, as a plain Functional model that is not compiled.

        A tensor among the inputs that carries a mask brings a second input along,
        `<name>_mask`, for the mask: a model of inputs `[x, x_mask]`, which also takes
        a dict by these names. The mask may be `None` where every layer that reads it
        can do without.

        Args:
            inputs: Tensors to start from: a name, a list, or a dict of names; the
                model's own inputs by default, as far as they are needed.
            outputs: Tensors to end with, in the same way; the model's own by default.

        Raises:
            GraphError: If a tensor is unknown, or the part depends on something else.
        """
        return cut.extract(self._me, inputs, outputs)

    def split(self, at: "str | Ref") -> "tuple[Graph, Graph]":
        """Cuts the graph in two at one tensor: `tail(head(x))` is the model again.

        If the tensor carries a mask, the head gives a dict of tensor and mask, which
        the tail takes.
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
