"""The weights inside an archive, as a seekable file."""

import io
import struct
import zipfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

_HEADER = struct.Struct("<26xHH")
"""The header of a member, with the lengths of its name and of extra fields."""


class _Part(io.RawIOBase):
    """A part of a file, as a file. `zipfile` itself re-reads from the start to seek back."""

    def __init__(self, file: BinaryIO, start: int, size: int) -> None:
        super().__init__()
        self._file, self._start, self._size, self._at = file, start, size, 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position."""
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, origin + offset)
        return self._at

    def readinto(self, buffer: "memoryview | bytearray") -> int:  # pyright: ignore[reportIncompatibleMethodOverride] a narrower type than Python's own
        """Read into a buffer, up to the end of the part."""
        left = max(0, min(len(buffer), self._size - self._at))
        self._file.seek(self._start + self._at)
        data = self._file.read(left)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


@contextmanager
def opened(path: Path, name: str) -> Generator[BinaryIO]:
    """Open a member of an archive; decompress it into memory if it is compressed."""
    with zipfile.ZipFile(path) as archive, archive.open(name) as member, path.open("rb") as file:
        info = archive.getinfo(name)
        if info.compress_type != zipfile.ZIP_STORED:
            yield io.BytesIO(member.read())
            return
        # Opening the member has checked its header.
        file.seek(info.header_offset)
        name_size, extra_size = _HEADER.unpack(file.read(_HEADER.size))
        start = info.header_offset + _HEADER.size + name_size + extra_size
        yield io.BufferedReader(_Part(file, start, info.file_size))
