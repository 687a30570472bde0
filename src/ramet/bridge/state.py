"""Copies of what has a state: variables, and optimizers, metrics and initializers around them."""

from typing import Any

import keras

from ramet.bridge import internals
from ramet.bridge.core import ATOMS, Handler, set_attribute
from ramet.bridge.foreign import ForeignCopier
from ramet.bridge.values import ValueCopies


class StateCopier(ForeignCopier):
    """Copies variables with their values, or keeps them, and finds the slots of optimizers."""

    def __init__(self, *, share: bool, renew: bool) -> None:
        """Starts with nothing copied.

        Args:
            share: Whether the variables of layers are kept instead of copied.
            renew: Whether initializers without a seed draw a new one.
        """
        super().__init__(share=share)
        self.values = ValueCopies()
        self.optimizers: list[tuple[Any, Any]] = []
        self._renew = renew
        self._sharing: list[Any] = []
        self._variables: list[tuple[Any, Any]] = []

    def share(self, source: Any) -> None:
        """Lets the copy of a model or layer have the very variables of the source.

        Optimizers and metrics have theirs copied, and also reach those of the layers.
        """
        self._sharing.append(source)

    @classmethod
    def _bases(cls) -> tuple[tuple[Any, Handler], ...]:
        return (
            (keras.Variable, cls._variable),
            (internals.BaseOptimizer, cls._optimizer),
            (keras.Metric, cls._stateful),
            (internals.RandomInitializer, cls._initializer),
            (internals.KerasSaveable, cls.by_attributes),
            (keras.random.SeedGenerator, cls.by_attributes),
            *super()._bases(),
        )

    def _stateful(self, value: Any) -> Any:
        """Copies an object whose variables are its own, also where weights are shared."""
        while self._sharing:
            for layer in internals.all_layers(self._sharing.pop()):
                for variable in internals.layer_state(layer):
                    self._keep_variable(variable)
                for parameter in internals.torch_parameters(layer):
                    self.memo[id(parameter)] = parameter
        self.own_state += 1
        # From here on there are variables that are copied, so none is known by its class.
        self.met_own_state = True
        kept, self.atoms = self.atoms - self.kept_kinds, set(ATOMS)
        try:
            return self.by_attributes(value)
        finally:
            self.own_state -= 1
            self.atoms = kept

    def _initializer(self, value: Any) -> Any:
        made = self.by_attributes(value)
        if self._renew:
            internals.reset_initializer(made)
        return made

    def _optimizer(self, value: Any) -> Any:
        made = self._stateful(value)
        self.optimizers.append((value, made))
        return made

    def settle_optimizers(self) -> None:
        """Lets every optimizer find its slots by the new variables."""
        for old, new in self.optimizers:
            self._rekey(old, new)

    def _rekey(self, old: Any, new: Any) -> None:
        """Finds an optimizer's slots under the keys of the new variables."""
        keys = {
            internals.variable_key(old, variable): internals.variable_key(new, copied)
            for variable, copied in self._variables
        }
        for name in internals.ID_KEYED_FIELDS & vars(new).keys():
            kept = vars(new)[name]
            if isinstance(kept, dict):
                items = {keys.get(key, key): item for key, item in kept.items()}
            else:
                items = {keys.get(key, key) for key in kept or ()}
            if kept is not None:
                internals.replace_items(kept, items)

    def _variable(self, value: Any) -> Any:
        if self.keeps_state():
            self.keep_kind(type(value))
            return value
        made = self.make_empty(value)
        self._variables.append((value, made))
        held = value.__dict__
        fields = held | {internals.VARIABLE_VALUE: None}
        self.copy_fields(fields)
        set_attribute(made, "__dict__", fields)
        raw = held[internals.VARIABLE_VALUE]
        if raw is not None and id(raw) in self.memo:
            fields[internals.VARIABLE_VALUE] = self.memo[id(raw)]
        else:
            self.values.put(fields, internals.VARIABLE_VALUE, raw)
            if fields[internals.VARIABLE_VALUE] is not raw:
                self.memo[id(raw)] = fields[internals.VARIABLE_VALUE]
        return made

    def _keep_variable(self, value: Any) -> None:
        """Makes a variable and its value their own copies, so that they are shared."""
        raw = vars(value)[internals.VARIABLE_VALUE]
        self.memo[id(value)], self.memo[id(raw)] = value, raw
