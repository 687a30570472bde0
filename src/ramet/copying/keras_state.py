"""Copies of variables, and of the optimizers, metrics and initializers around them."""

from typing import TYPE_CHECKING, Any

import keras

from ramet import keras_internals as internals
from ramet.backends.tensorflow import replace_items
from ramet.backends.torch import torch_parameters
from ramet.backends.values import ValueCopies, stand_in
from ramet.copying.any_object import copy_by_attributes
from ramet.copying.core import ATOMS, set_attribute
from ramet.copying.handlers import Registry

if TYPE_CHECKING:
    from ramet.copying.deep_copy import Copier

copies = Registry()


class State:
    """The variables that a copier has met, and the objects that own them."""

    def __init__(self, weights: str) -> None:
        """Start without variables."""
        self.shared = weights == "share"
        """Whether the variables of layers are kept instead of copied."""
        self.renewed = weights == "fresh"
        """Whether initializers without a seed draw a new one."""
        self.values = ValueCopies()
        self.variables: list[tuple[Any, Any]] = []
        """Variables, with their copies."""
        self.optimizers: list[tuple[Any, Any]] = []
        """Optimizers, with their copies."""
        self.sharing: list[Any] = []
        """Models and layers whose variables are kept, but not in the memo yet."""
        self.assigned: set[int] = set()
        """Ids of variables whose copies get other values before anything reads them."""
        self.owners = 0
        """The number of optimizers and metrics around the current object: they own variables."""
        self.met_owner = False
        """Whether there has been an optimizer or metric."""
        self.kept_classes: set[type] = set()
        """Classes of variables that count as atoms as long as all variables are kept."""

    def is_kept(self) -> bool:
        """Whether variables are kept here: shared, and outside of optimizers and metrics."""
        return self.shared and not self.owners


def keep_instances(copier: "Copier", cls: type) -> None:
    """Keep all variables of a class, until one has to be copied."""
    if not copier.state.met_owner:
        copier.state.kept_classes.add(cls)
        copier.atoms.add(cls)


@copies(keras.Variable)
def copy_variable(copier: "Copier", variable: Any) -> Any:
    """Copy a variable with its value, or keep it."""
    state = copier.state
    if state.is_kept():
        keep_instances(copier, type(variable))
        return variable
    twin = copier.make_empty(variable)
    state.variables.append((variable, twin))
    held = variable.__dict__
    fields = held | {internals.VARIABLE_VALUE: None}
    copier.copy_fields(fields)
    set_attribute(twin, "__dict__", fields)
    value = held[internals.VARIABLE_VALUE]
    if value is not None and id(value) in copier.memo:
        fields[internals.VARIABLE_VALUE] = copier.memo[id(value)]
    elif id(variable) in state.assigned and value is not None:
        fields[internals.VARIABLE_VALUE] = copier.memo[id(value)] = stand_in(value)
    else:
        state.values.put(fields, internals.VARIABLE_VALUE, value)
        if fields[internals.VARIABLE_VALUE] is not value:
            copier.memo[id(value)] = fields[internals.VARIABLE_VALUE]
    return twin


@copies(keras.Metric)
def copy_owner(copier: "Copier", owner: Any) -> Any:
    """Copy an object with variables of its own, which are copied even if weights are shared."""
    state = copier.state
    _keep_shared(copier)
    state.owners += 1
    # From here on some variables are copied, so their class does not decide any more.
    state.met_owner = True
    kept, copier.atoms = copier.atoms - state.kept_classes, set(ATOMS)
    try:
        return copy_by_attributes(copier, owner)
    finally:
        state.owners -= 1
        copier.atoms = kept


def _keep_shared(copier: "Copier") -> None:
    """Add the variables of layers, and their values, to the memo as their own copies."""
    memo = copier.memo
    while copier.state.sharing:
        for layer in internals.all_layers(copier.state.sharing.pop()):
            for variable in internals.layer_state(layer):
                value = vars(variable)[internals.VARIABLE_VALUE]
                memo[id(variable)], memo[id(value)] = variable, value
            for parameter in torch_parameters(layer):
                memo[id(parameter)] = parameter


@copies(internals.BaseOptimizer)
def copy_optimizer(copier: "Copier", optimizer: Any) -> Any:
    """Copy an optimizer; its slots are re-keyed later, by the new variables."""
    twin = copy_owner(copier, optimizer)
    copier.state.optimizers.append((optimizer, twin))
    return twin


@copies(internals.RandomInitializer)
def copy_initializer(copier: "Copier", initializer: Any) -> Any:
    """Copy an initializer; for fresh weights, it draws a new seed unless it has a fixed one."""
    twin = copy_by_attributes(copier, initializer)
    if copier.state.renewed:
        internals.reset_initializer(twin)
    return twin


copies(keras.random.SeedGenerator)(copy_by_attributes)
copies(internals.KerasSaveable)(copy_by_attributes)


def settle_optimizers(copier: "Copier") -> None:
    """Re-key the slots of every optimizer by the new variables."""
    for source, twin in copier.state.optimizers:
        _rekey(source, twin, copier.state.variables)


def _rekey(source: Any, twin: Any, variables: list[tuple[Any, Any]]) -> None:
    """Replace the keys of variables in an optimizer by those of the new variables.

    In any dict or set: each version of Keras keeps others, and so do optimizers of users.
    """
    keys: dict[Any, Any] = {id(old): id(new) for old, new in variables}
    keys |= {
        internals.variable_key(source, old): internals.variable_key(twin, new)
        for old, new in variables
    }
    for table in vars(twin).values():
        if isinstance(table, (dict, set)) and not keys.keys().isdisjoint(table):
            if isinstance(table, dict):
                items: Any = {keys.get(key, key): item for key, item in table.items()}
            else:
                items = {keys.get(key, key) for key in table}
            replace_items(table, items)
