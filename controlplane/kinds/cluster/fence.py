"""The annotation of a Cluster by which an operator confirms that the cluster is down [directly-unreachable]."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from controlplane.apimachinery.meta import Struct
from controlplane.apimachinery.names import FENCE_ANNOTATION


class Fence(Struct, frozen=True):
    """The confirmation that a cluster is down. `by`: the user who made it."""

    by: str
    reason: str
    made_at: Annotated[datetime, Meta(tz=True)]
    expires_at: Annotated[datetime, Meta(tz=True)]


def fence_in(annotations: Mapping[str, str]) -> Fence | None:
    """Return the fence in the annotations of a cluster. None: there is none, or it cannot be read."""
    text = annotations.get(FENCE_ANNOTATION)
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=Fence)
    except msgspec.MsgspecError:
        return None
