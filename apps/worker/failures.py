"""Files with the inputs of decisions that raised an exception, for `make replay FILE=…`. They contain no Secrets."""

from __future__ import annotations

import logging
import os
import pickle
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from django.conf import settings as django_settings

from apps.objects.instruments import ERRORS
from controlplane.clusters.questions import Target
from controlplane.engine.failure import Failure
from controlplane.kinds.template import Template

log = logging.getLogger(__name__)

MOST_BYTES = 64 * 2**20  # of all files; the chart allows 256 MiB for all files of a pod
MOST_FILES = 200  # each is looked at when another one is written
SECRET_FIELDS = ("data", "stringData")


def keep(failure: Failure) -> None:
    """Log a failed decision, and write its inputs to a file that only its owner can read.

    If they cannot be written, for example because the disk is full, the log line has the reason: other objects of the
    batch must not wait for that.
    """
    ERRORS.labels(failure.controller).inc()
    folder = django_settings.LIFEBOAT_HOME / "replay"
    path = folder / (re.sub(r"[^\w.-]+", "_", f"{failure.controller}-{failure.ref}")[:200] + ".pickle")
    try:
        _write(failure, path)
        again = f"run the decision again with `make replay FILE={path}`"
    except OSError as error:
        again = f"its inputs cannot be kept in {folder}: {error.strerror or error}"
    log.error(
        "controller %s failed for %s: %s; %s\n%s", failure.controller, failure.ref, failure.error, again, failure.trace
    )


def _write(failure: Failure, path: Path) -> None:
    """Write a file, and remove the oldest ones if all are too large. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    inputs = pickle.dumps(without_secrets(failure))
    if len(inputs) > MOST_BYTES:
        raise OSError(f"they have {len(inputs):,} bytes")
    _make_room(path, MOST_BYTES - len(inputs))
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(inputs)


def _make_room(path: Path, most: int) -> None:
    """Remove the oldest files beside one, until they have at most so many bytes and are fewer than MOST_FILES."""
    stats = list(_others(path))
    oldest_first = sorted(stats, key=lambda pair: pair[1].st_mtime)
    size = sum(found.st_size for _, found in stats)
    for left, (file, found) in zip(range(len(stats), 0, -1), oldest_first, strict=True):
        if size <= most and left < MOST_FILES:
            return
        file.unlink(missing_ok=True)
        size -= found.st_size


def _others(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the files beside one. The processes of a worker share the folder, so each of them may be gone by now."""
    for file in path.parent.iterdir():
        if file != path:
            with suppress(FileNotFoundError):
                yield file, file.stat()


def load(path: Path) -> Failure:
    """Return the failure in a file. The file is trusted, because only its owner can write it."""
    failure: Failure = pickle.loads(path.read_bytes())
    return failure


def without_secrets(value: Any) -> Any:
    """Return a copy of a value without the contents of Secrets and without credentials of members, at any depth."""
    if isinstance(value, Target):
        return msgspec.structs.replace(value, token="", ca="")
    if isinstance(value, Template) and value.kind == "Secret":
        return msgspec.structs.replace(value, content=_without_data(value.content))
    if isinstance(value, msgspec.Struct):
        changed = {
            name: new
            for name in value.__struct_fields__
            if (new := without_secrets(old := getattr(value, name))) is not old
        }
        return msgspec.structs.replace(value, **changed) if changed else value
    if isinstance(value, dict):
        inner = {name: without_secrets(one) for name, one in value.items()}
        return _without_data(inner) if value.get("kind") == "Secret" else inner
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(without_secrets(entry) for entry in value)
    if isinstance(value, list):
        return [without_secrets(item) for item in value]
    return value


def _without_data(content: dict[str, Any]) -> dict[str, Any]:
    return {name: dict.fromkeys(one, "") if name in SECRET_FIELDS and one else one for name, one in content.items()}
