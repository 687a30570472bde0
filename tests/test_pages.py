"""Pages of the documentation that say they can be pasted run from top to bottom."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.one_backend

DOCS = Path(__file__).parents[1] / "docs"
PAGES = ("index.md", "start.md", "tutorial.md", "tasks/factorize.md", "tasks/masks.md")


@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (DOCS / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    assert blocks
    names: dict[str, object] = {}
    for number, block in enumerate(blocks, start=1):
        exec(compile(block, f"{page}, block {number}", "exec"), names)  # noqa: S102 our own text
