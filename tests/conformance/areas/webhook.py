"""Admission: what is refused and why, and what is filled in."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from controlplane.admission import admit
from controlplane.apimachinery.errors import Invalid
from controlplane.apimachinery.meta import Object, compact, kind_key
from controlplane.kind import KINDS, Kind
from controlplane.kinds.override_policy import OverridePolicy
from controlplane.kinds.policy import Policy, placement_rules
from controlplane.settings import Settings
from tests.conformance.areas.modeling import BY_VALUE, written_in_two_ways
from tests.conformance.documents import plain, typed, without_nulls

Document = dict[str, Any]
NOW = datetime(2026, 3, 14, 9, 26, 44, tzinfo=UTC)
UID = "0c2b8a4e-5f6d-4a3b-9c1d-7e8f9a0b1c2d"
# Two paths of the original repeat a name instead of saying which field is meant.
SAID_OTHERWISE = {"spec.suspension.suspension": "spec.suspension", "spec.spec": "spec.zone"}
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
        return admit.admit_create(kind, doc, namespace=namespace, settings=settings, now=NOW, uid=UID).object
    old = typed({"status": {}, **given["oldObject"]}, kind.type)
    return admit.admit_update(kind, doc, old, settings=settings, now=NOW).object


def agree(expect: Document, result: Document) -> bool:
    if expect["allowed"] != result["allowed"]:
        return False
    if not expect["allowed"]:
        return _refusals(expect) == _refusals(result)
    made: Object = _complete(result["object"])
    if "spec" in expect:
        wanted = typed({"apiVersion": made.api_version, "kind": made.kind, "spec": expect["spec"]}, type(made))
        return bool(wanted.spec == made.spec)  # type: ignore[attr-defined]  # kinds with a spec
    wanted = typed(_identified(expect["object"]), type(made))
    return _essence(wanted) == _essence(made)


def _complete(obj: Any) -> Any:
    """Return a policy with what the items of its lists mean: the original writes that into them, here they stay as the
    user wrote them and mean the same."""
    if not isinstance(obj, Policy | OverridePolicy):
        return obj
    namespace = obj.metadata.namespace
    selectors = tuple(replace(one, namespace=one.namespace or namespace) for one in obj.spec.resource_selectors)
    if isinstance(obj, OverridePolicy):
        return replace(obj, spec=replace(obj.spec, resource_selectors=selectors))
    placement = placement_rules.effective(obj.spec.placement)
    return replace(obj, spec=replace(obj.spec, resource_selectors=selectors, placement=placement))


def _identified(value: Any) -> Any:
    """Return a document with our uid where the original drew one."""
    if isinstance(value, dict):
        return {key: _identified(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_identified(item) for item in value]
    return UID if value == "<uuid>" else value


def _essence(obj: Any) -> Document:
    """Return what was admitted: labels, annotations, finalizers and spec."""
    metadata, spec = obj.metadata, without_nulls(plain(compact(obj.spec)))
    if isinstance(obj, OverridePolicy) and not spec.get("overriders"):
        spec.pop("overriders", None)  # the original writes an empty object
    return {
        "labels": metadata.labels,
        "annotations": metadata.annotations,
        "finalizers": metadata.finalizers,
        "spec": spec,
    }


def _refusals(answer: Document) -> set[tuple[str, str]]:
    found = set()
    for error in answer.get("errors") or ():
        type_, field = error if isinstance(error, tuple) else (error["type"], error["field"])
        if not field.startswith(WITHOUT_FIELD):
            found.add((type_, SAID_OTHERWISE.get(field, field)))
    return found


def differs(given: Document, expect: Document, result: Document) -> str | None:
    """Return which deliberate differences explain a disagreement: every cause that only one of the two tells."""
    if result["allowed"] is None:
        return f"{given['kind']} is not declared yet"
    unlike = _refusals(expect) ^ _refusals(result)
    reported = {reason: causes & unlike for reason, causes in _on_purpose(given, result).items() if causes & unlike}
    if unlike:
        return "; ".join(reported) if unlike == set().union(*reported.values()) else None
    if result["allowed"] and not expect["allowed"] and _leaves_out_id(given):
        return "a policy replaced from the file it was made of keeps its id"
    if result["allowed"] and expect["allowed"] and _old_purge_mode(given["object"]["spec"]):
        wanted = typed(_identified(expect["object"]), type(result["object"]))
        return OLD_MODES if _without_modes(wanted) == _without_modes(_complete(result["object"])) else None
    return None


OLD_MODES = "Immediately and Graciously are stored and judged under today's names [purge-modes]"
GRACE = ("FieldValueInvalid", "spec.failover.application.gracePeriodSeconds")
OVERRIDERS = ("FieldValueInvalid", "spec.overriders")
MODELS = ("FieldValueInvalid", "spec.resourceModels")


def _on_purpose(given: Document, result: Document) -> dict[str, set[tuple[str, str]]]:
    """Return the causes only one of the two may tell, by the reason for it."""
    kind, spec = given["kind"], given["object"]["spec"]
    found = {
        "a spread constraint that can never be met is refused": {
            one for one in _refusals(result) if NEVER_MET.search(one[1])
        },
    }
    if _old_purge_mode(spec):
        found[OLD_MODES] = {GRACE}
    if kind.endswith("OverridePolicy") and spec.get("overrideRules"):
        found["field overriders beside rules are refused as all other overriders are [override-policies]"] = {
            OVERRIDERS
        }
    if kind == "ClusterTaintPolicy":
        reported = "of taints that are there twice the later one is reported, as of a cluster's"
        found[reported] = _reported_elsewhere(given)
        found["policies may always use NoExecute [taint-policies]"] = _no_execute(given)
    if kind == "Cluster":
        found["clusters may carry PreferNoSchedule and PreferNoExecute [prefer-no-execute] [prefer-no-schedule]"] = (
            _effects(given)
        )
    if kind == "Cluster" and written_in_two_ways(spec.get("resourceModels") or ()):
        found[BY_VALUE] = {MODELS}
    return found


def _without_modes(policy: Any) -> Document:
    """Return what a policy says but for how it purges, and for how long a graceful purge may take."""
    essence = _essence(policy)
    for behaviour in essence["spec"].get("failover", {}).values():
        behaviour.pop("purgeMode", None)
        behaviour.pop("gracePeriodSeconds", None)
    return essence


def _leaves_out_id(given: Document) -> bool:
    old, new = ((given.get(one) or {}).get("metadata", {}).get("labels", {}) for one in ("oldObject", "object"))
    return any(label.endswith("/permanent-id") and label not in new for label in old)


def _old_purge_mode(spec: Document) -> bool:
    behaviours = (spec.get("failover") or {}).values()
    return any((one or {}).get("purgeMode") in ("Immediately", "Graciously") for one in behaviours)


def _no_execute(given: Document) -> set[tuple[str, str]]:
    taints = given["object"]["spec"].get("taints") or ()
    return {
        ("FieldValueForbidden", f"spec.taints[{index}]")
        for index, taint in enumerate(taints)
        if taint.get("effect") == "NoExecute"
    }


def _reported_elsewhere(given: Document) -> set[tuple[str, str]]:
    """Return the duplicates that only one of the two tells: the original tells all but the last of each, we all but
    the first."""
    pairs = [(one.get("key"), one.get("effect")) for one in given["object"]["spec"].get("taints") or ()]
    theirs = {index for index, pair in enumerate(pairs) if pair in pairs[index + 1 :]}
    ours = {index for index, pair in enumerate(pairs) if pair in pairs[:index]}
    return {("FieldValueDuplicate", f"spec.taints[{index}]") for index in theirs ^ ours}


def _effects(given: Document) -> set[tuple[str, str]]:
    return {
        ("FieldValueNotSupported", f"spec.taints[{index}].effect")
        for index, taint in enumerate(given["object"]["spec"].get("taints") or ())
        if taint.get("effect") in ("PreferNoSchedule", "PreferNoExecute")
    }
