"""The adapters of one layer: their factors, as the variables of a layer inside it."""

import re
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any

import keras
from keras import ops

from ramet import keras_internals as internals
from ramet.layers.dropout import Beside, with_paths
from ramet.layers.entries import Entry, Target, entry_of
from ramet.layers.factors import Factors, loss, update
from ramet.layers.kernels import kernel_at

_ZERO, _ONE = keras.initializers.Zeros(), keras.initializers.Ones()


class Adapters(keras.layers.Layer):
    """The adapters of one layer.

    Each has factors for each of its kernels, and a weight: 1 if it is in use, 0 if not, or any
    other number where several are added up.
    """

    def __init__(self, entries: Iterable[Any] = (), **kwargs: Any) -> None:
        """Create the variables of some adapters, with factors that are zero.

        Args:
            entries: The adapters, as plain data.
            **kwargs: Those of a layer.
        """
        super().__init__(**{"name": "adapters", "dtype": "float32"} | kwargs)
        self._entries: tuple[Entry, ...] = ()
        self.seed_generator: Any = None
        self.built = True
        for plain in entries:
            self.add(plain if isinstance(plain, Entry) else entry_of(plain))

    @property
    def entries(self) -> tuple[Entry, ...]:
        """What is known of the adapters."""
        return self._entries

    def entry(self, name: str) -> Entry | None:
        """Return what is known of one adapter; `None` if there is none of that name."""
        return next((each for each in self._entries if each.name == name), None)

    def add(self, entry: Entry) -> None:
        """Add an adapter whose factors are zero."""
        with internals.unlocked(self):
            if self.seed_generator is None and any(each.dropout for each in entry.targets):
                self.seed_generator = keras.random.SeedGenerator(0, name="seed_generator")
            self._new(entry, "weight", (), trainable=False, start=_ONE)
            for number, target in enumerate(entry.targets):
                inside, outside = target.sizes
                self._new(entry, f"{number}_down", (inside, target.rank))
                self._new(entry, f"{number}_up", (target.rank, outside))
                if entry.variant == "dora":
                    self._new(entry, f"{number}_length", (outside,))
        self._entries = (*self._entries, entry)
        self.settle()

    def _new(
        self,
        entry: Entry,
        role: str,
        shape: tuple[int, ...],
        *,
        trainable: bool = True,
        start: Any = _ZERO,
    ) -> None:
        name = f"{entry.name}_{role}"
        self.add_weight(shape=shape, initializer=start, trainable=trainable, name=name)

    def remove(self, name: str) -> None:
        """Remove an adapter."""
        gone = [each for each in internals.own_variables(self) if _belongs(each, name)]
        internals.remove_variables(self, gone)
        self._entries = tuple(each for each in self._entries if each.name != name)

    def change(self, entry: Entry) -> None:
        """Replace what is known of the adapter of a name; its kernels stay the same."""
        self._entries = tuple(entry if each.name == entry.name else each for each in self._entries)
        self.settle()

    def settle(self) -> None:
        """Let those factors train that are to train."""
        for entry in self._entries:
            trains = entry.trains and self.trainable
            for variable in internals.own_variables(self):
                if _belongs(variable, entry.name):
                    variable.trainable = trains and not variable.name.endswith("_weight")

    def named(self) -> dict[str, Any]:
        """Return the variables by name."""
        return {variable.name: variable for variable in internals.own_variables(self)}

    def of(self, entry: Entry) -> list[Any]:
        """List the factors of an adapter."""
        own = [each for each in internals.own_variables(self) if _belongs(each, entry.name)]
        return [each for each in own if not each.name.endswith("_weight")]

    def weight(self, entry: Entry) -> Any:
        """Return the variable that says how much of an adapter is in use."""
        return self.named()[f"{entry.name}_weight"]

    def factors(self, entry: Entry, number: int) -> Factors:
        """Return the factors of an adapter for one of its kernels."""
        held = self.named()
        down, up = (held[f"{entry.name}_{number}_{role}"] for role in ("down", "up"))
        return Factors(down, up, held.get(f"{entry.name}_{number}_length"))

    def by_kernel(self) -> dict[tuple[str, str], list[tuple[Entry, Target, Factors]]]:
        """Return the adapters of each kernel, by where it is."""
        kernels: dict[tuple[str, str], list[tuple[Entry, Target, Factors]]] = {}
        for entry in self._entries:
            for number, target in enumerate(entry.targets):
                at = target.held, target.variable
                kernels.setdefault(at, []).append((entry, target, self.factors(entry, number)))
        return kernels

    @contextmanager
    def applied(self, layer: Any) -> Generator[Callable[..., Any] | None]:
        """Let the kernels of a layer be read as they are with the adapters that are in use.

        To what a quantized layer computes with its integers, the product of factors is added.

        Yields:
            What is called instead of the layer's own call, if an update reads other inputs.
        """
        values: list[tuple[Any, Any]] = []
        lent: list[tuple[Any, Any, Any]] = []
        calls: list[tuple[Any, Callable[..., Any]]] = []
        training = self.seed_generator is not None and internals.is_training()
        with internals.uncast():
            for (held, name), adapters in self.by_kernel().items():
                found = kernel_at(layer, held, name)
                if found is None:
                    continue
                beside = [each for each in adapters if training and each[1].dropout]
                within = [each for each in adapters if not (training and each[1].dropout)]
                if not is_quantized(found[1]):
                    own = ops.convert_to_tensor(found[1]).dtype
                    kernel = ops.cast(self.adapted(found[1], within), own)
                    values.append((found[1], kernel))  # what merging assigns
                elif within:
                    lent.append((found[0], *self.product(found[0], within)))
                if beside:
                    paths = [Beside(self.added(found[1], each), each[1].dropout) for each in beside]
                    calls.append((found[0], with_paths(*found, paths, self.seed_generator)))
        inside = [each for each in calls if each[0] is not layer]
        instead = next((call for owner, call in calls if owner is layer), None)
        with (
            internals.lent_factors(lent),
            internals.read_as(values),
            internals.called_as(inside),
        ):
            yield instead

    def product(self, owner: Any, adapters: list[tuple[Entry, Target, Factors]]) -> tuple[Any, Any]:
        """Return two factors of the sum of all updates, in the shapes that Keras expects."""
        target = adapters[0][1]
        downs, ups = [], []
        for entry, each, factors in adapters:
            weight = ops.convert_to_tensor(self.weight(entry)) * entry.scale(each)
            downs.append(ops.convert_to_tensor(factors.down))
            ups.append(ops.convert_to_tensor(factors.up) * weight)
        down, up = ops.concatenate(downs, axis=1), ops.concatenate(ups, axis=0)
        if target.outs == (len(target.shape) - 1,):
            first, second = ops.reshape(down, (*target.shape[:-1], -1)), up
        else:
            first, second = update(target, down, up), ops.eye(target.shape[-1])
        return ops.cast(first, owner.compute_dtype), ops.cast(second, owner.compute_dtype)

    def adapted(
        self,
        variable: Any,
        adapters: list[tuple[Entry, Target, Factors]],
        weights: Mapping[str, float] | None = None,
    ) -> Any:
        """Return a kernel as it is with its adapters, in the precision of the factors.

        Args:
            variable: The kernel.
            adapters: Its adapters.
            weights: How much of each is added, by name; by default, as they are in use.
        """
        base = value = self._wide(variable)
        for adapter in adapters:
            value = value - self._loss(base, *adapter, weights)
        return value

    def added(self, variable: Any, adapter: tuple[Entry, Target, Factors]) -> Any:
        """Return what one adapter adds to a kernel."""
        base = None if is_quantized(variable) else self._wide(variable)
        return -self._loss(base, *adapter)

    def _wide(self, variable: Any) -> Any:
        """Return a kernel in the precision of the factors, or its own if that is wider."""
        kernel = ops.convert_to_tensor(variable)
        return ops.cast(kernel, keras.backend.result_type(kernel.dtype, self.variable_dtype))

    def _loss(
        self,
        base: Any,
        entry: Entry,
        target: Target,
        factors: Factors,
        weights: Mapping[str, float] | None = None,
    ) -> Any:
        known = self.weight(entry) if weights is None else weights.get(entry.name, 0.0)
        weight = ops.convert_to_tensor(known)
        value = loss(base, entry, target, factors, weight)
        return value if base is None else ops.cast(value, base.dtype)

    def save_own_variables(self, store: Any) -> None:
        """Save the variables by name, and the state of the dropout, which Keras would leave out."""
        for name, variable in self._saved().items():
            store[name] = variable

    def load_own_variables(self, store: Any) -> None:
        """Load the variables by name.

        Raises:
            ValueError: If there are others.
        """
        held = self._saved()
        if held.keys() != {*store.keys()}:
            known, other = sorted(held), sorted(store.keys())
            raise ValueError(f"adapters of other names or kernels: {other}, not {known}")
        for name, variable in held.items():
            variable.assign(store[name])

    def _saved(self) -> dict[str, Any]:
        generator = self.seed_generator
        return self.named() | ({} if generator is None else {"dropout": generator.state})

    def get_config(self) -> dict[str, Any]:
        """Return the adapters as plain data."""
        return {
            **super().get_config(),
            "entries": [entry.to_dict() for entry in self._entries],
        }


def is_quantized(variable: Any) -> bool:
    """Whether a kernel consists of integers."""
    return "float" not in keras.backend.standardize_dtype(variable.dtype)


_ROLE = re.compile(r"weight|\d+_(down|up|length)")


def _belongs(variable: Any, name: str) -> bool:
    role = variable.name.removeprefix(f"{name}_")
    return role != variable.name and _ROLE.fullmatch(role) is not None
