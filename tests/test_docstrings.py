"""Every public function and class has an example, and the examples do what they show."""

import doctest
import inspect
import re
from pathlib import Path
from types import ModuleType

import keras
import numpy as np
import pytest
from keras import layers

import ramet

pytestmark = pytest.mark.one_backend

MODULES = [ramet, *(getattr(ramet, name) for name in ramet._MODULES)]


def public(module: ModuleType) -> dict[str, object]:
    """Return the public functions, classes and methods of a module, by name."""
    names: dict[str, object] = {}
    for name in getattr(module, "__all__", ()):
        value = getattr(module, name)
        if inspect.ismodule(value):
            continue
        names[f"{module.__name__}.{name}"] = value
        for key, member in inspect.getmembers(value) if inspect.isclass(value) else ():
            ours = (getattr(member, "__module__", "") or "").startswith("ramet")
            if inspect.isfunction(member) and ours and not key.startswith("_"):
                names[f"{module.__name__}.{name}.{key}"] = member
    return names


PUBLIC = {name: value for module in MODULES for name, value in public(module).items()}
EXAMPLES = {
    name: value
    for name, value in PUBLIC.items()
    if ">>>" in (inspect.getdoc(value) or "") and "Examples:" in (inspect.getdoc(value) or "")
}


def needs_example(name: str) -> bool:
    """Whether a name is one that people look up: a function, a class, an edit."""
    if issubclass(value, Exception) if inspect.isclass(value := PUBLIC[name]) else False:
        return False
    is_method = name.count(".") > 2 or name.startswith("ramet.Graph.")
    return not is_method or name.split(".")[-2] in {"Graph", "Selection"}


def test_every_public_name_has_a_docstring():
    assert [name for name, value in PUBLIC.items() if not inspect.getdoc(value)] == []


def test_every_public_function_and_class_has_an_example():
    missing = [name for name in PUBLIC if name not in EXAMPLES and needs_example(name)]
    assert missing == []


def classifier() -> keras.Model:
    """Return the model that the examples call `model`; docs/api/index.md shows it."""
    text = (Path(__file__).parents[1] / "docs" / "api" / "index.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    names: dict[str, object] = {}
    exec(code, names)  # noqa: S102 our own text
    return names["model"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_do_what_they_show(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    keras.utils.clear_session(free_memory=False)
    names = {"keras": keras, "layers": layers, "np": np, "ramet": ramet, "model": classifier()}
    test = doctest.DocTestParser().get_doctest(
        inspect.getdoc(EXAMPLES[name]), names, name, None, None
    )
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(test)
    assert runner.summarize(verbose=False).failed == 0, capsys.readouterr().out
