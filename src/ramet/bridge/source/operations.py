"""Operations as calls of `keras.ops`, each tried before it is written."""

import inspect
import re
from collections.abc import Callable
from typing import Any

import keras

from ramet.bridge import internals
from ramet.bridge.source.expr import Expr, Leaf, bare_name, call, sliced
from ramet.graph import Call, Graph, Ref
from ramet.graph.tree import map_tree

Write = Callable[[Any], Expr]
"""Writes an argument: the name of a tensor, or a constant."""


def operation_call(graph: Graph, made: Call, operation: Any, write: Write) -> Expr | None:
    """Writes the call of an operation by a function of `keras.ops`, or by an index.

    Returns:
        The expression; `None` if no such function makes the same operation of the same
        arguments.
    """
    kind = type(operation).__name__
    if kind == "GetItem" and len(made.args) == 2 and isinstance(made.args[0], Ref):  # noqa: PLR2004 a tensor and a key
        tensor, key = write(made.args[0]), made.args[1]
        if isinstance(tensor, Leaf) and _is_key(key):
            return sliced(tensor, key)
    function = _function_of(kind)
    if function is None:
        return None
    arguments = _arguments(function, operation, made)
    if arguments is None or not _is_same(graph, made, operation, function, arguments):
        return None
    args, kwargs = arguments
    written = {key: write(value) for key, value in kwargs.items()}
    head = bare_name(f"keras.ops.{function.__name__}", function)
    return call(head, *map(write, args), **written)


def _function_of(kind: str) -> Any:
    """Returns the function of `keras.ops` that is named like a class of operations."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind).lower()
    for text in (snake, snake.replace("_", ""), re.sub(r"(?<=[a-z])(?=\d)", "_", snake)):
        found = getattr(keras.ops, text, None)
        if inspect.isfunction(found):
            return found
    return None


def _arguments(
    function: Any, operation: Any, made: Call
) -> tuple[list[Any], dict[str, Any]] | None:
    """Finds the arguments of a function: those of the call, and what the operation holds."""
    try:
        bound = inspect.signature(type(operation).call).bind(None, *made.args, **made.kwargs)
    except TypeError:
        return None
    given = dict([*bound.arguments.items()][1:])
    options = internals.operation_options(operation)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    in_row = True
    for parameter in inspect.signature(function).parameters.values():
        name = parameter.name
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            args += given.get(name, ())
            continue
        if name not in given and name not in options:
            in_row = False
            continue
        value = given[name] if name in given else options[name]
        default = parameter.default
        if default is not inspect.Parameter.empty and _is_equal(value, default):
            in_row = False
        elif in_row and (default is inspect.Parameter.empty or isinstance(value, Ref)):
            args.append(value)
        else:
            in_row = False
            kwargs[name] = value
    return args, kwargs


def _is_equal(value: Any, default: Any) -> bool:
    return not isinstance(value, Ref) and type(value) is type(default) and value == default


def _is_same(
    graph: Graph,
    made: Call,
    operation: Any,
    function: Any,
    arguments: tuple[list[Any], dict[str, Any]],
) -> bool:
    """Tells whether a function makes the same operation, called on the same arguments."""
    stand_ins: dict[Ref, Any] = {}

    def stand_in(leaf: Any) -> Any:
        if not isinstance(leaf, Ref):
            return leaf
        if leaf not in stand_ins:
            spec = graph.calls[leaf.call].outputs[leaf.index]
            stand_ins[leaf] = keras.KerasTensor(spec.shape, dtype=spec.dtype, sparse=spec.sparse)
        return stand_ins[leaf]

    args, kwargs = map_tree(stand_in, arguments)
    try:
        with internals.untouched_names():
            result = keras.tree.flatten(function(*args, **kwargs))[0]
            node, _ = internals.producer(result) or (None, 0)
    except Exception:  # noqa: BLE001 whatever it raises, it is not the function
        return False
    if node is None or type(node.operation) is not type(operation):
        return False
    facts = [internals.operation_options(one) for one in (operation, node.operation)]
    wanted = map_tree(stand_in, (made.args, made.kwargs))
    found = (node.arguments.args, node.arguments.kwargs)
    pairs = [keras.tree.flatten(tree) for tree in (wanted, found)]
    return (
        facts[0].keys() == facts[1].keys()
        and all(_alike(facts[0][name], facts[1][name]) for name in facts[0])
        and len(pairs[0]) == len(pairs[1])
        and all(map(_alike, *pairs))
    )


def _alike(first: Any, second: Any) -> bool:
    if internals.is_symbolic(first) or internals.is_symbolic(second):
        return first is second
    if isinstance(first, (str, int, float, type(None))):
        return type(first) is type(second) and first == second
    return internals.equal_constants(first, second) or keras.ops.is_tensor(first)


def _is_key(key: Any) -> bool:
    parts = key if isinstance(key, tuple) else (key,)
    return bool(parts) and all(
        all(map(_is_end, (part.start, part.stop, part.step)))
        if isinstance(part, slice)
        else part is Ellipsis or type(part) is bool or _is_end(part)
        for part in parts
    )


def _is_end(value: Any) -> bool:
    return value is None or type(value) is int
