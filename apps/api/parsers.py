"""Media types that the forms of the browsable API offer. `controlplane.wire.body` decodes the bodies."""

from __future__ import annotations

from typing import Any

from rest_framework.parsers import BaseParser

from controlplane.wire.patch import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH


class RawParser(BaseParser):
    """Returns the body undecoded."""

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        return stream.read()


def _parser(media: str) -> type[RawParser]:
    return type("Parser", (RawParser,), {"media_type": media})


PARSERS = [_parser(media) for media in ("application/yaml", "application/json")]
PATCH_PARSERS = [_parser(media) for media in (MERGE_PATCH, STRATEGIC_MERGE_PATCH, JSON_PATCH, APPLY_PATCH)]
