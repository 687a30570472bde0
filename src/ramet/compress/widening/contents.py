"""What new channels hold in every tensor, when the layers that make them write averages or zeros.

A LayerNormalization computes the same of the old channels if the new ones hold the average of
all old ones: then the mean stays, and the variance shrinks by a known factor. What divides by
a sum of squares needs zeros instead. So the contents of new channels are followed from call to
call: both kinds pass through linear layers without a weight for each channel, and get lost in
others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from ramet.backends import is_of_keras
from ramet.compress.channels.atoms import Labels
from ramet.compress.channels.follow import Channels, Identity
from ramet.compress.channels.rules.normalizing import axes_of
from ramet.compress.channels.rules.zeros import KEEPING
from ramet.compress.channels.site import Axis, Flow, Site, Tensor

Kind: TypeAlias = Literal["average", "zeros", "copies", "other"]


@dataclass(frozen=True)
class Content:
    """What new channels hold in a tensor."""

    kind: Kind
    """The average of the old ones, zeros, copies of old ones, or something else."""
    why: str = ""
    """Where it became so."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NORMS = _names(
    "LayerNormalization RMSNormalization GroupNormalization UnitNormalization Normalize"
)
_SQUARES = _names("RMSNormalization UnitNormalization Normalize")
_PASSING = _names(
    "Identity Dropout BaseSpatialDropout ActivityRegularization StochasticDepth GaussianDropout "
    "GaussianNoise AlphaDropout "
    "Reshape Flatten Ravel Permute Transpose Swapaxes Moveaxis ExpandDims Squeeze RepeatVector "
    "BroadcastTo Flip GetItem Split ArraySplit Concatenate Stack Repeat Tile AveragePool "
    "AveragePooling1D AveragePooling2D AveragePooling3D GlobalAveragePooling1D "
    "GlobalAveragePooling2D GlobalAveragePooling3D BaseAdaptiveAveragePooling ZeroPadding1D "
    "ZeroPadding2D ZeroPadding3D Cropping1D Cropping2D Cropping3D UpSampling1D UpSampling2D "
    "UpSampling3D Negative Copy StopGradient"
)
"""Layers that treat channels alike, and add nothing."""
_RANDOM = _names("Dropout BaseSpatialDropout GaussianDropout GaussianNoise AlphaDropout")
"""Layers that treat channels differently in training."""
_SUMS = _names("Add Subtract Average")
_ZERO_KEEPING = _names(
    "BatchNormalization LayerScale PReLU LeakyReLU ELU MaxPooling1D MaxPooling2D MaxPooling3D "
    "BaseGlobalPooling MaxPool BasePooling Maximum Minimum Tanh Sin Silu Gelu Elu Selu Mish "
    "Softsign LeakyRelu"
)
"""Layers that return zeros for zeros, and pass gradients there."""
_MAKERS = _names(
    "Dense EinsumDense Embedding BaseConv BaseConvTranspose BaseSeparableConv "
    "MultiHeadAttention GroupedQueryAttention"
)
_RECURRENT = _names("RNN Bidirectional ConvLSTM TimeDistributed StackedRNNCells")
_DEAD = _names("relu relu6 hard_shrink soft_shrink tanh_shrink")
"""Functions of which nothing is learned at zero."""


@dataclass
class Contents:
    """What new channels of one group hold, tensor by tensor."""

    channels: Channels
    """The channels of the graph."""
    numbers: Mapping[int, int]
    """The number of the channel of each atom of the group; -2 for products with other channels."""
    size: int
    """How many channels there are."""
    kind: Kind
    """What the layers that make the channels write."""
    shifts: bool = False
    """Whether new channels of a LayerNormalization get offsets, and are no zeros after it."""
    problems: list[str] = field(default_factory=list[str])
    """Why the function would not stay the same."""
    norms: list[tuple[Identity, Site]] = field(default_factory=list[tuple[Identity, Site]])
    """The layers that normalize, and have to be scaled."""
    settled: set[str] = field(default_factory=set[str])
    """The names of layers that compute the same in spite of mixing channels, in all calls."""
    is_random: bool = False
    """Whether a layer treats channels differently in training."""
    reads: dict[Identity, list[Content]] = field(default_factory=dict[Identity, list[Content]])
    """What layers are called on, by identity."""
    writes: dict[Identity, list[Content]] = field(default_factory=dict[Identity, list[Content]])
    """What layers return, by identity."""
    _unsettled: set[str] = field(default_factory=set[str])
    _held: dict[int, Content] = field(default_factory=dict[int, Content])
    _known: dict[int, Labels] = field(default_factory=dict[int, Labels])

    def follow(self) -> "Contents":
        """Follow all calls."""
        identities = {id(flow): identity for identity, flow in self.channels.flows.items()}
        for site, outputs in self.channels.steps:
            identity = identities[id(site.flow)]
            seen = [tensor for tensor in site.tensors() if self._axes(tensor)]
            given = [tensor for tensor in outputs if self._axes(tensor)]
            if not seen and not given:
                continue
            contents = [self._content(tensor) for tensor in seen]
            self.reads.setdefault(identity, []).extend(contents)
            content = self._after(identity, site, seen, given)
            for tensor in given:
                self._held[id(tensor)] = content
            self.writes.setdefault(identity, []).extend([content] * len(given))
        self.settled -= self._unsettled
        return self

    def _settle(self, site: Site, *, settled: bool) -> None:
        """Note whether a call computes the same in spite of mixing channels."""
        (self.settled if settled else self._unsettled).add(site.name)

    # --- where the channels are ---

    def numbers_of(self, axis: Axis) -> Labels:
        """Return the number of the channel at each index of an axis; -1 for other channels."""
        if id(axis) not in self._known:
            roots = self.channels.atoms.roots(axis.label()).tolist()
            self._known[id(axis)] = np.array([self.numbers.get(a, -1) for a in roots], np.int64)
        return self._known[id(axis)]

    def is_in(self, axis: Axis) -> bool:
        """Whether channels of the group are along an axis."""
        return axis.labels is not None and bool((self.numbers_of(axis) != -1).any())

    def is_whole(self, axis: Axis) -> bool:
        """Whether exactly the channels of the group are along an axis."""
        return np.array_equal(self.numbers_of(axis), np.arange(self.size))

    def _axes(self, tensor: Tensor) -> list[int]:
        return [i for i, axis in enumerate(tensor) if self.is_in(axis)]

    def _content(self, tensor: Tensor) -> Content:
        return self._held.get(id(tensor)) or Content("other", "what it is there is not known")

    def _in_blocks(self, tensor: Tensor) -> bool:
        """Whether the channels are along one axis, all of them one after the other."""
        axes = self._axes(tensor)
        if len(axes) != 1:
            return False
        numbers = self.numbers_of(tensor[axes[0]])
        numbers = numbers[numbers != -1]
        return len(numbers) % self.size == 0 and bool(
            (numbers.reshape(-1, self.size) == np.arange(self.size)).all()
        )

    # --- what becomes of them ---

    def _after(
        self, identity: Identity, site: Site, seen: Sequence[Tensor], given: Sequence[Tensor]
    ) -> Content:
        """Return what new channels hold in the outputs of a call."""
        kinds = _kinds(site.layer)
        contents = [self._content(tensor) for tensor in seen]
        if kinds & _RANDOM and any(each.kind != "other" for each in contents):
            self.is_random = True
        if self.kind == "copies" and kinds & _RECURRENT and _drops(site.layer):
            self.is_random = True
        if self.kind == "copies":
            if kinds & _NORMS and seen:
                self._check_copies(site, seen[0])
            return Content("copies")
        if kinds & _NORMS:
            content = self._normalized(identity, site, kinds, seen[0])
        elif kinds & _MAKERS and any(self.is_in(axis) for axis in site.flow.made.values()):
            content = self._made(site, kinds, contents)
        elif kinds & _RECURRENT:
            content = Content("other", f"after {site.name}")
        else:
            content = self._passed(site, kinds, seen, contents)
        whole = content.kind != "average" or all(map(self._in_blocks, given))
        return content if whole else Content("other", f"in pieces after {site.name}")

    def _check_copies(self, site: Site, tensor: Tensor) -> None:
        """Note that a layer which normalizes sees every channel equally often, or why not."""
        at = [i for i in self._axes(tensor) if _normalizes(site, i, len(tensor))]
        equal = bool(at) and all((self.numbers_of(tensor[i]) != -1).all() for i in at)
        is_average = not {"UnitNormalization", "Normalize"} & _kinds(site.layer)
        self._settle(site, settled=equal and is_average)

    def _normalized(
        self, identity: Identity, site: Site, kinds: frozenset[str], tensor: Tensor
    ) -> Content:
        content, rank = self._content(tensor), len(tensor)
        at = [i for i in self._axes(tensor) if _normalizes(site, i, rank)]
        if "GroupNormalization" in kinds or not at:
            return Content("other", f"after {site.name}")
        needed: Kind = "zeros" if kinds & _SQUARES else "average"
        problem = self._why_not(site, tensor, at)
        if problem:
            self.problems.append(problem)
        elif content.kind != needed:
            wanted = "zeros" if needed == "zeros" else "the average of the old ones"
            has = {"zeros": "zeros", "average": "averages"}.get(content.kind, "something else")
            self.problems.append(
                f"{site.name} computes statistics of all channels, so new ones would have to hold "
                f"{wanted}, but they hold {has} {content.why}"
            )
        self._settle(site, settled=True)
        if kinds & {"LayerNormalization", "RMSNormalization"}:
            self.norms.append((identity, site))
        if self.shifts and "LayerNormalization" in kinds:
            return Content("other", f"after {site.name}")
        return Content("zeros", f"after {site.name}")

    def _why_not(self, site: Site, tensor: Tensor, at: Sequence[int]) -> str:  # noqa: PLR0911 each is a reason
        """Return why a layer cannot be scaled such that it computes the same."""
        layer = site.layer
        if len(axes_of(layer.axis, len(tensor))) > 1:
            return f"{site.name} normalizes several axes together"
        if not self.is_whole(tensor[at[0]]):
            return f"{site.name} normalizes other channels together with these"
        if getattr(layer, "order", 2) != 2:  # noqa: PLR2004 the usual norm
            return f"{site.name} has a norm of another order"
        if getattr(layer, "rms_scaling", False):
            return f"{site.name} has rms_scaling"
        if "LayerNormalization" in _kinds(layer) and not site.size_of("gamma"):
            return f"{site.name} computes statistics of all channels, and has no gamma to be scaled"
        if self.shifts and not site.size_of("beta"):
            return f"{site.name} has no beta, and nothing is learned at zero after it"
        return ""

    def _made(self, site: Site, kinds: frozenset[str], reads: Sequence[Content]) -> Content:
        name = _activation(site.layer)
        where = f"after {site.name}"
        if "Embedding" in kinds and site.shapes and any(self.is_in(a) for a in site.tensor()):
            has_own = bool(site.size_of("reverse_embeddings"))
            if not has_own and any(content.kind != "zeros" for content in reads):
                self.problems.append(f"{site.name} reads its own weights, and would need zeros")
            self._settle(site, settled=True)
            return Content("other", where)
        if not all(self.is_whole(axis) for axis in site.flow.made.values() if self.is_in(axis)):
            return Content("other", f"{where}, which makes other channels too")
        if name == "linear":
            return Content(self.kind, where)
        if self.kind == "zeros" and name in KEEPING and name not in _DEAD:
            return Content("zeros", where)
        return Content("other", f"after the {name} of {site.name}")

    def _passed(
        self,
        site: Site,
        kinds: frozenset[str],
        seen: Sequence[Tensor],
        contents: Sequence[Content],
    ) -> Content:
        """Return what new channels hold after something that makes no channels."""
        found = {content.kind for content in contents}
        if "Multiply" in kinds:
            return self._multiplied(site, seen, contents)
        if "other" in found:
            return next(content for content in contents if content.kind == "other")
        if kinds & _SUMS and not hasattr(site.layer, "axis"):
            return self._added(site, contents)
        passes = kinds & _PASSING or self._is_linear(site, kinds)
        if len(found) == 1 and (passes or ("zeros" in found and self._keeps_zeros(site, kinds))):
            return contents[0]
        return Content("other", f"after {site.name}")

    def _added(self, site: Site, contents: Sequence[Content]) -> Content:
        operands = site.tensors()
        constants = [v for name in ("x1", "x2") if (v := site.constants.get(name)) is not None]
        found = {content.kind for content in contents}
        if len(found) > 1:
            zeros = next(content for content in contents if content.kind == "zeros")
            return Content("other", f"after {site.name}, which adds zeros {zeros.why} to averages")
        # What is added to all channels alike is in their average too.
        alike = len(operands) == len(contents) and not constants
        if "zeros" in found and not alike:
            return Content("other", f"after {site.name}")
        arrays = [value for value in constants if np.ndim(value)]
        if any(np.asarray(value).dtype.kind != "f" for value in arrays):
            return Content("other", f"after {site.name}")
        return contents[0]

    def _multiplied(
        self, site: Site, seen: Sequence[Tensor], contents: Sequence[Content]
    ) -> Content:
        found = {content.kind for content in contents}
        if "zeros" in found:
            return next(content for content in contents if content.kind == "zeros")
        arrays = any(np.ndim(value) for value in site.constants.values() if value is not None)
        if found == {"average"} and len(seen) == 1 and not arrays:
            return contents[0]
        return Content("other", f"after {site.name}")

    def _is_linear(self, site: Site, kinds: frozenset[str]) -> bool:
        """Whether a layer along other axes is linear, and treats all channels alike."""
        if "Rescaling" in kinds:
            return not site.layer.offset
        if "Cast" in kinds:
            return "float" in str(site.layer.dtype)
        if kinds & {"Mean", "Sum"}:
            return self._is_settled_reduction(site, kinds)
        return "Dense" in kinds and _activation(site.layer) == "linear" and not site.layer.use_bias

    def _is_settled_reduction(self, site: Site, kinds: frozenset[str]) -> bool:
        tensor = site.tensor()
        given = site.layer.axis
        gone = [*range(len(tensor))] if given is None else axes_of(given, len(tensor))
        if not {*gone} & {*self._axes(tensor)}:
            return True
        wanted = "average" if "Mean" in kinds else "zeros"
        whole = all(self.is_whole(tensor[i]) for i in self._axes(tensor))
        self._settle(site, settled=whole and self._content(tensor).kind == wanted)
        return True

    def _keeps_zeros(self, site: Site, kinds: frozenset[str]) -> bool:
        layer = site.layer
        name = _activation(layer)
        if "Activation" in kinds or "BaseDepthwiseConv" in kinds:
            if name in _DEAD:
                self.shifts_wanted(site)
            return name in KEEPING and name not in _DEAD
        if kinds & {"ReLU", "Relu", "Relu6"}:
            self.shifts_wanted(site)
            return False
        return bool(kinds & _ZERO_KEEPING)

    def shifts_wanted(self, site: Site) -> None:
        """Note that nothing would be learned at zero."""
        if not self.shifts:
            self.problems.append(f"{site.name} learns nothing where its input is zero")


def _normalizes(site: Site, axis: int, rank: int) -> bool:
    """Whether a layer computes statistics along an axis."""
    if "GroupNormalization" in _kinds(site.layer):
        return axis != 0
    return axis in axes_of(site.layer.axis, rank)


def _kinds(layer: Any) -> frozenset[str]:
    """Return the names of the classes of Keras that a layer is of."""
    return frozenset(cls.__name__ for cls in type(layer).__mro__ if is_of_keras(cls))


def _drops(layer: Any) -> bool:
    """Whether a recurrent layer drops some of its inputs or states in training."""
    parts = [layer, *(getattr(layer, name, None) for name in ("cell", "forward_layer", "layer"))]
    return any(getattr(part, f"{of}dropout", 0) for part in parts for of in ("", "recurrent_"))


def _activation(layer: Any) -> str:
    """Return the name of what a layer applies to its outputs."""
    function = getattr(layer, "activation", None)
    return "linear" if function is None else getattr(function, "__name__", "activation")


def starts_of(contents: Contents, flow: Flow, identity: Identity) -> dict[Any, dict[Any, Any]]:
    """Return how the variables of a layer start, by role and by what they do with the channels."""
    reads = contents.reads.get(identity, [])
    writes = contents.writes.get(identity, [])
    if _kinds(flow.live) & _RECURRENT:
        reads = [*reads, *writes]
    zeros_in = bool(reads) and all(content.kind == "zeros" for content in reads)
    makes = any(contents.is_in(axis) for axis in flow.made.values())
    out = {content.kind for content in writes}
    made = "random"
    if out == {"zeros"}:
        made = "zeros"
    elif out == {"average"} and makes:
        made = "average"
    starts: dict[Any, dict[Any, Any]] = {}
    for role, weight in flow.weights.items():
        if any(contents.is_in(axis) for axis, _ in weight.axes):
            starts[role] = {"read": "random" if zeros_in else "zeros", "made": made}
    return starts
