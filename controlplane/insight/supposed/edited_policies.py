"""Policies and holds that a change would create or replace: admits their documents as a write would."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from controlplane.admission.admit import admit_create, admit_update
from controlplane.apimachinery.errors import StatusError
from controlplane.apimachinery.meta import Object, Ref, kind_key
from controlplane.insight.changes import Change, HoldEdited, ObjectsDeleted, PolicyEdited
from controlplane.kinds import (
    CLUSTER_TAINT_POLICY,
    EVICTION_HOLD,
    KINDS,
    MAINTENANCE_WINDOW,
    OVERRIDE_POLICIES,
    POLICIES,
)
from controlplane.kinds.override_policy import OverridePolicy
from controlplane.kinds.taint_policy import ClusterTaintPolicy
from controlplane.settings import Settings

_Edited = TypeVar("_Edited", OverridePolicy, ClusterTaintPolicy)

EDITABLE = {
    PolicyEdited: (*POLICIES, *OVERRIDE_POLICIES, CLUSTER_TAINT_POLICY),
    HoldEdited: (EVICTION_HOLD, MAINTENANCE_WINDOW),
}
"""The kinds of the documents of each change."""


def edited_refs(changes: Iterable[Change]) -> list[Ref]:
    """Return the references of what changes create or replace, as far as their documents name any."""
    edits = (change for change in changes if isinstance(change, PolicyEdited | HoldEdited))
    return [ref for change in edits if (ref := _ref(change)) is not None]


def written_overrides(changes: Iterable[Change]) -> dict[Ref, OverridePolicy]:
    """Return the override policies of changes as they are written, without defaults.

    Documents that are not valid override policies are left out; `admitted_policies` returns the reason."""
    return _written(changes, OVERRIDE_POLICIES, OverridePolicy)


def written_taint_policies(changes: Iterable[Change]) -> dict[Ref, ClusterTaintPolicy]:
    """Return the ClusterTaintPolicies of changes, in the same way."""
    return _written(changes, (CLUSTER_TAINT_POLICY,), ClusterTaintPolicy)


def _written(changes: Iterable[Change], kinds: Collection[str], as_: type[_Edited]) -> dict[Ref, _Edited]:
    found: dict[Ref, _Edited] = {}
    for change in changes:
        ref = _ref(change) if isinstance(change, PolicyEdited) else None
        if ref is not None and ref.kind in kinds:
            with suppress(msgspec.ValidationError):
                found[ref] = msgspec.convert(_document(change), as_)  # type: ignore[arg-type]
    return found


def only_overrides(change: Change) -> bool:
    """Test whether a change edits or deletes nothing but override policies."""
    match change:
        case PolicyEdited():
            ref = _ref(change)
            return ref is not None and ref.kind in OVERRIDE_POLICIES
        case ObjectsDeleted(refs):
            return bool(refs) and len(list(change.of_kinds(OVERRIDE_POLICIES))) == len(refs)
    return False


def _document(change: PolicyEdited | HoldEdited) -> dict[str, Any]:
    return change.policy if isinstance(change, PolicyEdited) else change.hold


def _ref(change: PolicyEdited | HoldEdited) -> Ref | None:
    document = _document(change)
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not metadata.get("name"):
        return None
    key = kind_key(str(document.get("apiVersion", "")), str(document.get("kind", "")))
    if key not in EDITABLE[type(change)]:
        return None
    namespace = str(metadata.get("namespace") or "default") if KINDS[key].resource.namespaced else ""
    return Ref(key, namespace, str(metadata["name"]))


def admitted_policies(
    changes: Iterable[Change], stored: Mapping[Ref, Object], settings: Settings, *, now: datetime
) -> tuple[dict[Ref, Any], tuple[str, ...]]:
    """Return policies and holds as they would be stored, by reference, and the reasons why others would be refused."""
    found: dict[Ref, Any] = {}
    refused = []
    for change in changes:
        if not isinstance(change, PolicyEdited | HoldEdited):
            continue
        ref = _ref(change)
        if ref is None:
            what = "a policy" if isinstance(change, PolicyEdited) else "a hold"
            refused.append(f"name {what}: apiVersion, kind ({', '.join(_kinds(change))}) and metadata.name")
            continue
        try:
            found[ref] = _admitted(ref, _document(change), stored.get(ref), settings, now=now)
        except StatusError as error:
            refused.append(str(error))
    return found, tuple(refused)


def _kinds(change: PolicyEdited | HoldEdited) -> list[str]:
    return [key.rpartition("/")[2] for key in EDITABLE[type(change)]]


def _admitted(ref: Ref, document: dict[str, Any], old: Object | None, settings: Settings, *, now: datetime) -> Object:
    kind = KINDS[ref.kind]
    if old is not None:
        kept = {key: text for key, text in document.get("metadata", {}).items() if key in ("labels", "annotations")}
        sent = {**document, "metadata": {"name": ref.name, "namespace": ref.namespace, **kept}}
        new = admit_update(kind, sent, old, settings=settings, now=now).object
        return new.with_meta(labels={**old.metadata.labels, **new.metadata.labels})
    made = admit_create(kind, document, namespace=ref.namespace, settings=settings, now=now, uid=f"supposed-{ref.name}")
    return replace(made.object)
