"""Shows notebooks as pages, with the outputs that are stored in them. A hook of mkdocs."""

import json
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files


def on_files(files: Files, config: Any) -> Files:
    """Replace every notebook by a page of its cells."""
    for file in [*files]:
        if file.src_uri.endswith(".ipynb"):
            files.remove(file)
            page = page_of(Path(file.abs_src_path), file.src_uri)
            uri = file.src_uri.removesuffix(".ipynb") + ".md"
            files.append(File.generated(config, uri, content=page))
    return files


def page_of(path: Path, uri: str) -> str:
    """Return a notebook as Markdown."""
    parts: list[str] = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(_fenced("python", source))
        parts += [_fenced("text", "".join(output["text"])) for output in cell["outputs"]]
    name = Path(uri).name
    url = f"https://github.com/ramet-dev/ramet/blob/main/docs/{uri}"
    parts.insert(1, f"*This page is the notebook [{name}]({url}).*")
    return "\n\n".join(parts) + "\n"


def _fenced(language: str, text: str) -> str:
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", text)), 3)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"
