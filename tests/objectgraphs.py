"""Random graphs of objects, with user code that runs while they are copied and changes them.

`graph(seed)` makes the same graph each time, so that it can be copied by each core. `described`
says what a copy looks like, without addresses, so that two can be compared.
"""

import collections
import contextlib
import gc
import random
import types
from functools import partial

from ramet.copying.core import ATOMS

acts: dict = {}
"""What user code does, once: by the number or class of its object, and the moment."""


def run(owner, moment):
    """Do what the user code of an object does at a moment, if anything."""
    key = owner.__name__ if isinstance(owner, type) else vars(owner).get("n")
    act = acts.pop((key, moment), None)
    if act is not None:
        act()
    return 0


class Node:
    """An object with attributes; `n` tells it from others."""

    def __init__(self, n):
        self.n = n


class Key(Node):
    """One that is hashed in Python."""

    def __hash__(self):
        return hash(self.n % 3) + run(self, "hash")

    def __eq__(self, other):
        run(self, "eq")
        return type(other) is Key and self.n == other.n


class Meta(type):
    """Classes that are hashed in Python."""

    def __hash__(cls):
        run(cls, "class")
        return hash(cls.__name__)


class Odd(Node, metaclass=Meta):
    """An object of such a class."""

    def __hash__(self):
        return self.n  # not the address, which decides the order of a set


class Slotted:
    """An object with slots and attributes."""

    __slots__ = ("__dict__", "left", "n", "right")

    def __init__(self, n):
        self.n = n


class Reduced(Node):
    """An object that is re-created by its constructor, with a state."""

    def __reduce__(self):
        run(self, "reduce")
        return Reduced, (self.n,), {k: v for k, v in vars(self).items() if k != "n"}

    def __setstate__(self, state):
        run(self, "setstate")
        vars(self).update(state)


class Copied(Node):
    """An object that copies itself."""

    def __deepcopy__(self, copy):
        run(self, "deepcopy")
        twin = Copied(self.n)
        for name, item in list(vars(self).items()):
            setattr(twin, name, copy(item))
        return twin


class Listed(list):
    """A list with attributes, whose methods must not be called."""

    def append(self, _):
        raise AssertionError

    __iter__ = extend = append


class Keyed(dict):
    """The same of a dict."""

    def __setitem__(self, key, item):
        raise AssertionError

    def __iter__(self):
        raise AssertionError

    keys = items = values = __iter__


class Grouped(set):
    """The same of a set."""

    def add(self, _):
        raise AssertionError

    update = add


class Dropped(Node):
    """An object that does something when it is freed."""

    def __del__(self):
        with contextlib.suppress(Exception):  # which Python would only print
            run(self, "del")


OBJECTS = (Node, Key, Odd, Slotted, Reduced, Copied)
MOMENTS = {
    Key: ("hash", "eq"),
    Odd: ("class",),
    Reduced: ("reduce", "setstate"),
    Copied: ("deepcopy",),
}


def empty(part, name):
    """Remove what an object holds."""
    if isinstance(part, (list, dict, set)):
        part.clear()
    elif hasattr(part, "__dict__"):
        vars(part).pop(name, None)


def hold(part, name, number, other):
    """Let an object hold another one."""
    if isinstance(part, list):
        list.append(part, other)
    elif isinstance(part, dict):
        dict.__setitem__(part, number, other)
    elif isinstance(part, OBJECTS):
        setattr(part, name, other)


class Graph:
    """A random graph of objects, and what its user code does while it is copied."""

    def __init__(self, seed, *, wild=False):
        self.random = random.Random(seed)
        self.parts = []
        self.labels = {}
        self.copier = None
        size = self.random.randint(3, 25)
        for _ in range(size):
            self._add()
        self.root = [self.random.choice(self.parts) for _ in range(4)]
        for _ in range(self.random.randint(2, size)):
            self._link()
        self.acts = {}
        self._acts(wild=wild)

    def _add(self):
        """Add an object that holds some of those before it."""
        n = len(self.parts)
        pick = self._pick
        make = self.random.choice(
            [
                *(lambda kind=kind: kind(n) for kind in OBJECTS),
                lambda: [pick() for _ in range(self.random.randint(0, 4))],
                lambda: tuple(pick() for _ in range(self.random.randint(0, 4))),
                lambda: {self._hashable(): pick() for _ in range(self.random.randint(0, 4))},
                lambda: {self._hashable() for _ in range(self.random.randint(0, 3))},
                lambda: frozenset(self._hashable() for _ in range(2)),
                lambda: Listed([pick(), pick()]),
                lambda: Keyed({self._hashable(): pick()}),
                lambda: Grouped([self._hashable()]),
                lambda: collections.OrderedDict(a=pick(), b=pick()),
                lambda: collections.OrderedDict(),
                lambda: types.MethodType(repr, self.parts[-1] if self.parts else []),
            ]
        )
        part = make()
        self.parts.append(part)
        if hasattr(part, "__dict__") and not isinstance(part, types.MethodType):
            for name in self.random.sample(["a", "b", "c", "d"], self.random.randint(0, 3)):
                vars(part)[name] = pick()
        if isinstance(part, Slotted) and self.random.random() < 0.7:
            part.left = pick()

    def _pick(self):
        if not self.parts or self.random.random() < 0.3:
            return self.random.choice([1, 2.5, "text", None, True, b"bytes", 1j, len, ()])
        return self.random.choice(self.parts)

    def _hashable(self):
        keys = [part for part in self.parts if isinstance(part, (Key, Odd))]
        return self.random.choice([*keys, self.random.randint(0, 9), "key"])

    def _link(self):
        """Let an object hold any other, also one after it."""
        part, other = self.random.choice(self.parts), self.random.choice(self.parts)
        hold(part, self.random.choice("abcd"), self.random.randint(0, 9), other)

    def _acts(self, *, wild):
        odd = [part for part in self.parts if type(part) in MOMENTS]
        for part in odd:
            if self.random.random() < 0.5:
                moment = self.random.choice(MOMENTS[type(part)])
                key = type(part).__name__ if moment == "class" else part.n
                self.acts[key, moment] = self._act()
        if wild:
            for n in range(5):
                key, holder = Dropped(1000 + n), self.random.choice(self.parts)
                self.acts[key.n, "del"] = self._wild_act()
                with contextlib.suppress(AttributeError):
                    setattr(holder, self.random.choice("abcd"), key)
            for key in self.acts:
                if self.random.random() < 0.5:
                    self.acts[key] = self._wild_act()

    def _act(self):
        """Return something that user code may do; it is the same on both cores."""
        part, other = self.random.choice(self.parts), self._pick()
        name, number = self.random.choice("abcd"), self.random.randint(0, 9)

        def fail():
            raise ValueError(f"act {number}")

        def learn():
            self.copier.atoms = self.copier.atoms | {Reduced}

        def change_class():
            if type(part) is Node:
                part.__class__ = Other

        acts = [partial(empty, part, name), partial(hold, part, name, number, other)]
        acts += [*acts, fail, learn, change_class, lambda: self.copier.copy(part)]
        return self.random.choice(acts)

    def _wild_act(self):
        """Return something that may happen to all objects, also to those that are half copied."""
        choice = self.random.choice

        def anything():
            found = [each for each in gc.get_objects()[-400:] if _is_of_graph(each)]
            if found:
                choice(found).clear()

        def collect():
            gc.collect()

        def forget():
            for part in self.parts:
                with contextlib.suppress(KeyError):
                    del self.copier.memo[id(part)]

        def start_again():
            self.copier.__init__(dict(self.copier.handlers), set(ATOMS), frozenset())

        return choice([self._act(), anything, collect, forget, start_again])


def _is_of_graph(value):
    """Whether a container belongs to a graph or its copy, and not to the rest of the program."""
    if type(value) is dict:
        return bool(value) and value.keys() <= {"n", "a", "b", "c", "d"}
    if type(value) is list:
        pairs = (item[0] if type(item) is tuple and item else item for item in value)
        return any(isinstance(item, Node) for item in pairs)
    return False


class Other(Node):
    """What an object may become while it is copied."""


def copy_slots(copier, value):
    twin = copier.make_empty(value)
    for name in ("n", "left", "right"):
        if hasattr(value, name):
            setattr(twin, name, copier.copy(getattr(value, name)))
    vars(twin).update({name: copier.copy(item) for name, item in vars(value).copy().items()})
    return twin


def copy_reduced(copier, value):
    function, args, state = value.__reduce__()
    copier.alive.append(state)
    twin = copier.memo[id(value)] = function(*args)
    twin.__setstate__(copier.copy(state))
    return twin


def copy_by_itself(copier, value):
    return copier.memo.setdefault(id(value), value.__deepcopy__(copier.copy))


def copy_frozenset(copier, value):
    return copier.memo.setdefault(id(value), frozenset(copier.copy(item) for item in value))


def copy_ordered(copier, value):
    twin = copier.memo[id(value)] = collections.OrderedDict()
    for key, item in list(value.items()):
        twin[copier.copy(key)] = copier.copy(item)
    return twin


def copy_method(copier, value):
    return types.MethodType(value.__func__, copier.copy(value.__self__))


def keep(_, value):
    return value


def copier_for(kind):
    """Return a copier on a core, with handlers for everything here."""

    class Table(dict):
        def __missing__(self, asked):
            self[asked] = kind.copy_object if issubclass(asked, Node) else keep
            return self[asked]

    table = Table(
        {
            list: kind.copy_list,
            dict: kind.copy_dict,
            tuple: kind.copy_tuple,
            set: kind.copy_set,
            Listed: kind.copy_list_object,
            Keyed: kind.copy_dict_object,
            Grouped: kind.copy_set_object,
            types.FunctionType: kind.copy_function,
            Slotted: copy_slots,
            Reduced: copy_reduced,
            Copied: copy_by_itself,
            frozenset: copy_frozenset,
            collections.OrderedDict: copy_ordered,
            types.MethodType: copy_method,
        }
    )
    return type("Copier", (kind,), {"alive": []})(table, set(ATOMS), frozenset())


def outcome(kind, seed, *, wild=False):
    """Copy a random graph on a core, and say what the copy is like or how it failed."""
    graph = Graph(seed, wild=wild)
    graph.copier = copier_for(kind)
    acts.update(graph.acts)
    try:
        copy = graph.copier.copy(graph.root)
    except Exception as error:  # noqa: BLE001 user code fails in any way
        return f"{type(error).__name__}: {error} at {graph.copier.failed!r}"
    finally:
        acts.clear()
    return described(copy, graph)


def described(copy, graph):
    """Describe an object and what it holds: classes, contents, and what is the same as what."""
    known = {id(part): f"source {n}" for n, part in enumerate(graph.parts)}
    lines, waiting = [], [("copy", copy)]
    while waiting:
        path, value = waiting.pop()
        if id(value) in known or type(value) in ATOMS or value is len or value == ():
            lines.append(f"{path} = {known.get(id(value)) or repr(value)}")
            continue
        known[id(value)] = path
        lines.append(f"{path}: {type(value).__name__}")
        for name, item in _inside(value):
            waiting.append((f"{path}.{name}", item))
    return "\n".join(lines)


def _inside(value):
    """Yield what an object holds, in an order that addresses do not change."""
    if isinstance(value, list):
        yield from enumerate(list.__iter__(value))
    elif isinstance(value, tuple):
        yield from enumerate(value)
    elif isinstance(value, dict):
        for place, (key, item) in enumerate(dict.items(value)):
            yield f"key{place}", key
            yield f"item{place}", item
    elif isinstance(value, (set, frozenset)):
        base = set if isinstance(value, set) else frozenset
        yield from enumerate(sorted(base.__iter__(value), key=_sorting))
    elif isinstance(value, types.MethodType):
        yield "self", value.__self__
    for name in ("n", "left", "right"):
        if isinstance(value, Slotted) and hasattr(value, name):
            yield name, getattr(value, name)
    if hasattr(value, "__dict__") and not isinstance(value, types.MethodType):
        yield from list(vars(value).items())


def _sorting(item):
    """Return what tells an item of a set from others."""
    return type(item).__name__, str(vars(item).get("n") if isinstance(item, Node) else item)
