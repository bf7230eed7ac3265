"""Decisions that failed, kept so that `make replay FILE=…` decides again in the pure core. Secrets are taken out."""

from __future__ import annotations

import logging
import os
import pickle
import re
from pathlib import Path
from typing import Any

import msgspec
from django.conf import settings as django_settings

from controlplane.clusters.questions import Target
from controlplane.engine.run import Failure
from controlplane.kinds.template import Template

log = logging.getLogger(__name__)

HIDDEN = ("data", "stringData")  # of a Secret


def keep(failure: Failure) -> None:
    """Log a decision that failed and keep its inputs, readable by their owner only."""
    folder = django_settings.LIFEBOAT_HOME / "replay"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / (re.sub(r"[^\w.-]+", "_", f"{failure.controller}-{failure.ref}")[:200] + ".pickle")
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(pickle.dumps(without_secrets(failure)))
    log.error(
        "%s could not decide about %s: %s; decide again with `make replay FILE=%s`\n%s",
        failure.controller,
        failure.ref,
        failure.error,
        path,
        failure.trace,
    )


def load(path: Path) -> Failure:
    """Return what was kept. The file is trusted: only its owner can write it."""
    found: Failure = pickle.loads(path.read_bytes())
    return found


def without_secrets(value: Any) -> Any:
    """Return a value with the contents of Secrets and the credentials of members left out, wherever they stand."""
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
        return tuple(without_secrets(one) for one in value)
    if isinstance(value, list):
        return [without_secrets(one) for one in value]
    return value


def _without_data(content: dict[str, Any]) -> dict[str, Any]:
    return {name: dict.fromkeys(one, "") if name in HIDDEN and one else one for name, one in content.items()}
