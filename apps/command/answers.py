"""Answers of an API: JSON objects whose fields may be missing, for example because a proxy has answered instead."""

from __future__ import annotations

import json
from typing import Any

from apps.command import exit_codes
from apps.command.errors import CommandError

SHOWN = 80  # bytes of an answer that is none of a Kubernetes API


class Answer(dict[str, Any]):
    """A JSON object of an answer. A field that is read with brackets has to be there: CommandError names it."""

    def __init__(self, content: dict[str, Any], server: str, path: str = "") -> None:
        super().__init__({key: _inner(value, server, _join(path, key)) for key, value in content.items()})
        self._server, self._path = server, path

    def __getitem__(self, key: str) -> Any:
        if (value := self.get(key)) is None:
            raise strange(self._server, f"it has no field {_join(self._path, key)}")
        return value


def decoded(raw: bytes, server: str) -> Answer:
    """Return the object that an answer is. Raises CommandError for anything else."""
    if (document := as_object(raw)) is None:
        raise strange(server, raw[:SHOWN].decode(errors="replace"))
    return Answer(document, server)


def check_kind(found: dict[str, Any], server: str, *, status: bool) -> None:
    """Raise CommandError if an answer is no object of a kind. `status`: it may also be a Status."""
    kind = found["kind"]
    if kind != "Status":
        check_parts(found, server)
    if not isinstance(kind, str) or (kind == "Status" and not status):
        raise strange(server, f"it is of kind {kind}, and not what was asked for")


def check_parts(found: Any, server: str) -> None:
    """Raise CommandError if metadata, spec or status of an object of the API are none themselves."""
    if not isinstance(found, dict):
        raise strange(server, "a list in it has something else than objects")
    for part in ("metadata", "spec", "status"):
        if not isinstance(found.get(part) or {}, dict):
            raise strange(server, f"its field {part} is no object")


def as_object(raw: bytes) -> dict[str, Any] | None:
    """Return the object that a text in JSON is; None: it is none."""
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def strange(server: str, why: str) -> CommandError:
    """Return the error for an answer that is none of a Kubernetes API."""
    return CommandError(
        f"{server} does not answer as a Kubernetes API: {why}",
        code=exit_codes.UNREACHABLE,
        advice="see whether the kubeconfig names Lifeboat, and whether a proxy answers instead of it",
    )


def _inner(value: Any, server: str, path: str) -> Any:
    if isinstance(value, dict):
        return Answer(value, server, path)
    if isinstance(value, list):
        return [_inner(one, server, f"{path}[{index}]") for index, one in enumerate(value)]
    return value


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
