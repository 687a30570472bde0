"""The core of the copier, in C and in Python: both do the same, and neither breaks."""

import collections
import contextlib
import gc
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import threading
import types
import weakref
from pathlib import Path

import pytest

from ramet.copying import core
from ramet.copying.core import ATOMS

SOURCE = Path(core.__file__).with_name("_core.c")
COMPILED = core.Core is not core.PythonCore
CORES = [pytest.param(core.PythonCore, id="python")]
if COMPILED:
    CORES.append(pytest.param(core.Core, id="c"))

pytestmark = pytest.mark.backend_free
both = pytest.mark.parametrize("kind", CORES)


class Plain:
    """An object with attributes."""

    def __init__(self, **things):
        vars(self).update(things)


class Listed(list):
    def append(self, _):
        raise AssertionError

    def __iter__(self):
        raise AssertionError


class Keyed(dict):
    def __setitem__(self, key, item):
        raise AssertionError

    def __iter__(self):
        raise AssertionError

    keys = items = __iter__


class Grouped(set):
    def add(self, _):
        raise AssertionError

    def __iter__(self):
        raise AssertionError


def same(_, value):
    return value


def new(kind, **handlers):
    """A core that knows some classes, with what is done to instances of others by name."""

    class Copier(kind):
        def __init__(self, *args):
            super().__init__(*args)
            self.bound = []

        def bind_function(self, value):
            self.bound.append(value)
            return value

    table = {
        list: Copier.copy_list,
        dict: Copier.copy_dict,
        tuple: Copier.copy_tuple,
        set: Copier.copy_set,
        Plain: Copier.copy_object,
        Listed: Copier.copy_list_object,
        Keyed: Copier.copy_dict_object,
        Grouped: Copier.copy_set_object,
        types.FunctionType: Copier.copy_function,
        collections.OrderedDict: lambda copier, value: copier.memo.setdefault(
            id(value), type(value)(value)
        ),
        **{globals()[name]: handler for name, handler in handlers.items()},
    }
    return Copier(table, set(ATOMS), frozenset())


def test_the_core_in_c_is_used_where_there_is_a_compiler():
    if os.environ.get("RAMET_PURE_PYTHON"):
        assert not COMPILED
    elif shutil.which("cc") and Path(sysconfig.get_path("include"), "Python.h").exists():
        assert COMPILED, "the package was installed without its part in C: install it anew"


@pytest.mark.skipif(not COMPILED, reason="there is no compiler, or Python is asked for")
def test_the_part_in_c_compiles_without_a_warning(tmp_path):
    command = ["cc", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers"]
    command += ["-Wno-cast-function-type", "-Wno-unused-parameter", "-O2", "-fPIC", "-c"]
    command += [f"-I{sysconfig.get_path('include')}", str(SOURCE), "-o", str(tmp_path / "core.o")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  written here
    assert done.returncode == 0, done.stderr


def test_the_part_in_c_uses_public_names_of_python_only():
    for source in (SOURCE, SOURCE.with_name("_memo.h")):
        code = re.sub(r"/\*.*?\*/", "", source.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert not re.findall(r"\b_Py\w+|->\s*(?:func|co|ob|ma|od|cl|im|m)_\w+", code)


def test_python_alone_can_be_asked_for():
    code = "from ramet.copying import core; print(core.Core is core.PythonCore)"
    environment = {**os.environ, "RAMET_PURE_PYTHON": "1"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)  # noqa: S603  written here
    assert done.stdout.strip() == "True"


@both
def test_both_have_the_same_methods(kind):
    names = {name for name in vars(core.PythonCore) if name.startswith("copy")}
    assert names == {name for name in vars(kind) if name.startswith("copy")}


@both
def test_containers_are_copied_each_once(kind):
    inner = [1, "two"]
    value = {"a": inner, "b": (inner, 3), "c": {4, 5}, "d": {"e": inner}}
    made = new(kind).copy(value)
    assert made == value
    assert list(made) == list(value)
    assert made["a"] is made["b"][0] is made["d"]["e"]
    assert made["a"] is not inner
    assert made["c"] is not value["c"]


@both
def test_what_holds_itself_is_copied(kind):
    loop: list = [1]
    loop.append((loop, loop))
    made = new(kind).copy(loop)
    assert made is not loop
    assert made[1][0] is made[1][1] is made
    around: dict = {}
    around["self"] = around
    made = new(kind).copy(around)
    assert made["self"] is made
    thing = Plain(name="thing")
    thing.me, thing.pair = thing, (thing, [thing])
    made = new(kind).copy(thing)
    assert made.me is made.pair[0] is made.pair[1][0] is made


@both
def test_a_tuple_that_holds_itself_through_a_list_is_one_in_the_copy(kind):
    held: list = []
    value = (held, 1)
    held.append(value)
    made = new(kind).copy(value)
    assert made is made[0][0]


@both
def test_a_tuple_of_what_is_kept_is_kept(kind):
    value = (1, ("a", None), 2.5)
    assert new(kind).copy(value) is value
    assert new(kind).copy_tuple(value) is value
    tracked = gc.is_tracked(())
    assert new(kind).copy_tuple(()) == ()
    assert gc.is_tracked(()) == tracked


@both
def test_subclasses_of_containers_are_copied_past_their_methods(kind):
    shared = Plain(a=1)
    listed = Listed([shared, 2])
    listed.more = [listed]
    keyed = Keyed(x=shared)
    keyed.owner = listed
    grouped = Grouped([3, 4])
    grouped.owner = keyed
    made = new(kind).copy([listed, keyed, grouped])
    assert [type(thing) for thing in made] == [Listed, Keyed, Grouped]
    assert list.__len__(made[0]) == 2
    assert made[0].more == [made[0]]
    assert made[1]["x"] is made[0][0]
    assert made[0][0] is not shared
    assert made[1].owner is made[0]
    assert made[2].owner is made[1]
    assert set.__eq__(made[2], {3, 4})


@both
def test_objects_get_attributes_of_their_own(kind):
    value = Plain(name="a", items=[1], more={"x": [2]})
    made = new(kind).copy(value)
    assert type(made) is Plain
    assert list(vars(made)) == ["name", "items", "more"]
    made.items.append(9)
    made.more["x"].append(9)
    made.extra = 1
    assert vars(value) == {"name": "a", "items": [1], "more": {"x": [2]}}


@both
def test_attributes_in_a_dict_of_another_class_keep_it(kind):
    value = Plain()
    value.__dict__ = collections.OrderedDict(b=[1], a=2)
    made = new(kind).copy(value)
    assert type(vars(made)) is collections.OrderedDict
    assert made.b == [1]
    assert made.b is not value.b


@both
def test_what_is_known_of_kinds_and_copies_may_change_meanwhile(kind):
    def learn(copier, value):
        copier.atoms = copier.atoms | {Listed}
        return copier.memo.setdefault(id(value), Plain())

    listed = Listed([1])
    first, second = new(kind, Plain=learn).copy([Plain(), listed])
    assert type(first) is Plain
    assert second is listed


@both
def test_a_table_that_finds_out_what_it_does_not_know_is_asked(kind):
    class Table(dict):
        def __missing__(self, asked):
            self[asked] = same
            return same

    value = Plain()
    copier = kind(Table(), set(ATOMS), frozenset())
    assert copier.copy(value) is value
    assert copier.handlers[Plain] is same


@both
def test_a_failure_tells_the_name_and_the_rest_can_follow(kind):
    def fail(_, __):
        raise ValueError("no")

    copier = new(kind, Listed=fail)
    rest = [1]
    fields = {"first": [0], "bad": Listed(), "rest": rest}
    with pytest.raises(ValueError, match="no"):
        copier.copy_fields(fields)
    assert copier.failed == "bad"
    assert fields["rest"] is rest
    fields["bad"] = None
    first = fields["first"]
    copier.copy_fields(fields, "bad")
    assert fields["first"] is first
    assert fields["rest"] == [1]
    assert fields["rest"] is not rest


@both
def test_the_outermost_name_is_told(kind):
    def fail(_, __):
        raise ValueError("no")

    copier = new(kind, Listed=fail)
    with pytest.raises(ValueError, match="no"):
        copier.copy_fields({"outer": Plain(inner=[Listed()])})
    assert copier.failed == "outer"


@both
@pytest.mark.parametrize("wrap", [list, tuple, lambda x: {"k": x[0]}, lambda x: {x[0]: 1}, set])
def test_failures_inside_are_passed_on(kind, wrap):
    class Held:
        pass

    def fail(_, __):
        raise KeyError("held")

    held = Held()
    copier = new(kind)
    copier.handlers[Held] = fail
    before = sys.getrefcount(held)
    value = wrap([held])
    with pytest.raises(KeyError, match="held"):
        copier.copy(value)
    with pytest.raises(KeyError, match="held"):
        copier.copy_fields({"value": wrap([held])})
    del value
    gc.collect()
    assert sys.getrefcount(held) == before


@both
def test_a_key_that_cannot_be_hashed_is_an_error(kind):
    class Key:
        hashes = 0

        def __hash__(self):
            Key.hashes += 1
            if Key.hashes > 2:
                raise TypeError("unhashable now")
            return 1

    for value in ({Key(): 1}, {Key()}):
        copier = new(kind)
        copier.handlers[Key] = lambda c, v: c.memo.setdefault(id(v), Key())
        with pytest.raises(TypeError, match="unhashable now"):
            copier.copy(value)


@both
def test_sources_may_change_while_they_are_copied(kind):
    class Eats:
        def __init__(self, meal):
            self.meal = meal

    def eat(copier, value):
        value.meal.clear()
        gc.collect()
        return copier.memo.setdefault(id(value), 0)

    for make in (list, dict.fromkeys, set):
        meal = make(range(0))
        guest = Eats(meal)
        things = [guest, *(Plain(n=n) for n in range(50))]
        if isinstance(meal, dict):
            meal.update(dict.fromkeys(things))
        else:
            (meal.extend if isinstance(meal, list) else meal.update)(things)
        del things
        copier = new(kind)
        copier.handlers[Eats] = eat
        assert len(copier.copy(meal)) <= 51
        assert not meal


@both
def test_attributes_may_change_while_they_are_copied(kind):
    value = Plain(other=Listed(), more=[1, 2], last={"a": [3]})

    def change(copier, listed):
        vars(value).clear()
        value.new = 1
        gc.collect()
        return copier.memo.setdefault(id(listed), Listed())

    made = new(kind, Listed=change).copy(value)
    assert list(vars(made)) == ["other", "more", "last"]
    assert made.more == [1, 2]
    assert vars(value) == {"new": 1}


@both
def test_an_empty_ordered_dict_is_made_anew(kind):
    value = Plain(hooks=collections.OrderedDict(), more=collections.OrderedDict())
    made = new(kind).copy(value)
    assert type(made.hooks) is collections.OrderedDict
    assert len({id(d) for thing in (value, made) for d in vars(thing).values()}) == 4


@both
def test_an_empty_ordered_dict_with_attributes_keeps_them(kind):
    value = Plain(hooks=collections.OrderedDict())
    value.hooks.mark = 7
    copier = new(kind)
    made = copier.copy(value)
    assert made.hooks is copier.memo[id(value.hooks)]


@both
def test_an_empty_ordered_dict_that_others_know_is_remembered(kind):
    hooks, seen = collections.OrderedDict(), collections.OrderedDict()
    known = weakref.ref(seen)
    copier = new(kind)
    value = Plain(hooks=hooks, again=hooks, seen=seen)
    del seen
    made = copier.copy(value)
    assert made.hooks is made.again is copier.memo[id(hooks)]
    assert made.seen is copier.memo[id(known())]


@both
def test_a_core_alone_keeps_functions(kind):
    copier = kind({types.FunctionType: kind.copy_function}, set(ATOMS), frozenset())
    assert copier.copy(same) is same


@both
def test_functions_that_reach_nothing_are_kept_and_others_bound(kind):
    copier = new(kind)
    free = eval("lambda x: x", {})  # noqa: S307  a scope of its own
    copier.copy(free)
    assert copier.bound == [free]
    copier.free[id(free.__code__)] = free.__globals__
    assert copier.copy(free) is free
    assert copier.bound == [free]
    again = types.FunctionType(free.__code__, {})
    held = types.FunctionType(free.__code__, free.__globals__, argdefs=(1,))
    named = types.FunctionType(free.__code__, free.__globals__)
    named.mark = 1
    for function in (again, held, named):
        copier.copy(function)
    assert copier.bound == [free, again, held, named]


def wrapper(layer):
    """A closure such as Keras puts into every layer."""
    original = layer.method

    def wrapped(x=1, *, y=None):
        """Says something."""
        return layer, original, x, y

    wrapped.__kwdefaults__ = None
    wrapped.__dict__.update(__wrapped__=original, _is_default=True)
    wrapped.__name__, wrapped.__qualname__, wrapped.__module__ = "method", "Kind.method", "there"
    wrapped.__annotations__ = {"x": int}
    return wrapped


class Worker(Plain):
    def method(self):
        return self


def copier_of_wrappers(kind):
    copier = new(kind)
    copier.handlers[Worker] = type(copier).copy_object
    code = wrapper(Worker()).__code__
    return type(copier)(copier.handlers, set(ATOMS), frozenset({id(code)}))


@both
def test_the_wrappers_of_keras_are_bound_to_the_copy(kind):
    worker = Worker()
    worker.method = wrapper(worker)
    copier = copier_of_wrappers(kind)
    made = copier.copy(worker)
    old, function = vars(worker)["method"], vars(made)["method"]
    assert copier.bound == []
    assert function is not old
    layer, original, x, y = function(y=2)
    assert layer is original.__self__ is made
    assert (x, y) == (1, 2)
    assert function.__wrapped__ is original
    assert function._is_default is True
    assert list(vars(function)) == list(vars(old))
    for name in ("code", "globals", "name", "qualname", "module", "doc", "annotations"):
        assert getattr(function, f"__{name}__") == getattr(old, f"__{name}__")
    assert function.__defaults__ == (1,)
    assert copier.memo[id(old)] is function
    assert copier.memo[id(old.__wrapped__)] is function.__wrapped__


@both
def test_wrappers_that_are_not_as_known_are_bound_another_way(kind):
    def without_attributes(function):
        vars(function).clear()

    def with_more(function):
        function.more = []

    def of_another(function):
        function.__closure__[1].cell_contents = Worker().method

    def emptied(function):
        del function.__closure__[1].cell_contents

    def held_twice(function):
        function.original = function.__wrapped__

    def no_method(function):
        function.__closure__[1].cell_contents = 1

    def with_defaults_by_name(function):
        function.__kwdefaults__ = {"y": []}

    changes = [without_attributes, with_more, of_another, held_twice, no_method, emptied]
    for change in (*changes, with_defaults_by_name):
        worker = Worker()
        worker.method = wrapper(worker)
        change(worker.method)
        copier = copier_of_wrappers(kind)
        copier.copy(worker)
        assert copier.bound == [worker.method], change


@both
def test_a_method_that_was_copied_before_its_wrapper_is_one(kind):
    worker = Worker()
    function = wrapper(worker)
    vars(worker).update(before=Plain(original=function.__wrapped__), method=function)
    copier = copier_of_wrappers(kind)
    copier.handlers[types.MethodType] = lambda c, v: c.memo.setdefault(
        id(v), types.MethodType(v.__func__, c.copy(v.__self__))
    )
    made = copier.copy(worker)
    original = made.before.original
    assert original.__self__ is made
    assert original is made.method.__wrapped__ is made.method.__closure__[1].cell_contents


@both
def test_the_cell_of_a_layer_is_one_for_both_wrappers(kind):
    worker = Worker()
    first, second = wrapper(worker), wrapper(worker)
    cell = first.__closure__[0]
    second = types.FunctionType(
        second.__code__, second.__globals__, closure=(cell, second.__closure__[1])
    )
    vars(second)["__wrapped__"] = second.__closure__[1].cell_contents
    vars(worker).update(first=first, second=second)
    made = copier_of_wrappers(kind).copy(worker)
    assert made.first.__closure__[0] is made.second.__closure__[0] is not cell


@pytest.mark.parametrize("ids_of", [core.ids_of, core.python_ids_of])
def test_ids_of_what_stores_hold(ids_of):
    things = [object(), object()]
    stores = {"a": (len, things), "b": (len, []), "c": (len, ())}
    assert ids_of(stores) == {"a": set(map(id, things)), "b": set(), "c": set()}
    assert ids_of({"a": [len, things]}) == {"a": set(map(id, things))}
    for wrong in ({"a": 1}, {"a": (1, 2)}, {"a": (len,)}):
        with pytest.raises((TypeError, ValueError)):
            ids_of(wrong)


@both
def test_nesting_without_end_is_an_error_and_no_crash(kind):
    value: list = []
    for _ in range(100_000):
        value = [value]
    failed = []

    def copy():
        try:
            new(kind).copy(value)
        except RecursionError as error:
            failed.append(error)

    limit = sys.getrecursionlimit()
    try:
        for deepest in (limit, 20_000):
            sys.setrecursionlimit(deepest)
            copy()
            thread = threading.Thread(target=copy)
            thread.start()
            thread.join()
    finally:
        sys.setrecursionlimit(limit)
        while value:
            value = value.pop()
    assert len(failed) == 4


@both
def test_nothing_half_made_can_be_found(kind):
    def look(copier, listed):
        for thing in gc.get_objects():
            if type(thing) is tuple and len(thing) == 777:
                assert None not in [*thing]
        return copier.memo.setdefault(id(listed), Listed())

    value = (1, Listed(), *range(775))
    made = new(kind, Listed=look).copy(value)
    assert made[2:] == value[2:]
    assert made[1] is not value[1]
    assert gc.is_tracked(made)


@both
def test_what_a_copier_knows_may_change_while_a_class_is_hashed(kind):
    class Meta(type):
        def __hash__(cls):
            if watching:
                copier.atoms = {int}
                copier.__init__(dict(copier.handlers), {int}, frozenset())
            return 5

    class Odd(metaclass=Meta):
        pass

    watching, copier = [], new(kind)
    copier.handlers[Odd] = same
    value = Odd()
    watching.append(1)
    for _ in range(100):
        assert copier.copy(value) is value


@pytest.mark.parametrize(
    ("kind", "ids_of"), [(core.Core, core.ids_of), (core.PythonCore, core.python_ids_of)]
)
def test_names_and_stores_may_vanish_while_they_are_looked_at(kind, ids_of):
    class Name(str):
        __hash__ = str.__hash__
        __slots__ = ()

        def __eq__(self, other):
            fields.clear()
            return False

    class Store(list):
        def __iter__(self):
            stores.clear()
            return iter(())

    for number in range(50):
        fields = {Name(f"name {number}"): []}
        with pytest.raises(RuntimeError, match="dictionary changed size during iteration"):
            new(kind).copy_fields(fields, "other")
        stores = {f"a {number}": (None, Store()), "b": (None, [1])}
        with contextlib.suppress(RuntimeError):  # which Python itself says
            ids_of(stores)


@both
def test_a_class_may_change_what_is_looked_at_while_it_is_hashed(kind):
    class Meta(type):
        def __hash__(cls):
            for act in [*acts]:
                act()
            return 7

    class Odd(metaclass=Meta):
        pass

    class Other(metaclass=Meta):
        pass

    def replace():
        fields["odd"] = None

    def retype():
        for each in [*fields.values()]:
            if type(each) is Odd:
                each.__class__ = Other

    for act in (replace, gc.collect, retype):
        acts = []
        copier = new(kind)
        copier.handlers[Odd] = copier.handlers[Other] = lambda c, v: c.memo.setdefault(id(v), 1)
        for _ in range(2 if act is gc.collect else 20):  # each hash is a full collection
            fields = {"odd": Odd(), "list": [Odd()]}
            acts[:] = [act]
            copier.copy_fields(fields)
            acts.clear()


@both
def test_a_dict_that_grows_while_its_items_are_copied_is_an_error(kind):
    fields = {"a": Listed(), "b": []}

    def grow(copier, value):
        fields["c"] = 1
        return copier.memo.setdefault(id(value), 1)

    with pytest.raises(RuntimeError, match="dictionary changed size during iteration"):
        new(kind, Listed=grow).copy_fields(fields)


@both
def test_names_that_equal_nothing_are_found_by_identity(kind):
    class Name(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other):
            return False

    name = Name("a")
    fields = {name: [1], "b": [2]}
    first, second = fields.values()
    new(kind).copy_fields(fields, name)
    assert fields[name] is first
    assert fields["b"] is not second


@both
def test_a_copier_and_what_it_made_is_freed(kind):
    class Made(Plain):
        pass

    def loop():
        copier = new(kind)
        copier.handlers[Made] = type(copier).copy_object
        source = Made(items=[1, {"a": (2, [3])}], name="a")
        source.me = source
        made = copier.copy(source)
        made.copier = source.copier = copier
        return weakref.ref(source), weakref.ref(made), weakref.ref(copier)

    gone = loop()
    gc.collect()
    assert [reference() for reference in gone] == [None, None, None]


@pytest.mark.skipif(not COMPILED, reason="there is no compiler, or Python is asked for")
def test_nothing_leaks():
    worker = Worker(items=[1, {"a": (2, [3])}], things=Listed([{4}]), keyed=Keyed(a=[1]))
    vars(worker).update(grouped=Grouped([(1, 2)]), hooks=collections.OrderedDict())
    worker.method = wrapper(worker)
    value = [worker, {"x": worker}, (worker, [0]), {Plain()}]

    def run():
        for _ in range(200):
            copier_of_wrappers(core.Core).copy(value)
            core.ids_of({"a": (len, [1, 2, 3])})
        gc.collect()
        return sys.getallocatedblocks()

    run()
    first = run()
    assert run() - first < 100


@pytest.mark.skipif(not COMPILED, reason="there is no compiler, or Python is asked for")
@pytest.mark.parametrize(
    "wrong",
    [
        lambda c: c.copy_list(()),
        lambda c: c.copy_dict([]),
        lambda c: c.copy_tuple([]),
        lambda c: c.copy_set(frozenset()),
        lambda c: c.copy_list_object({}),
        lambda c: c.copy_dict_object([]),
        lambda c: c.copy_set_object([]),
        lambda c: c.copy_function(len),
        lambda c: c.copy_object(object()),
        lambda c: c.copy_object([]),
        lambda c: c.copy_fields([]),
        lambda c: c.copy_fields(),
        lambda c: c.copy_fields({}, 1, 2),
        lambda _: core.Core(1, 2, 3),
        lambda _: core.Core({}, set(), set()),
        lambda _: core.ids_of([]),
        lambda c: setattr(c, "memo", None),
        lambda c: setattr(c, "atoms", None),
        lambda c: delattr(c, "atoms"),
        lambda c: c.copy(1j if not c.atoms.discard(complex) else 0),
    ],
)
def test_misuse_is_an_error_and_no_crash(wrong):
    with pytest.raises((TypeError, AttributeError, KeyError)):
        wrong(new(core.Core))


@pytest.mark.skipif(not COMPILED, reason="there is no compiler, or Python is asked for")
def test_a_core_that_was_never_set_up_is_an_error_and_no_crash():
    bare = core.Core.__new__(core.Core)
    for use in (bare.copy, bare.copy_list, bare.copy_object):
        with pytest.raises((AttributeError, KeyError, TypeError)):
            use([Plain()])
    assert bare.copy(1) == 1


@both
def test_the_memo_is_like_a_dict_of_ids(kind):
    memo, like = new(kind).memo, {}
    things = [Plain(n=n) for n in range(2000)]
    for number, thing in enumerate(things):
        memo[id(thing)] = like[id(thing)] = number
        assert memo.setdefault(id(thing), "other") == number
    for thing in things[::3]:
        del memo[id(thing)], like[id(thing)]
    for thing in things[::6]:
        assert memo.setdefault(id(thing), "again") == like.setdefault(id(thing), "again")
    for thing in things[1::5]:
        memo[id(thing)] = like[id(thing)] = "changed"
    for thing in things:
        key = id(thing)
        assert (key in memo) == (key in like)
        assert memo.get(key) == like.get(key)
        assert memo.get(key, 1) == like.get(key, 1)
    assert sorted(map(str, memo.values())) == sorted(map(str, like.values()))
    for missing in (1, 0, id(things[3])):
        with pytest.raises(KeyError):
            memo[missing]
        with pytest.raises(KeyError):
            del memo[missing]


needs_c = pytest.mark.skipif(not COMPILED, reason="there is no compiler, or Python is asked for")


@needs_c
def test_the_memo_tells_what_was_written_last():
    memo = new(core.Core).memo
    first, second = Plain(), Plain()
    memo[id(first)] = 1
    place = memo.written
    memo[id(second)] = 2
    assert memo.since(place) == {id(second): 2}
    memo[id(first)] = 3
    assert memo.since(place) == {id(second): 2, id(first): 3}
    assert memo.since(0) == memo.since(-5) == memo.since(place)
    del memo[id(second)]
    assert memo.since(0) == {id(first): 3}
    assert memo.since(1000) == {}


@needs_c
@pytest.mark.parametrize(
    "wrong",
    [
        lambda memo: memo["name"],
        lambda memo: memo.get("name"),
        lambda memo: memo.get(),
        lambda memo: memo.get(1, 2, 3),
        lambda memo: memo.setdefault(1),
        lambda memo: memo.setdefault("name", 1),
        lambda memo: memo.since("name"),
        lambda memo: memo.__setitem__("name", 1),
        lambda memo: memo.__delitem__("name"),
        lambda memo: "name" in memo,
        lambda memo: memo[1 << 200],
    ],
)
def test_the_memo_refuses_what_is_no_id(wrong):
    with pytest.raises((TypeError, OverflowError)):
        wrong(new(core.Core).memo)


@needs_c
def test_the_memo_holds_what_it_knows_and_lets_go_of_it():
    class Thing:
        pass

    memo = type(new(core.Core).memo)()
    thing, other = Thing(), Thing()
    gone = weakref.ref(thing), weakref.ref(other)
    memo[1], memo[2] = thing, other
    del thing, other
    memo[1] = 0
    assert [reference() is None for reference in gone] == [True, False]
    gone[1]().memo = memo
    del memo
    gc.collect()
    assert gone[1]() is None
