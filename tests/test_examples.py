"""Every example runs on the backend in use, what it claims holds, and it prints what docs/ shows.

`RAMET_UPDATE=1` writes the outputs that docs/ shows again.
"""

import importlib.util
import os
import re
from pathlib import Path

import keras
import pytest

pytestmark = pytest.mark.one_backend

ROOT = Path(__file__).parents[1]
OUTPUTS = ROOT / "docs" / "output"
EXAMPLES = sorted(
    path
    for path in (ROOT / "examples").glob("*.py")
    if path.stem != "demo"  # it takes times; `make demo` runs it
)
WIDTH = 80
"""Columns of the outputs: as many as fit a page."""


def test_there_are_examples():
    assert len(EXAMPLES) >= 14


def test_the_documentation_shows_every_example_and_its_output():
    pages = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "docs" / "tasks").glob("*.md"))
    for path in EXAMPLES:
        assert f'\n--8<-- "examples/{path.name}"\n' in pages
        assert f'\n--8<-- "docs/output/{path.stem}.txt"\n' in pages
    assert {path.stem for path in OUTPUTS.glob("*.txt")} == {path.stem for path in EXAMPLES}


def without_numbers(text: str) -> list[str]:
    """Return the words of an output: measured numbers differ from run to run, and so do widths."""
    plain = re.sub(r"-?\d+(?:[.,]\d+)*(?:e[-+]?\d+)?", "#", text)
    return re.sub(r"[─━┃│┏┳┓┡╇┩└┴┘]+", " ", plain).split()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    keras.utils.set_random_seed(0)
    keras.utils.clear_session(free_memory=False)  # names are counted from the start
    spec = importlib.util.spec_from_file_location(path.stem, path)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.main()
    printed = capsys.readouterr().out.rstrip() + "\n"
    assert printed.strip(), "an example shows what was gained"
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 50, "it fits on a screen"
    shown = OUTPUTS / f"{path.stem}.txt"
    if os.environ.get("RAMET_UPDATE"):
        shown.parent.mkdir(exist_ok=True)
        shown.write_text(printed, encoding="utf-8")
    assert shown.exists(), "write it with RAMET_UPDATE=1"
    assert without_numbers(printed) == without_numbers(shown.read_text(encoding="utf-8"))
