"""The notebooks run from top to bottom, and print what is stored in them.

`RAMET_UPDATE=1` stores the outputs again.
"""

import contextlib
import io
import json
import os
from pathlib import Path

import keras
import pytest

from test_examples import WIDTH, without_numbers

pytestmark = pytest.mark.one_backend

NOTEBOOKS = sorted((Path(__file__).parents[1] / "docs" / "notebooks").glob("*.ipynb"))


def test_there_are_notebooks():
    assert len(NOTEBOOKS) >= 3


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_prints_what_it_shows(path, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.chdir(tmp_path)
    keras.utils.clear_session(free_memory=False)  # names are counted from the start
    notebook = json.loads(path.read_text(encoding="utf-8"))
    names: dict[str, object] = {"__name__": "__main__"}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(cells, 1):
        printed = io.StringIO()
        code = compile("".join(cell["source"]), f"{path.name}, cell {number}", "exec")
        with contextlib.redirect_stdout(printed):
            exec(code, names)  # noqa: S102 our own text
        text = printed.getvalue()
        if os.environ.get("RAMET_UPDATE"):
            stream = {
                "name": "stdout",
                "output_type": "stream",
                "text": text.splitlines(keepends=True),
            }
            cell["outputs"] = [stream] if text else []
            cell["execution_count"] = number
        stored = "".join("".join(output["text"]) for output in cell["outputs"])
        assert without_numbers(text) == without_numbers(stored), f"cell {number}"
    if os.environ.get("RAMET_UPDATE"):
        text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
        path.write_text(text, encoding="utf-8")
