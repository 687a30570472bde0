"""Operations as calls of `keras.ops`, or with Python's operators, each checked first."""

import inspect
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

import keras

from ramet import keras_internals as internals
from ramet.backends.values import is_symbolic
from ramet.graph import Call, Graph, Ref
from ramet.graph.tree import map_tree
from ramet.source.expr import Expr, Leaf, bare_name, call, infix, prefix, sliced

Write = Callable[[Any], Expr]
"""Writes an argument: the name of a tensor, or a constant."""

_OPERATORS: dict[str, tuple[str, Callable[..., Any]]] = {
    "Add": ("+", operator.add),
    "Subtract": ("-", operator.sub),
    "Multiply": ("*", operator.mul),
    "TrueDivide": ("/", operator.truediv),
    "FloorDivide": ("//", operator.floordiv),
    "Mod": ("%", operator.mod),
    "Power": ("**", operator.pow),
    "Matmul": ("@", operator.matmul),
    "Less": ("<", operator.lt),
    "LessEqual": ("<=", operator.le),
    "Greater": (">", operator.gt),
    "GreaterEqual": (">=", operator.ge),
    "NotEqual": ("!=", operator.ne),
    "Negative": ("-", operator.neg),
}
"""Python's operators by the classes of the operations that they create."""

_USUAL = {"absolute": "abs"}
"""Functions of `keras.ops` that are usually called by a shorter name."""


def operator_form(graph: Graph, step: Call, operation: Any, write: Write) -> Leaf | None:
    """Write the call of an operation with one of Python's operators: `x + y`, `2.0 * x`.

    Returns:
        The expression; `None` if there is no operator, an operand is more than a tensor or a
        number, or Python creates another operation.
    """
    symbol, function = _OPERATORS.get(type(operation).__name__, ("", None))
    plain = all(isinstance(arg, Ref) or type(arg) in (int, float) for arg in step.args)
    if function is None or step.kwargs or not plain:
        return None
    operands = [write(arg) for arg in step.args]
    leaves = [one for one in operands if isinstance(one, Leaf)]
    if len(leaves) != len(operands):
        return None
    if not _is_same(graph, step, operation, function, ([*step.args], {})):
        return None
    return prefix(symbol, *leaves) if len(leaves) == 1 else infix(leaves[0], symbol, *leaves[1:])


def operation_call(graph: Graph, step: Call, operation: Any, write: Write) -> Expr | None:
    """Write the call of an operation by a function of `keras.ops`, or by an index.

    Returns:
        The expression; `None` if no such function creates the same operation from the same
        arguments.
    """
    kind = type(operation).__name__
    if kind == "GetItem" and len(step.args) == 2 and isinstance(step.args[0], Ref):  # noqa: PLR2004 a tensor and a key
        tensor, key = write(step.args[0]), step.args[1]
        if isinstance(tensor, Leaf) and _is_key(key):
            return sliced(tensor, key)
    function = _function_of(kind)
    if function is None:
        return None
    arguments = _briefest(graph, step, operation, function)
    if arguments is None:
        return None
    args, kwargs = arguments
    written = {key: write(value) for key, value in kwargs.items()}
    head = bare_name(f"keras.ops.{function.__name__}", function)
    return call(head, *map(write, args), **written)


def _function_of(kind: str) -> Any:
    """Return the function of `keras.ops` for a class of operations, by name."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind).lower()
    for text in (
        _USUAL.get(snake, snake),
        snake,
        snake.replace("_", ""),
        re.sub(r"(?<=[a-z])(?=\d)", "_", snake),
    ):
        function = getattr(keras.ops, text, None)
        if inspect.isfunction(function):
            return function
    return None


def _briefest(
    graph: Graph, step: Call, operation: Any, function: Any
) -> tuple[list[Any], dict[str, Any]] | None:
    """Return the arguments with which a function creates an operation, `axis=1` for `axis=[1]`."""
    options = internals.operation_options(operation)
    axis = options.get("axis")
    if isinstance(axis, (list, tuple)) and len(axis) == 1:
        brief = _arguments(function, operation, step, {**options, "axis": axis[0]})
        if brief is not None and _is_same(graph, step, operation, function, brief):
            return brief
    full = _arguments(function, operation, step, options)
    if full is not None and _is_same(graph, step, operation, function, full):
        return full
    return None


def _arguments(
    function: Any, operation: Any, step: Call, options: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]] | None:
    """Return the arguments of a function: those of the call, and options of the operation."""
    try:
        bound = inspect.signature(type(operation).call).bind(None, *step.args, **step.kwargs)
    except TypeError:
        return None
    passed = dict([*bound.arguments.items()][1:])
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    in_row = True
    for parameter in inspect.signature(function).parameters.values():
        name = parameter.name
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            args += passed.get(name, ())
            continue
        if name not in passed and name not in options:
            in_row = False
            continue
        value = passed[name] if name in passed else options[name]
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
    step: Call,
    operation: Any,
    function: Any,
    arguments: tuple[list[Any], dict[str, Any]],
) -> bool:
    """Whether a function creates the same operation from the same arguments."""
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
    except Exception:  # noqa: BLE001 whatever it raises, it is another function
        return False
    if node is None or type(node.operation) is not type(operation):
        return False
    facts = [internals.operation_options(one) for one in (operation, node.operation)]
    wanted = map_tree(stand_in, (step.args, step.kwargs))
    actual = (node.arguments.args, node.arguments.kwargs)
    pairs = [keras.tree.flatten(tree) for tree in (wanted, actual)]
    return (
        facts[0].keys() == facts[1].keys()
        and all(_alike(facts[0][name], facts[1][name]) for name in facts[0])
        and len(pairs[0]) == len(pairs[1])
        and all(map(_alike, *pairs))
    )


def _alike(first: Any, second: Any) -> bool:
    if is_symbolic(first) or is_symbolic(second):
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
