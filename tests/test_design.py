"""What docs/design.md says of the source layout is true."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "ramet"
TEXT = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")

pytestmark = pytest.mark.backend_free


def test_every_room_is_in_the_plan():
    rooms = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert not {room for room in rooms if f"    {room}/" not in TEXT}


def test_every_file_that_is_named_exists():
    named = re.findall(r"`((?:\w+/)+\w+\.(?:py|c|h))`", TEXT)
    assert len(named) > 20
    assert not [name for name in named if not (SOURCE / name).exists()]
