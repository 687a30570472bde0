"""What README.md shows runs as it stands: its Python in order, then its command lines."""

import os
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ramet.cli.commands import app

pytestmark = pytest.mark.one_backend

TEXT = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
DIFFERENT = 1
"""How `ramet diff` ends where models differ, as `diff` does."""


def blocks(language: str) -> list[str]:
    """Return the code blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, flags=re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which all of the Python was run."""
    folder, home = tmp_path_factory.mktemp("readme"), Path.cwd()
    os.chdir(folder)
    try:
        names: dict[str, object] = {}
        for number, block in enumerate(blocks("python"), start=1):
            exec(compile(block, f"README.md, block {number}", "exec"), names)  # noqa: S102 our text
    finally:
        os.chdir(home)
    return folder


def test_the_python_runs(folder: Path) -> None:
    assert len(blocks("python")) == 5
    assert {path.name for path in folder.iterdir()} == {"model.keras", "model2.keras"}


def test_the_command_lines_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    lines = [line for block in blocks("shell") for line in block.splitlines()]
    commands = [command for line in lines for command in line.split(" && ")]
    assert len(commands) == 6
    for command in commands:
        program, *args = shlex.split(command, comments=True)
        assert program == "ramet"
        ended = CliRunner().invoke(app, args)
        assert ended.exit_code == (DIFFERENT if args[0] == "diff" else 0), ended.output
    assert {path.name for path in folder.iterdir()} == {
        *("model.keras", "model2.keras", "model.html", "twin.keras"),
    }
