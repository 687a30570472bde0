"""Every page of the documentation runs from top to bottom, and prints what it shows.

A page may begin with `<!-- setup ... -->`: code that the reader does not see, such as a model
to work on. Pages of tasks and concepts start with the model of docs/api/index.md.
"""

import contextlib
import io
import re
import shlex
from pathlib import Path

import keras
import numpy as np
import pytest
import typer
from keras import layers

import ramet
from ramet.cli.commands import app
from test_docstrings import classifier
from test_examples import WIDTH, without_numbers

pytestmark = pytest.mark.one_backend

DOCS = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(
    r"^(?:<!-- |```)(setup|python|text)\n(.*?)^(?:-->|```)$", flags=re.DOTALL | re.MULTILINE
)


def blocks(page: Path) -> list[tuple[str, str]]:
    """Return the code and the outputs of a page, in order; examples have a test of their own."""
    pairs = BLOCK.findall(page.read_text(encoding="utf-8"))
    return [(what, text) for what, text in pairs if not text.startswith("--8<--")]


PAGES = {
    str(page.relative_to(DOCS)): page
    for page in sorted(DOCS.rglob("*.md"))
    if any(what == "python" for what, _ in blocks(page))
}


def test_pages_of_every_sort_have_code():
    assert {"index.md", "start.md", "tutorial.md", "concepts/graph.md"} <= set(PAGES)
    without = {page.name for page in (DOCS / "tasks").glob("*.md")} - {
        page.name for page in PAGES.values()
    }
    assert without == {"files.md"}, "a task begins with the lines that do it"


@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    keras.utils.clear_session(free_memory=False)  # names are counted from the start
    names: dict[str, object] = {}
    if page.startswith(("tasks/", "concepts/")):
        names = {"keras": keras, "layers": layers, "np": np, "ramet": ramet, "model": classifier()}
    printed = ""
    for number, (what, text) in enumerate(blocks(PAGES[page]), start=1):
        if what == "text":
            shown, words = " ".join(without_numbers(text)), without_numbers(printed)
            assert not printed or shown in " ".join(words), f"block {number} shows something else"
            continue
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(text, f"{page}, block {number}", "exec"), names)  # noqa: S102 our own text
        printed = output.getvalue()


COMMANDS = sorted(
    {
        command.partition("  #")[0].strip()
        for page in (*DOCS.glob("*.md"), *DOCS.glob("tasks/*.md"))
        for command in re.findall(
            r"(?:^|`)(ramet [a-z][^`\n]*)", page.read_text(encoding="utf-8"), re.MULTILINE
        )
        if ".keras" in command or command == "ramet doctor"  # others only name a command
    },
)


@pytest.mark.parametrize("command", [*COMMANDS, "ramet fold a.keras b.keras --nonsense"])
def test_command_lines_of_pages_have_options_that_exist(command):
    _, name, *args = shlex.split(command)
    program = typer.main.get_command(app).commands[name]
    is_wrong = "--nonsense" in args
    with pytest.raises(Exception, match="No such option") if is_wrong else contextlib.nullcontext():
        program.parse_args(program.context_class(program, info_name=name), args)


def test_pages_show_command_lines():
    assert len(COMMANDS) >= 20
