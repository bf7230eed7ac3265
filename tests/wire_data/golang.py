"""Read the facts a Go binary carries about its types: struct fields with their tags, and embedded file descriptors.

Only what `generate.py` needs of the format, for statically linked 64-bit little-endian ELF binaries without PIE,
which is how kubectl is built. Offsets are those of the runtime's type descriptors since Go 1.18.
"""

import re
import struct
import zlib
from pathlib import Path
from typing import NamedTuple

POINTER, STRUCT = 22, 25
_GZIP_HEADER = re.compile(rb"\x1f\x8b\x08\x00\x00\x00\x00\x00..", re.DOTALL)


class Field(NamedTuple):
    """One field of a Go struct: its tag parts, and whether its type is a pointer (so that zero is a value)."""

    json_name: str
    omitempty: bool
    number: int
    pointer: bool


class Binary:
    """A Go binary opened for its type descriptors."""

    def __init__(self, path: Path) -> None:
        self.data = path.read_bytes()
        self.sections = self._sections()
        self.base, self.file_offset = self.sections[".rodata"][:2]

    def structs(self) -> dict[tuple[str, str], list[Field]]:
        """Return the protobuf fields of every struct a pointer to which is known at run time, by (package, name)."""
        _, start, size = self.sections[".typelink"]
        found = {}
        for (link,) in struct.iter_unpack("<i", self.data[start : start + size]):
            kind, _, _ = self._type(self.base + link)
            if kind != POINTER:
                continue
            element = self._word(self.base + link + 48)
            kind, name, flags = self._type(element)
            if kind == STRUCT and flags & 1:
                package = self._name(self.base + self._int32(element + 80))[0]
                found[package, name.rsplit(".", 1)[-1]] = self._fields(element)
        return found

    def descriptors(self) -> list[bytes]:
        """Return every compressed block that might be a protobuf file descriptor, decompressed."""
        blocks = []
        for match in _GZIP_HEADER.finditer(self.data):
            try:
                blocks.append(zlib.decompressobj(31).decompress(self.data[match.start() : match.start() + 400_000]))
            except zlib.error:
                continue
        return blocks

    def _fields(self, address: int) -> list[Field]:
        first, count = self._word(address + 56), self._word(address + 64)
        fields = []
        for index in range(count):
            name, kind = self._word(first + 24 * index), self._word(first + 24 * index + 8)
            tag = dict(re.findall(r'(\w+):"([^"]*)"', self._name(name)[1]))
            if "," in tag.get("protobuf", ""):
                json_name, *options = tag.get("json", "").split(",")
                number = int(tag["protobuf"].split(",")[1])
                fields.append(Field(json_name, "omitempty" in options, number, self._type(kind)[0] == POINTER))
        return fields

    def _type(self, address: int) -> tuple[int, str, int]:
        at = self._at(address)
        flags, kind = self.data[at + 20], self.data[at + 23] & 31
        name = self._name(self.base + self._int32(address + 40))[0]
        return kind, name[1:] if flags & 2 else name, flags

    def _name(self, address: int) -> tuple[str, str]:
        at = self._at(address)
        flags = self.data[at]
        name, at = self._text(at + 1)
        return name, self._text(at)[0] if flags & 2 else ""

    def _text(self, at: int) -> tuple[str, int]:
        length = shift = 0
        while True:
            byte = self.data[at]
            at += 1
            length |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return self.data[at : at + length].decode(), at + length

    def _sections(self) -> dict[str, tuple[int, int, int]]:
        table = struct.unpack_from("<Q", self.data, 0x28)[0]
        size, count, names = struct.unpack_from("<HHH", self.data, 0x3A)
        headers = [struct.unpack_from("<IIQQQQ", self.data, table + index * size) for index in range(count)]
        strings = headers[names][4]

        def name(offset: int) -> str:
            return self.data[strings + offset : self.data.index(b"\0", strings + offset)].decode()

        return {name(header[0]): header[3:6] for header in headers}

    def _at(self, address: int) -> int:
        return address - self.base + self.file_offset

    def _word(self, address: int) -> int:
        return int(struct.unpack_from("<Q", self.data, self._at(address))[0])

    def _int32(self, address: int) -> int:
        return int(struct.unpack_from("<i", self.data, self._at(address))[0])
