"""Admission: from a document somebody sent to the object that is stored, or to every reason why not.

Pure: time, uid and the old object are arguments. What concerns one kind only stands beside the kind (`*_rules`); what
needs the estimator, the interpreter or the clock stands here, because kinds know none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from controlplane import interpret
from controlplane.admission import metadata_rules, storable
from controlplane.apimachinery.causes import duplicate, forbidden, invalid, required, unsupported
from controlplane.apimachinery.errors import BadRequest, Cause, Conflict, Invalid, MethodNotAllowed
from controlplane.apimachinery.meta import Object, ObjectMeta, condition, to_seconds, with_condition
from controlplane.apimachinery.names import safe_hash
from controlplane.apimachinery.times import in_utc
from controlplane.clusters import fence, heartbeats
from controlplane.clusters.taints import OWNERS_ANNOTATION, kept, stays_because
from controlplane.estimate import models
from controlplane.kind import Kind
from controlplane.kinds import CLUSTER, DEFINITION, LEASE, POLICIES, WORK
from controlplane.kinds.cluster import EVICTING_EFFECTS, PUBLISHED, Cluster, Taint
from controlplane.kinds.policy import Policy
from controlplane.kinds.template import Template
from controlplane.kinds.work import Work
from controlplane.propagation import definitions, works
from controlplane.settings import Settings
from controlplane.wire import document_check

Document = dict[str, Any]
STATUS = "status"
CONDITION_STATUSES = ("True", "False", "Unknown")
_MODELS_GATE = "CustomizedClusterResourceModeling"


class Admitted(msgspec.Struct, frozen=True):
    """The object to store, and what its user should know."""

    object: Object
    warnings: tuple[str, ...] = ()


def admit_create(kind: Kind, doc: Document, *, namespace: str, settings: Settings, now: datetime, uid: str) -> Admitted:
    """Return the new object of a document. Raises BadRequest where it is another kind's or namespace's, and Invalid
    with all causes where it breaks rules, MethodNotAllowed where its definition is being deleted."""
    if kind.is_ending:
        raise MethodNotAllowed(
            f"create not allowed while custom resource definition is terminating: {kind.resource.plural} go with it"
        )
    doc, warnings = _prepared(kind, without_status(kind, doc))
    metadata = _metadata(doc)
    if kind.resource.namespaced and not metadata.get("namespace"):
        metadata["namespace"] = namespace
    _check_place(kind, metadata, namespace)
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = f"{metadata['generateName']}{safe_hash(uid)[:5]}"
    obj = _typed(kind, doc, None, settings=settings, now=now, name=str(metadata.get("name", "")))
    obj = obj.with_meta(
        uid=uid,
        resource_version="",
        generation=1 if kind.has_generation else 0,
        creation_timestamp=to_seconds(now),
        deletion_timestamp=None,
        deletion_grace_period_seconds=None,
    )
    if kind.has_status and STATUS in kind.resource.subresources:
        obj = _with_status_of(obj, None)
    return _ruled(kind, obj, None, warnings, settings=settings, now=now)


def admit_update(
    kind: Kind, doc: Document, old: Object, *, subresource: str = "", settings: Settings, now: datetime
) -> Admitted:
    """Return the changed object of a whole document, as PUT sends it and patches result in.

    `subresource` "status" takes only the status from it; anything else leaves the status as it is. Raises BadRequest
    where it is another object's document, Conflict where the uid is another one's, Invalid with all causes.
    """
    doc, warnings = _prepared(kind, doc if subresource == STATUS else without_status(kind, doc))
    metadata = _metadata(doc)
    if kind.resource.namespaced and not metadata.get("namespace"):
        metadata["namespace"] = old.metadata.namespace
    _check_place(kind, metadata, old.metadata.namespace)
    name = metadata.setdefault("name", old.metadata.name)
    if name != old.metadata.name:
        raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({old.metadata.name})")
    if metadata.get("uid") not in (None, "", old.metadata.uid):
        why = f"the uid {metadata['uid']} is not the one of this object ({old.metadata.uid}): it was made anew"
        raise Conflict.of(kind.resource.plural, old.metadata.name, group=kind.resource.group, why=why)
    obj = _typed(kind, doc, old, settings=settings, now=now, name=old.metadata.name)
    if subresource == STATUS:
        if causes := [*_conditions(obj), *kind.validate_status(obj)]:
            raise Invalid.of(kind.resource.kind, old.metadata.name, causes, group=kind.resource.group)
        changed = _with_status_of(old, obj).with_meta(managed_fields=obj.metadata.managed_fields)
        if kind.key == CLUSTER:
            changed = _timed(changed, old, now=now)
        return Admitted(changed, tuple(warnings))
    obj = _continued(obj, old)
    if kind.has_status and STATUS in kind.resource.subresources:
        obj = _with_status_of(obj, old)
    admitted = _ruled(kind, obj, old, warnings, settings=settings, now=now)
    return replace(admitted, object=_counted(kind, admitted.object, old))


def without_status(kind: Kind, doc: Document) -> Document:
    """Return a document without its status where the kind has a status subresource.

    Only that subresource writes the status. A write of the object itself is judged neither by the status it sends nor
    by the stored one, which members and older releases may have written otherwise than the schema says.
    """
    if kind.has_status and STATUS in kind.resource.subresources:
        return {key: value for key, value in doc.items() if key != STATUS}
    return doc


def _conditions(obj: Any) -> list[Cause]:
    """Return what is wrong with conditions: each has a type of its own, and a status of True, False or Unknown, as any
    other would be read as Unknown."""
    conditions = getattr(obj.status, "conditions", ())
    types = [one.type for one in conditions]
    causes = list[Cause]()
    for index, one in enumerate(conditions):
        path = f"status.conditions[{index}]"
        if one.status not in CONDITION_STATUSES:
            causes.append(unsupported(f"{path}.status", one.status, CONDITION_STATUSES))
        if not one.type:
            causes.append(required(f"{path}.type", "name what is said to hold or not"))
        elif one.type in types[:index]:
            causes.append(duplicate(f"{path}.type", one.type, "a condition is said once"))
    return causes


def _prepared(kind: Kind, doc: Document) -> tuple[Document, list[str]]:
    """Return the document without nulls and with today's spellings, and what was changed about it."""
    resource = kind.resource
    for field, expected in (("apiVersion", resource.api_version), ("kind", resource.kind)):
        if doc.get(field, expected) != expected:
            raise BadRequest(f"the {field} in the data ({doc[field]}) does not match the expected {field} ({expected})")
    doc = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        **document_check.without_nulls(doc, kind.schema()),
    }
    warnings = kind.normalise(doc)
    return kind.fill(doc), warnings


def _metadata(doc: Document) -> Document:
    metadata = doc.setdefault("metadata", {})
    if not isinstance(metadata, dict):
        raise BadRequest("metadata has to be an object")
    own = doc["metadata"] = dict(metadata)
    return own


def _check_place(kind: Kind, metadata: Document, namespace: str) -> None:
    given = metadata.get("namespace", "")
    if kind.resource.namespaced and given != namespace:
        raise BadRequest(
            f"the namespace of the provided object ({given}) does not match the namespace sent on the request "
            f"({namespace})"
        )


def _typed(kind: Kind, doc: Document, old: Any, *, settings: Settings, now: datetime, name: str) -> Any:
    """Return the typed object. Raises Invalid with everything the schema does not allow, and what else is wrong."""
    causes = [*document_check.faults(doc, kind.schema()), *storable.nuls(kind, doc)]
    if not causes:
        try:
            return _converted(kind, doc)
        except msgspec.ValidationError:
            pass  # said below, beside all else
    rest = _rest(kind, doc, causes)
    if rest is None:
        causes += _metadata_causes(kind, doc["metadata"], causes)
    else:
        found = _judged(kind, rest, old, settings=settings, now=now).causes
        causes += [one for one in found if not any(_follows(one, known) for known in causes)]
    raise Invalid.of(kind.resource.kind, name, causes, group=kind.resource.group)


def _converted(kind: Kind, doc: Document) -> Any:
    fold = getattr(kind.type, "fold", None)
    return in_utc(msgspec.convert(doc, kind.type)) if fold is None else fold(doc)


def _rest(kind: Kind, doc: Document, causes: list[Cause]) -> Any:
    """Return the typed object of what is right about a document, None where there is none; what fits the schema and not
    the type (a time that is none) is added to the causes."""
    rest = document_check.mended(doc, kind.schema())
    while rest is not None:
        try:
            return _converted(kind, rest)
        except msgspec.ValidationError as error:
            field, rule = _place_and_rule(error)
            path = document_check.path_of(field)
            if not any(one.field == field for one in causes):
                causes.append(invalid(field, document_check.at(rest, path), rule))
            if not document_check.remove(rest, path):
                return None
    return None


def _follows(one: Cause, known: Cause) -> bool:
    """Test whether a rule is broken only because of what is known already: at the same field, within it, or around it.

    That something stands there twice is true whatever else is wrong with it.
    """
    if one.reason == "FieldValueDuplicate" and one.field != known.field:
        return _within(one.field, known.field)
    return _within(one.field, known.field) or _within(known.field, one.field)


def _within(one: str, other: str) -> bool:
    """Test whether a field is another one, or stands in it."""
    return one.startswith(other) and one[len(other) : len(other) + 1] in ("", ".", "[")


def _metadata_causes(kind: Kind, metadata: Document, known: Sequence[Cause]) -> list[Cause]:
    """Return what is wrong with metadata beside what is known already, so that all is said at once."""
    if any(cause.field.startswith("metadata") for cause in known):
        return []
    try:
        return list(metadata_rules.faults(kind.resource, msgspec.convert(metadata, ObjectMeta)))
    except msgspec.ValidationError:
        return []


def _place_and_rule(error: msgspec.ValidationError) -> tuple[str, str]:
    """Return where a value stands that fits the schema and not the type (a time that is none), and what it breaks."""
    text, _, place = str(error).partition(" - at `$.")
    return place.rstrip("`"), text.replace("`", "")


def _with_status_of(obj: Any, other: Any) -> Any:
    """Return the object with another one's status, with an empty one where there is no other."""
    if other is not None:
        return replace(obj, status=other.status)
    return replace(obj, status={} if isinstance(obj, Template) else type(obj.status)())


def _continued(obj: Any, old: Any) -> Any:
    """Return the object with what a user never changes: identity, times, deletion."""
    before = old.metadata
    return obj.with_meta(
        uid=before.uid,
        resource_version=before.resource_version,
        generation=before.generation,
        creation_timestamp=before.creation_timestamp,
        deletion_timestamp=before.deletion_timestamp,
        deletion_grace_period_seconds=before.deletion_grace_period_seconds,
    )


def _ruled(kind: Kind, obj: Any, old: Any, warnings: list[str], *, settings: Settings, now: datetime) -> Admitted:
    """Return the object with its defaults. Raises Invalid with all causes where it breaks a rule."""
    judged = _judged(kind, obj, old, settings=settings, now=now)
    obj = judged.object
    if judged.causes:
        raise Invalid.of(kind.resource.kind, obj.metadata.name, judged.causes, group=kind.resource.group)
    return Admitted(obj, (*warnings, *judged.warnings, *kind.warn(obj, old, settings)))


class _Judged(NamedTuple):
    """An object with its defaults, and what is to be said about it."""

    object: Any
    warnings: Sequence[str]
    causes: list[Cause]


def _judged(kind: Kind, obj: Any, old: Any, *, settings: Settings, now: datetime) -> _Judged:
    """Return the object with its defaults and every rule it breaks."""
    obj = kind.default(obj, old, settings)
    obj, warnings, causes = _completed(kind, obj, old, settings=settings, now=now)
    causes += metadata_rules.faults(kind.resource, obj.metadata)
    causes += _finalizers(obj, old)
    causes += kind.validate(obj, old, settings)
    causes += storable.entries(kind, obj)
    return _Judged(obj, warnings, causes)


def _finalizers(obj: Object, old: Object | None) -> list[Cause]:
    """Nothing may begin to hold an object that is already going."""
    if old is None or old.metadata.deletion_timestamp is None:
        return []
    added = sorted(set(obj.metadata.finalizers) - set(old.metadata.finalizers))
    rule = "no new finalizers can be added if the object is being deleted, found new finalizers "
    return [forbidden("metadata.finalizers", f"{rule}{', '.join(added)}")] if added else []


def _completed(
    kind: Kind, obj: Any, old: Any, *, settings: Settings, now: datetime
) -> tuple[Any, Sequence[str], list[Cause]]:
    """Return the object with what only admission knows, warnings, and what is wrong with it."""
    if kind.key == LEASE:
        return heartbeats.stamped(obj, old, now=now), (), []
    if kind.key == CLUSTER:
        return _cluster(obj, old, settings=settings, now=now)
    if kind.key == DEFINITION:
        return _definition(obj, now=now), (), []
    if kind.key == WORK:
        work: Work = obj
        sound = not kind.validate(obj, None, settings)
        return (works.authored(work) if sound else work), (), []
    if kind.key in POLICIES:
        return obj, _never_ill(obj), []
    return obj, (), []


def _never_ill(policy: Policy) -> Sequence[str]:
    """Return a warning where nothing a policy selects can ever be ill, so that nothing leaves for it."""
    failover, selected = policy.spec.failover, policy.spec.resource_selectors
    if failover is None or failover.application is None or not selected:
        return ()
    if any(interpret.interpreter_for(one.api_version, one.kind).healthy is not None for one in selected):
        return ()
    names = ", ".join(sorted({one.kind for one in selected}))
    return (f"spec.failover.application has no effect on {names}: no rule says when one is unhealthy",)


def _definition(one: Template, *, now: datetime) -> Template:
    """Return a definition with its status: whether its names are free. One that is refused anyway keeps what it has."""
    try:
        return definitions.settled(one, definitions.taken_from(one), now=now)
    except (KeyError, TypeError, AttributeError, StopIteration):
        return one


def _timed(cluster: Cluster, old: Any, *, now: datetime) -> Cluster:
    """Return the cluster with its conditions' transition times by our clock: windows and timeouts are counted from
    them, and whoever reports may be minutes off (fault 48).

    What this system publishes stays where a report leaves it out: the list is written as a whole, by whoever adds one.
    """
    before: Cluster = old
    conditions = before.status.conditions
    for one in cluster.status.conditions:
        conditions = with_condition(conditions, one, now=now)
    timed = tuple(found for one in cluster.status.conditions if (found := condition(conditions, one.type)) is not None)
    kept = (one for one in before.status.conditions if one.type in PUBLISHED and condition(timed, one.type) is None)
    return cluster.with_status(conditions=(*kept, *timed))


def _cluster(
    cluster: Cluster, old: Cluster | None, *, settings: Settings, now: datetime
) -> tuple[Cluster, Sequence[str], list[Cause]]:
    """Return the cluster with the times and owners of its taints and the standard form of its models (D16)."""
    before = {(one.key, one.effect): one.time_added for one in old.spec.taints} if old is not None else {}
    stamp = to_seconds(now)
    taints = tuple(_stamped(taint, before, stamp) for taint in cluster.spec.taints)
    stays = kept(old, cluster, settings, now=now) if old is not None else ()
    spec, found, causes = replace(cluster.spec, taints=(*taints, *stays)), list[str](), list[Cause]()
    if settings.gate(_MODELS_GATE) and (old is None or spec.resource_models):
        found = models.warnings(spec.resource_models)
        spec = replace(spec, resource_models=models.standardise(spec.resource_models))
        causes = models.violations(spec.resource_models)
    causes += fence.written_by_hand(cluster, old)
    told = [f"spec.taints: {stays_because(one)}" for one in stays]
    return _owned(replace(cluster, spec=spec), old), [*told, *found], causes


def _owned(cluster: Cluster, old: Cluster | None) -> Cluster:
    """Return the cluster with what is known of its taints' owners, also where a manifest written elsewhere replaces it:
    what nobody owned any more nobody would take off when the cluster is well again (D3)."""
    known = None if old is None else old.metadata.annotations.get(OWNERS_ANNOTATION)
    if known is None or OWNERS_ANNOTATION in cluster.metadata.annotations:
        return cluster
    return cluster.with_meta(annotations={**cluster.metadata.annotations, OWNERS_ANNOTATION: known})


def _stamped(taint: Taint, before: dict[tuple[str, str], datetime | None], now: datetime) -> Taint:
    """A taint that starts clocks has a time: the one it had, else now."""
    if taint.time_added is not None or taint.effect not in EVICTING_EFFECTS:
        return taint
    return replace(taint, time_added=before.get((taint.key, taint.effect)) or now)


def _counted(kind: Kind, obj: Any, old: Any) -> Any:
    """Return the object with its generation raised where what it asks for changed."""
    if not kind.has_generation:
        return obj
    if isinstance(obj, Template):
        changed = obj.content.get("spec") != old.content.get("spec")
    else:
        changed = getattr(obj, "spec", None) != getattr(old, "spec", None)
    return obj.with_meta(generation=old.metadata.generation + 1) if changed else obj
