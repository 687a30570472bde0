"""Every example runs on the backend in use, and what it claims holds."""

import importlib.util
from pathlib import Path

import pytest

pytestmark = pytest.mark.one_backend

EXAMPLES = sorted(
    path
    for path in (Path(__file__).parents[1] / "examples").glob("*.py")
    if path.stem != "demo"  # it takes times; `make demo` runs it
)


def test_there_are_examples():
    assert len(EXAMPLES) >= 14


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path, capsys):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.main()
    assert capsys.readouterr().out.strip(), "an example shows what was gained"
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 50, "it fits on a screen"
