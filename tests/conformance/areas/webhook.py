"""Admission: what is refused and why, and what is filled in."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from controlplane import admission
from controlplane.errors import Invalid
from controlplane.kind import KINDS, Kind
from controlplane.meta import Object, kind_key
from controlplane.settings import Settings
from tests.conformance.documents import plain, typed, without_nulls

Document = dict[str, Any]
NOW = datetime(2026, 3, 14, 9, 26, 44, tzinfo=UTC)
UID = "0c2b8a4e-5f6d-4a3b-9c1d-7e8f9a0b1c2d"
# Two paths of the original repeat a name instead of saying which field is meant.
SAID_OTHERWISE = {"spec.suspension.suspension": "spec.suspension", "spec.spec": "spec.zone"}
IMPERSONATOR = ("FieldValueForbidden", "spec.impersonatorSecretRef")
# Of a spread constraint the original names the whole; a number or a label of it is named where no fleet can meet it.
NEVER_MET = re.compile(r"\.spreadConstraints\[\d+\]\.(minGroups|maxGroups|spreadByLabel)$")
# What the original refuses before it looks at fields; it names no field then.
WITHOUT_FIELD = ("spec.schedulerName", "metadata.labels[", "metadata.annotations[")


def run(given: Document) -> Document:
    key = kind_key(given["object"]["apiVersion"], given["kind"])
    kind = KINDS.get(key)
    if kind is None:
        return {"allowed": None}
    try:
        admitted = _admit(given, kind)
    except Invalid as error:
        return {"allowed": False, "errors": [(cause.reason, cause.field) for cause in error.details.causes]}
    return {"allowed": True, "object": admitted}


def _admit(given: Document, kind: Kind) -> Object:
    settings, doc = Settings(), given["object"]
    if given["operation"] == "CREATE":
        namespace = given.get("namespace") or ""
        return admission.admit_create(kind, doc, namespace=namespace, settings=settings, now=NOW, uid=UID).object
    old = typed({"status": {}, **given["oldObject"]}, kind.type)
    return admission.admit_update(kind, doc, old, settings=settings, now=NOW).object


def agree(expect: Document, result: Document) -> bool:
    if expect["allowed"] != result["allowed"]:
        return False
    if not expect["allowed"]:
        return _refusals(expect) == _refusals(result)
    made: Object = result["object"]
    if "spec" in expect:
        wanted = typed({"apiVersion": made.api_version, "kind": made.kind, "spec": expect["spec"]}, type(made))
        return bool(wanted.spec == made.spec)  # type: ignore[attr-defined]  # kinds with a spec
    wanted = typed(_identified(expect["object"]), type(made))
    return _essence(wanted) == _essence(made)


def _identified(value: Any) -> Any:
    """Return a document with our uid where the original drew one."""
    if isinstance(value, dict):
        return {key: _identified(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_identified(item) for item in value]
    return UID if value == "<uuid>" else value


def _essence(obj: Any) -> Document:
    """Return what was admitted: labels, annotations, finalizers and spec."""
    metadata = obj.metadata
    return {
        "labels": metadata.labels,
        "annotations": metadata.annotations,
        "finalizers": metadata.finalizers,
        "spec": without_nulls(plain(obj.spec)),
    }


def _refusals(answer: Document) -> set[tuple[str, str]]:
    found = set()
    for error in answer.get("errors") or ():
        type_, field = error if isinstance(error, tuple) else (error["type"], error["field"])
        if not field.startswith(WITHOUT_FIELD):
            found.add((type_, SAID_OTHERWISE.get(field, field)))
    return found


def differs(given: Document, expect: Document, result: Document) -> str | None:
    """Return which deliberate difference explains a disagreement."""
    if result["allowed"] is None:
        return f"{given['kind']} is not declared yet"
    if _old_purge_mode(given["object"]["spec"]):
        return "Immediately and Graciously are stored and judged under today's names (D13)"
    if IMPERSONATOR in result.get("errors", ()) and _refusals(result) - {IMPERSONATOR} == _refusals(expect):
        return "nothing here acts in members for users, so impersonatorSecretRef is refused"
    unmet = {one for one in _refusals(result) if NEVER_MET.search(one[1])}
    if unmet and _refusals(result) - unmet == _refusals(expect):
        return "a spread constraint that can never be met is refused"
    if expect["allowed"]:
        return None
    if result["allowed"] and not _refusals(expect) and _leaves_out_id(given):
        return "a policy replaced from the file it was made of keeps its id"
    unlike = _refusals(expect) ^ _refusals(result)
    if given["kind"] == "ClusterTaintPolicy" and unlike and unlike == _told_elsewhere(given):
        return "of taints that are there twice the later one is told, as of a cluster's"
    effects = {taint.get("effect") for taint in given["object"]["spec"].get("taints") or ()}
    if given["kind"] == "ClusterTaintPolicy" and unlike <= _refused("FieldValueForbidden", len(effects) + 2):
        return "policies may always use NoExecute (D3)"
    if given["kind"] == "Cluster" and "PreferNoSchedule" in effects and unlike <= _effects(given):
        return "clusters may carry PreferNoSchedule and PreferNoExecute (D4, D21)"
    return None


def _leaves_out_id(given: Document) -> bool:
    old, new = ((given.get(one) or {}).get("metadata", {}).get("labels", {}) for one in ("oldObject", "object"))
    return any(label.endswith("/permanent-id") and label not in new for label in old)


def _old_purge_mode(spec: Document) -> bool:
    behaviours = (spec.get("failover") or {}).values()
    return any((one or {}).get("purgeMode") in ("Immediately", "Graciously") for one in behaviours)


def _refused(type_: str, count: int) -> set[tuple[str, str]]:
    return {(type_, f"spec.taints[{index}]") for index in range(count)}


def _told_elsewhere(given: Document) -> set[tuple[str, str]]:
    """Return the duplicates that only one of the two tells: the original tells all but the last of each, we all but
    the first."""
    pairs = [(one.get("key"), one.get("effect")) for one in given["object"]["spec"].get("taints") or ()]
    theirs = {index for index, pair in enumerate(pairs) if pair in pairs[index + 1 :]}
    ours = {index for index, pair in enumerate(pairs) if pair in pairs[:index]}
    return {("FieldValueDuplicate", f"spec.taints[{index}]") for index in theirs ^ ours}


def _effects(given: Document) -> set[tuple[str, str]]:
    return {
        ("FieldValueNotSupported", f"spec.taints[{index}].effect")
        for index, taint in enumerate(given["object"]["spec"]["taints"])
        if taint.get("effect") in ("PreferNoSchedule", "PreferNoExecute")
    }
