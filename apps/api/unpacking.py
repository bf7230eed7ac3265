"""Compressed bodies of requests: unpacked within the limits of a body that is sent uncompressed."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from apps.api.budget import ANONYMOUS
from apps.api.incoming import MAX_ANONYMOUS, CompleteBody, Identify, Scope
from controlplane.apimachinery.errors import BadRequest, TooLarge, Unauthorized
from controlplane.wire.body import MAX_BYTES

ENCODING = b"content-encoding"
GZIP = (b"gzip", b"x-gzip")
PIECE = 64 * 1024  # bytes that are unpacked at once
_GZIP_FORMAT = 16 + zlib.MAX_WBITS


async def unpacked(scope: Scope, body: CompleteBody, *, identify: Identify) -> tuple[Scope, CompleteBody]:
    """Return the request with its body unpacked, if it is compressed with gzip. Others are returned as they are.

    The unpacked bytes count against the caller's budget while they are unpacked, so a small body that unpacks to
    gigabytes costs at most MAX_BYTES. Raises TooLarge, Unauthorized for a larger body without credentials,
    TooManyRequests if the budget is used up, and BadRequest for a body that is not gzip. Releases the budget then.
    """
    encodings = [value.strip().lower() for name, value in scope["headers"] if name == ENCODING]
    if not body.data or len(encodings) != 1 or encodings[0] not in GZIP:
        return scope, body
    try:
        data = await _unpacked(body, identify)
    except BaseException:
        body.hold.release()
        raise
    headers = [(name, value) for name, value in scope["headers"] if name != ENCODING]
    return {**scope, "headers": headers}, CompleteBody(data, body.hold)


async def _unpacked(body: CompleteBody, identify: Identify) -> bytes:
    parts: list[bytes] = []
    size, is_identified = 0, body.hold.user != ANONYMOUS
    for part in _pieces(body.data):
        size += len(part)
        if size > MAX_BYTES:
            raise TooLarge(f"the body has more than {MAX_BYTES} bytes when it is unpacked, which is the limit")
        if size > MAX_ANONYMOUS and not is_identified:
            user = await identify()
            if user == ANONYMOUS:
                raise Unauthorized(f"a body that unpacks to more than {MAX_ANONYMOUS} bytes needs a login")
            body.hold.move_to(user)
            is_identified = True
        body.hold.grow(len(part))
        parts.append(part)
    return b"".join(parts)


def _pieces(data: bytes) -> Iterator[bytes]:
    """Yield the unpacked bytes in pieces. Raises BadRequest for what is not one whole gzip stream."""
    reader = zlib.decompressobj(_GZIP_FORMAT)
    try:
        while data and not reader.eof:
            yield reader.decompress(data, PIECE)
            data = reader.unconsumed_tail
        yield reader.flush()
    except zlib.error as error:
        raise BadRequest(f"the body has Content-Encoding gzip and cannot be unpacked: {error}") from None
    if not reader.eof or reader.unused_data:
        raise BadRequest("the body has Content-Encoding gzip and is cut off, or has bytes after its end")
