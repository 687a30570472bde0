"""What becomes of the kernel and bias of one layer while its neighbours are folded into it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ramet.compress.folding import arrays
from ramet.compress.folding.affine import Affine
from ramet.compress.folding.linear import Linear
from ramet.graph import Layer
from ramet.graph.edits.remake import Remade
from ramet.graph.values import Value, Variable


@dataclass(frozen=True)
class Window:
    """A convolution in the window of a larger one that it is merged into."""

    weights: "Weights | None"
    """Its weights; `None` for a branch that returns its input."""
    offset: tuple[int, ...]
    """Where its kernel begins in the window."""
    scale: Affine | None = None
    """What such a branch does to its input."""

    def after(self, affine: Affine) -> "Window":
        """Return the window with its outputs scaled."""
        return self._with(lambda weights: weights.after(affine.without_shift()), affine)

    def before(self, affine: Affine) -> "Window":
        """Return the window with its inputs scaled and shifted first."""
        return self._with(lambda weights: weights.before(affine), affine, first=True)

    def _with(
        self, change: Callable[["Weights"], "Weights"], affine: Affine, *, first: bool = False
    ) -> "Window":
        if self.weights is not None:
            return replace(self, weights=change(self.weights))
        own = self.scale or Affine(None, None, None)
        shift = arrays.times(affine.shift, own.scale) if first else None
        moved = own.shift if first or own.shift is None else arrays.times(own.shift, affine.scale)
        axis = affine.axis if own.axis is None else own.axis
        scale = arrays.times(own.scale, affine.scale)
        return replace(self, scale=Affine(scale, arrays.plus(shift, moved), axis))


@dataclass(frozen=True)
class Weights:
    """The weights of one layer: `(kernel * out * into) @ x + bias`."""

    layer: Layer
    """The record of the layer, whose variables they are computed from."""
    rule: Linear
    """Where its channels are."""
    out: Value | None = None
    """What scales its output channels."""
    into: Value | None = None
    """What scales its input channels."""
    bias: Value | None = None
    """Its bias."""
    windows: tuple[Window, ...] = ()
    """The parallel branches that it becomes the sum of, itself first."""
    size: tuple[int, ...] = ()
    """The size of the kernel that they fit into."""

    @classmethod
    def of(cls, layer: Layer, rule: Linear) -> "Weights":
        """Return the weights as they are."""
        return cls(layer, rule, bias=Variable(layer, ("bias",)) if rule.has_bias else None)

    def after(self, affine: Affine) -> "Weights":
        """Return the weights of the layer with its outputs scaled and shifted."""
        scale, shift = (
            None if each is None else arrays.along(each, *self.rule.bias_axis)
            for each in (affine.scale, affine.shift)
        )
        bias = None if self.bias is None else arrays.times(self.bias, scale)
        return replace(
            self,
            out=arrays.times(self.out, affine.scale),
            bias=arrays.plus(bias, shift),
            windows=tuple(window.after(affine) for window in self.windows),
        )

    def before(self, affine: Affine) -> "Weights":
        """Return the weights of the layer with its inputs scaled and shifted first."""
        bias = self.bias
        if affine.shift is not None:
            bias = arrays.plus(bias, arrays.times(self._shifted(affine.shift), self.out))
        into = arrays.times(self.into, affine.scale)
        windows = tuple(window.before(affine) for window in self.windows)
        return replace(self, into=into, bias=bias, windows=windows)

    def placed(self, offset: tuple[int, ...]) -> tuple[Window, ...]:
        """Return the branches that it is the sum of, or itself, in a larger window."""
        if not self.windows:
            return (Window(self, offset),)
        _, *others = self.windows
        shifts = [tuple(map(sum, zip(each.offset, offset, strict=True))) for each in self.windows]
        own = Window(replace(self, windows=(), size=()), shifts[0])
        moved = zip(others, shifts[1:], strict=True)
        return own, *(replace(each, offset=shift) for each, shift in moved)

    def _shifted(self, shift: Value) -> Value:
        """Return what the layer computes for inputs that are the same everywhere."""
        name, spread = self.rule.inner
        inputs = arrays.times(self.into, shift)
        summed = self.rule.sums or ()
        total = arrays.contracted(self._variable(name), inputs, spread, summed)
        if self.rule.is_separable:
            return arrays.mixed(total, self._variable(self.rule.outer[0]))
        return arrays.flat(total)

    def _variable(self, name: str) -> Variable:
        return Variable(self.layer, (name,))

    def remade(self) -> Remade:
        """Return what becomes of the layer."""
        changes: dict[str, Any] = {}
        recipe = {(name,): value for name, value in self.kernels(cast=True).items()}
        if self.windows:
            (name,) = recipe.keys()
            recipe[name] = arrays.cast_like(self._merged(), self._variable(name[0]))
            changes["kernel_size"] = self.size
        bias = self.whole_bias()
        if bias is not None:
            recipe["bias",] = bias
            changes |= {} if self.rule.has_bias else self.rule.with_bias
        return Remade(changes or None, recipe)

    def kernels(self, *, cast: bool) -> dict[str, Value]:
        """Return the kernels, by name."""
        sides: dict[str, dict[str, Any]] = {}
        for (name, spread), side, factor in (
            (self.rule.inner, "into", self.into),
            (self.rule.outer, "out", self.out),
        ):
            sides.setdefault(name, {})[side] = None if factor is None else (factor, spread)
        return {
            name: arrays.kernel(self._variable(name), both.get("out"), both.get("into"), cast=cast)
            for name, both in sides.items()
        }

    def whole(self) -> list[Value]:
        """Return all that the layer is to hold, in float64."""
        kernels = [self._merged()] if self.windows else [*self.kernels(cast=False).values()]
        bias = self.whole_bias()
        return kernels if bias is None else [*kernels, bias]

    def whole_bias(self) -> Value | None:
        """Return the bias, with one number for each channel; `None` if there is none."""
        name, spread = self.rule.outer
        bias = self.bias
        for window in self.windows:
            if window.weights is None and window.scale is not None:
                bias = arrays.plus(bias, window.scale.shift)
            elif window.weights is not None and window.weights.layer is not self.layer:
                bias = arrays.plus(bias, window.weights.bias)
        if bias is None or self.rule.has_bias:
            return bias
        return arrays.full(bias, self._variable(name), spread)

    def _merged(self) -> Value:
        """Return the sum of the kernels of all branches."""
        kernels: list[tuple[Value, tuple[int, ...]]] = []
        (name,) = {self.rule.inner[0], self.rule.outer[0]}
        depthwise = self.rule.outer[1][0] == "pairs"
        for window in self.windows:
            if window.weights is None:
                scale = None if window.scale is None else window.scale.scale
                kernel = arrays.identity(self._variable(name), depthwise=depthwise, scale=scale)
            else:
                (kernel,) = window.weights.kernels(cast=False).values()
            kernels.append((kernel, window.offset))
        return arrays.summed(kernels, self.size)
