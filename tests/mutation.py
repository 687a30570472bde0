"""Changes of one place in source code that tests should notice, and how to make them in a process.

Only what is inside functions is changed: in a process that has imported everything, a function
gets the code of its changed source, so nothing has to be imported again.
"""

import ast
import copy
import gc
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any


@dataclass(frozen=True)
class Mutant:
    """One change of one expression or statement."""

    path: str
    """The source file."""
    number: int
    """Which change of the file it is."""
    line: int
    function: str
    """The function, with the class or function around it."""
    before: str
    after: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What is the same when lines above it are changed."""
        return Path(self.path).name, self.function, self.before, self.after

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.function}: {self.before}  ->  {self.after}"


COMPARED: dict[type, type] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
COMPUTED: dict[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}


def changes_of(node: ast.AST) -> Iterator[ast.AST]:  # noqa: C901, PLR0912  one case each
    """Yields what may stand in the place of a node."""
    if isinstance(node, ast.Compare):
        for at, operator in enumerate(node.ops):
            yield _with(node, ops=[*node.ops[:at], COMPARED[type(operator)](), *node.ops[at + 1 :]])
    elif isinstance(node, ast.BoolOp):
        yield _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        for at in range(len(node.values)):
            rest = node.values[:at] + node.values[at + 1 :]
            yield rest[0] if len(rest) == 1 else _with(node, values=rest)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand
    elif isinstance(node, ast.BinOp) and type(node.op) in COMPUTED:
        yield _with(node, op=COMPUTED[type(node.op)]())
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield _with(node, value=not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        yield _with(node, value=node.value + 1)
    elif isinstance(node, (ast.If, ast.While, ast.IfExp)) and not isinstance(
        node.test, (ast.Compare, ast.UnaryOp)
    ):
        yield _with(node, test=ast.UnaryOp(ast.Not(), node.test))
    elif isinstance(node, ast.comprehension) and node.ifs:
        yield _with(node, ifs=[])
    elif isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
        yield _with(node, value=ast.Constant(None))
    elif isinstance(node, ast.Continue):
        yield ast.Break()
    elif _is_effect(node):
        yield ast.Pass()


def _with(node: Any, **fields: Any) -> Any:
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_effect(node: ast.AST) -> bool:
    """Whether a statement could be left out: nothing that follows needs a name from it."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, (ast.Call, ast.Yield, ast.YieldFrom))
    if isinstance(node, ast.Assign):
        return all(isinstance(each, (ast.Attribute, ast.Subscript)) for each in node.targets)
    return isinstance(node, (ast.AugAssign, ast.Delete))


class _Walk(ast.NodeTransformer):
    """Lists the changes of a module, or makes the one of a number."""

    def __init__(self, path: str, target: int = -1) -> None:
        self.path = path
        self.target = target
        self.found: list[Mutant] = []
        self._names: list[str] = []
        self._functions = 0

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        self._names.append(node.name)
        node.body = [self.visit(each) for each in node.body]
        self._names.pop()
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        self._names.append(node.name)
        self._functions += 1
        node.body = [self.visit(each) for each in node.body]
        self._functions -= 1
        self._names.pop()
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if self._functions and node.value is not None:  # An annotation is not run.
            node.value = self.visit(node.value)
        return node

    def visit(self, node: ast.AST) -> Any:
        """Visits a node; one that is changed is not visited any further."""
        if self._functions:
            for new in changes_of(node):
                number = len(self.found)
                line = getattr(node, "lineno", None) or node.target.lineno  # type: ignore[attr-defined] only nodes with a target get here
                texts = [_text(each) for each in (node, new)]
                where = ".".join(self._names)
                self.found.append(Mutant(self.path, number, line, where, *texts))
                if number == self.target:
                    return ast.copy_location(new, node)
        return super().visit(node)


def _text(node: ast.AST) -> str:
    if isinstance(node, (ast.If, ast.While)):
        return f"if {ast.unparse(node.test)}"
    return " ".join(ast.unparse(node).split()) or "nothing"


def mutants_of(path: Path, root: Path) -> list[Mutant]:
    """Lists the mutants of a source file."""
    walk = _Walk(str(path.relative_to(root)))
    walk.visit(ast.parse(path.read_text(encoding="utf-8")))
    return walk.found


def mutated(mutant: Mutant, root: Path) -> CodeType:
    """Returns the code of a module with one change."""
    path = root / mutant.path
    tree = _Walk(mutant.path, mutant.number).visit(ast.parse(path.read_text(encoding="utf-8")))
    return compile(ast.fix_missing_locations(tree), str(path), "exec")


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def install(module: CodeType) -> int:
    """Gives all functions of a module that is imported their new code; returns how many differ.

    A function whose change lets go of a variable around it keeps its code.
    """
    new = {(code.co_qualname, code.co_firstlineno): code for code in _codes(module)}
    count = 0
    for function in gc.get_objects():
        if type(function) is not FunctionType:
            continue
        old = function.__code__
        if old.co_filename != module.co_filename:
            continue
        code = new.get((old.co_qualname, old.co_firstlineno))
        if code is not None and code != old and code.co_freevars == old.co_freevars:
            function.__code__ = code
            count += 1
    return count
