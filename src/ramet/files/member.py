"""The weights inside an archive, as a file that can be read at any place."""

import io
import struct
import zipfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

_HEADER = struct.Struct("<26xHH")
"""What stands before a member: among others, the lengths of its name and of extra fields."""


class _Part(io.RawIOBase):
    """A part of a file, as if it were one. `zipfile` reads from the start to go back."""

    def __init__(self, file: BinaryIO, start: int, size: int) -> None:
        super().__init__()
        self._file, self._start, self._size, self._at = file, start, size, 0

    def readable(self) -> bool:
        """Tells that it can be read."""
        return True

    def seekable(self) -> bool:
        """Tells that it can be read at any place."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Goes to a place."""
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, origin + offset)
        return self._at

    def readinto(self, buffer: "memoryview | bytearray") -> int:  # pyright: ignore[reportIncompatibleMethodOverride] a narrower type than Python's own
        """Reads into a buffer, up to the end of the part."""
        left = max(0, min(len(buffer), self._size - self._at))
        self._file.seek(self._start + self._at)
        data = self._file.read(left)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


@contextmanager
def opened(path: Path, name: str) -> Generator[BinaryIO]:
    """Opens a member of an archive. One that is compressed is unpacked into memory."""
    with zipfile.ZipFile(path) as archive, archive.open(name) as member, path.open("rb") as file:
        found = archive.getinfo(name)
        if found.compress_type != zipfile.ZIP_STORED:
            yield io.BytesIO(member.read())
            return
        # That it begins with a sound header was checked when the member was opened.
        file.seek(found.header_offset)
        name_size, extra_size = _HEADER.unpack(file.read(_HEADER.size))
        start = found.header_offset + _HEADER.size + name_size + extra_size
        yield io.BufferedReader(_Part(file, start, found.file_size))
