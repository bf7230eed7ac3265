"""Documents as users send them, and what admission says to them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controlplane.admission.admit import admit_create, admit_update
from controlplane.apimachinery.errors import Cause, Invalid
from controlplane.apimachinery.meta import kind_key
from controlplane.kind import KINDS
from controlplane.settings import GATES, Settings
from tests.builders import documents
from tests.builders.documents import Document

NOW = datetime(2026, 1, 1, 12, 0, 0, 500, tzinfo=UTC)
UID = "0c2b8a4e-5f6d-4a3b-9c1d-7e8f9a0b1c2d"
ON = Settings(feature_gates={**GATES, "Failover": True, "StatefulFailoverInjection": True})


def created(doc: Document, *, namespace: str = "default", settings: Settings = ON) -> Any:
    kind = KINDS[kind_key(doc["apiVersion"], doc["kind"])]
    return admit_create(kind, doc, namespace=namespace, settings=settings, now=NOW, uid=UID)


def updated(doc: Document, old: Any, *, subresource: str = "", settings: Settings = ON) -> Any:
    kind = KINDS[kind_key(doc["apiVersion"], doc["kind"])]
    later = NOW + timedelta(minutes=5)
    return admit_update(kind, doc, old, subresource=subresource, settings=settings, now=later)


def refused(doc: Document, *, settings: Settings = ON, old: Any = None, subresource: str = "") -> list[Cause]:
    changes = {"subresource": subresource, "settings": settings}
    with pytest.raises(Invalid) as caught:
        created(doc, settings=settings) if old is None else updated(doc, old, **changes)
    return list(caught.value.details.causes)


def fields(doc: Document, **more: Any) -> set[str]:
    return {cause.field for cause in refused(doc, **more)}


def with_metadata(name: str = "cm", **metadata: Any) -> Document:
    """Return a ConfigMap with this metadata."""
    return documents.config_map(name, metadata=metadata, a="b")


def placed(**placement: Any) -> Document:
    return {"placement": placement}


def preserving(alias: str, path: str) -> Document:
    return {"failover": {"cluster": {"statePreservation": {"rules": [{"aliasLabelName": alias, "jsonPath": path}]}}}}
