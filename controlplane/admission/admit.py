"""Admission: turns the document of a request into the object to store, or raises Invalid with all its errors.

Pure functions: the time, the uid and the old object are arguments. Rules of a single kind are in its module
`kinds.*_rules`. Rules that need the time, the interpreter or the estimator are here, because kinds may not import
these.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
import orjson
from msgspec.structs import replace

from controlplane import interpret
from controlplane.admission import metadata_rules, storage_limits
from controlplane.apimachinery.causes import (
    duplicate,
    forbidden,
    invalid,
    recreation_hints,
    repeated,
    required,
    unsupported,
)
from controlplane.apimachinery.equality import same
from controlplane.apimachinery.errors import BadRequest, Cause, Conflict, Invalid, MethodNotAllowed
from controlplane.apimachinery.meta import Object, ObjectMeta, condition, to_seconds, with_condition
from controlplane.apimachinery.names import safe_hash
from controlplane.apimachinery.times import in_utc
from controlplane.clusters import fence, heartbeats
from controlplane.clusters.taints import OWNERS_ANNOTATION, kept, stays_because
from controlplane.estimate import resource_models
from controlplane.kind import KINDS, Kind, text_of
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
MOST_UNDECODED: Final = 100  # values of one document that its type refuses, which are all reported
MOST_GENERATED: Final = 58  # characters of generateName that a name begins with: it then fits into a label
CONDITION_STATUSES = ("True", "False", "Unknown")
_MODELS_GATE = "CustomizedClusterResourceModeling"


class Admitted(msgspec.Struct, frozen=True):
    """The object to store, and the warnings for its author."""

    object: Object
    warnings: tuple[str, ...] = ()


def admit_create(kind: Kind, doc: Document, *, namespace: str, settings: Settings, now: datetime, uid: str) -> Admitted:
    """Return the new object of a document.

    Raises BadRequest if the document has another kind or namespace than the URL, Invalid with all causes if it breaks
    rules, and MethodNotAllowed if the CustomResourceDefinition of its kind is being deleted.
    """
    if kind.is_ending:
        raise MethodNotAllowed(
            "create not allowed while custom resource definition is terminating: its objects are deleted too"
        )
    doc, warnings = _prepared(kind, without_status(kind, doc))
    metadata = _metadata(doc)
    _place(kind, metadata, namespace)
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = f"{str(metadata['generateName'])[:MOST_GENERATED]}{safe_hash(uid)[:5]}"
    obj = _decoded(kind, doc, None, settings=settings, now=now, name=str(metadata.get("name", "")))
    obj = obj.with_meta(
        uid=uid,
        resource_version="",
        generation=1 if kind.has_generation else 0,
        creation_timestamp=to_seconds(now),
        deletion_timestamp=None,
        deletion_grace_period_seconds=None,
    )
    admitted = _checked(kind, obj, None, warnings, settings=settings, now=now)
    return replace(admitted, object=_with_initial_status(kind, admitted.object))


def admit_update(
    kind: Kind, doc: Document, old: Object, *, subresource: str = "", settings: Settings, now: datetime
) -> Admitted:
    """Return the changed object of a complete document, as it is sent by PUT or results from a patch.

    subresource: "status" takes only the status from the document; every other value keeps the stored status.
    Raises BadRequest if the document is for another object, Conflict if its uid is that of a deleted object, and
    Invalid with all causes if it breaks rules.
    """
    doc, warnings = _prepared(kind, doc if subresource == STATUS else without_status(kind, doc))
    metadata = _metadata(doc)
    _place(kind, metadata, old.metadata.namespace)
    name = metadata.setdefault("name", old.metadata.name)
    if name != old.metadata.name:
        raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({old.metadata.name})")
    if metadata.get("uid") not in (None, "", old.metadata.uid):
        why = f"the uid {metadata['uid']} is not that of this object ({old.metadata.uid}), which was created later"
        raise Conflict.of(kind.resource.plural, old.metadata.name, group=kind.resource.group, why=why)
    obj = _decoded(kind, doc, old, settings=settings, now=now, name=old.metadata.name)
    if subresource == STATUS:
        if causes := [*_conditions(obj), *kind.validate_status(obj)]:
            raise Invalid.of(kind.resource.kind, old.metadata.name, causes, group=kind.resource.group)
        changed = _with_status_of(old, obj).with_meta(managed_fields=obj.metadata.managed_fields)
        if kind.key == CLUSTER:
            changed = _with_transition_times(changed, old, now=now)
        return Admitted(changed, tuple(warnings))
    obj = _with_identity_of(obj, old)
    if kind.has_status and STATUS in kind.resource.subresources:
        obj = _with_status_of(obj, old)
    admitted = _checked(kind, obj, old, warnings, settings=settings, now=now)
    return replace(admitted, object=_with_generation(kind, admitted.object, old))


def without_status(kind: Kind, doc: Document) -> Document:
    """Return a document without its status if the kind has a status subresource.

    Only that subresource writes the status. A write of the object itself ignores the status in its document. The
    stored status is not checked then either: members and older releases may have written one that is invalid today.
    """
    if kind.has_status and STATUS in kind.resource.subresources:
        return {key: value for key, value in doc.items() if key != STATUS}
    return doc


def _conditions(obj: Any) -> list[Cause]:
    """Return the errors in status.conditions: types that are missing or repeated, and statuses that do not exist."""
    conditions = getattr(obj.status, "conditions", ())
    twice = repeated(reported.type for reported in conditions)
    causes = list[Cause]()
    for index, reported in enumerate(conditions):
        path = f"status.conditions[{index}]"
        if reported.status not in CONDITION_STATUSES:
            causes.append(unsupported(f"{path}.status", reported.status, CONDITION_STATUSES))
        if not reported.type:
            causes.append(required(f"{path}.type", "a condition needs a type"))
        elif index in twice:
            causes.append(duplicate(f"{path}.type", reported.type, "each type of condition may be listed once"))
    return causes


def _prepared(kind: Kind, doc: Document) -> tuple[Document, list[str]]:
    """Return the document without nulls, with old field names replaced and defaults of its schema added; and warnings.

    Raises BadRequest if the document has another apiVersion or kind.
    """
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
    """Return the metadata of a document, copied so that it can be changed."""
    metadata = doc.setdefault("metadata", {})
    if not isinstance(metadata, dict):
        raise BadRequest("metadata must be an object")
    copied = doc["metadata"] = dict(metadata)
    return copied


def _place(kind: Kind, metadata: Document, namespace: str) -> None:
    """Put the namespace of a request into the metadata of an object. Without a namespace of its own, it has none.

    As in Kubernetes, the namespace that a manifest of a cluster-scoped kind names is left out: charts write it there.
    Raises BadRequest if the metadata name another namespace.
    """
    if not kind.resource.namespaced:
        metadata.pop("namespace", None)
        return
    given = metadata.get("namespace") or namespace
    if given != namespace:
        raise BadRequest(
            f"the namespace of the provided object ({given}) does not match the namespace sent on the request "
            f"({namespace})"
        )
    metadata["namespace"] = given


def _decoded(kind: Kind, doc: Document, old: Any, *, settings: Settings, now: datetime, name: str) -> Any:
    """Return the typed object of a document.

    Raises Invalid with everything that the schema does not allow, of a custom kind only if the edit changes it. So that
    users see all errors at once, the causes also include the rules that the valid rest of the document breaks.
    """
    before = partial(_as_read, kind, old) if old is not None and KINDS.is_custom(kind) else None
    faults = document_check.faults(doc, kind.schema_to_check(), read_before=before)
    causes = [*faults, *storage_limits.nul_causes(kind, doc)]
    if not causes:
        try:
            return _converted(kind, doc)
        except msgspec.ValidationError:
            pass  # reported below, together with all other errors
    rest = _valid_rest(kind, doc, causes)
    if rest is None:
        causes += _metadata_causes(kind, doc["metadata"], causes)
    else:
        broken = _apply_rules(kind, rest, old, settings=settings, now=now).causes
        causes += _independent(broken, causes)
    raise Invalid.of(kind.resource.kind, name, causes, group=kind.resource.group)


def _as_read(kind: Kind, stored: Any) -> Document:
    """Return the document of a stored object as its present definition shows it."""
    return definitions.as_defined(kind, orjson.loads(text_of(stored)))


def _converted(kind: Kind, doc: Document) -> Any:
    fold = getattr(kind.type, "fold", None)
    return in_utc(msgspec.convert(doc, kind.type)) if fold is None else fold(doc)


def _valid_rest(kind: Kind, doc: Document, causes: list[Cause]) -> Any:
    """Return the typed object of the valid parts of a document; None: nothing can be decoded.

    Values that the schema allows but the type does not (for example an invalid time) are added to `causes`. The decoder
    finds one of them in a document, so that nothing is decoded if there are more than MOST_UNDECODED.
    """
    rest = document_check.valid_part(doc, kind.schema_to_check())
    if rest is None:
        return None
    for _ in range(MOST_UNDECODED):
        try:
            return _converted(kind, rest)
        except msgspec.ValidationError as error:
            field, rule = _field_and_rule(error)
            path = document_check.path_of(field)
            if not any(cause.field == field for cause in causes):
                causes.append(invalid(field, document_check.at(rest, path), rule))
            if not document_check.remove(rest, path):
                return None
    return None


def _independent(causes: Sequence[Cause], known: Sequence[Cause]) -> list[Cause]:
    """Return the causes that may not be consequences of a known one: at the same field, inside it, or around it.

    A duplicate is an error of its own, whatever is wrong inside the repeated value. Documents of users may have a
    hundred thousand causes of either sort, so not each is compared with each: the known fields are sorted, those
    inside another known field are left out, and a field is searched for among the others.
    """
    outer: list[str] = []
    for field in sorted({cause.field.translate(_INSIDE) for cause in known}):
        if not (outer and _within(field, outer[-1])):
            outer.append(field)

    def follows(cause: Cause) -> bool:
        field = cause.field.translate(_INSIDE)
        place = bisect_right(outer, field)
        if place and _within(field, outer[place - 1]):
            return True
        return cause.reason != "FieldValueDuplicate" and place < len(outer) and _within(outer[place], field)

    return [cause for cause in causes if not follows(cause)]


# The signs that begin a part of a path, as signs that sort before all others: what is inside a field follows it.
_INSIDE: Final = str.maketrans(".[", "\0\1")


def _within(field: str, outer: str) -> bool:
    """Test whether a translated field is `outer` itself or inside it."""
    return field.startswith(outer) and field[len(outer) : len(outer) + 1] in ("", "\0", "\1")


def _metadata_causes(kind: Kind, metadata: Document, known: Sequence[Cause]) -> list[Cause]:
    """Return the errors in metadata, unless `known` causes concern metadata already."""
    if any(cause.field.startswith("metadata") for cause in known):
        return []
    try:
        return list(metadata_rules.metadata_causes(kind.resource, msgspec.convert(metadata, ObjectMeta)))
    except msgspec.ValidationError:
        return []


def _field_and_rule(error: msgspec.ValidationError) -> tuple[str, str]:
    """Return the path of the field that could not be decoded, and the reason."""
    text, _, field = str(error).partition(" - at `$.")
    return field.rstrip("`"), text.replace("`", "")


def _with_status_of(obj: Any, other: Any) -> Any:
    """Return the object with the status of `other`."""
    return replace(obj, status=other.status)


def _with_initial_status(kind: Kind, obj: Any) -> Any:
    """Return a new object, which is valid, with the status that it begins with."""
    status = kind.initial_status(obj.spec) if isinstance(obj, Template) else {}
    return replace(obj, status=status) if status else obj


def _with_identity_of(obj: Any, old: Any) -> Any:
    """Return the object with the metadata that users cannot change: uid, version, generation, times and deletion."""
    before = old.metadata
    return obj.with_meta(
        uid=before.uid,
        resource_version=before.resource_version,
        generation=before.generation,
        creation_timestamp=before.creation_timestamp,
        deletion_timestamp=before.deletion_timestamp,
        deletion_grace_period_seconds=before.deletion_grace_period_seconds,
    )


def _checked(kind: Kind, obj: Any, old: Any, warnings: list[str], *, settings: Settings, now: datetime) -> Admitted:
    """Return the object with its defaults, and warnings. Raises Invalid with all causes if it breaks rules."""
    result = _apply_rules(kind, obj, old, settings=settings, now=now)
    obj = result.object
    if result.causes:
        error = Invalid.of(kind.resource.kind, obj.metadata.name, result.causes, group=kind.resource.group)
        error.warnings = recreation_hints(result.causes)
        raise error
    return Admitted(obj, (*warnings, *result.warnings, *kind.warn(obj, old, settings)))


class _RuleResult(NamedTuple):
    """An object with its defaults, warnings about it, and the rules that it breaks."""

    object: Any
    warnings: Sequence[str]
    causes: list[Cause]


def _apply_rules(kind: Kind, obj: Any, old: Any, *, settings: Settings, now: datetime) -> _RuleResult:
    """Return the object with its defaults, its warnings, and a cause for every rule that it breaks."""
    obj = kind.default(obj, old, settings)
    obj, warnings, causes = _completed(kind, obj, old, settings=settings, now=now)
    causes += metadata_rules.metadata_causes(kind.resource, obj.metadata)
    causes += _new_finalizers(obj, old)
    causes += _second_controller(obj, old)
    causes += _event_owners(obj, old)
    causes += kind.validate(obj, old, settings)
    causes += storage_limits.index_entry_causes(kind, obj)
    return _RuleResult(obj, warnings, causes)


def _new_finalizers(obj: Object, old: Object | None) -> list[Cause]:
    """Return the cause against new finalizers of an object that is being deleted; []: it has none."""
    if old is None or old.metadata.deletion_timestamp is None:
        return []
    added = sorted(set(obj.metadata.finalizers) - set(old.metadata.finalizers))
    rule = "no new finalizers can be added if the object is being deleted, found new finalizers "
    return [forbidden("metadata.finalizers", f"{rule}{', '.join(added)}")] if added else []


def _second_controller(obj: Object, old: Object | None) -> list[Cause]:
    """Return the cause against a second owner that is the controller; []: at most one is, or the edit adds none."""
    controllers, before = (
        [owner for owner in side.metadata.owner_references if owner.controller] if side is not None else []
        for side in (obj, old)
    )
    if len(controllers) < 2 or all(owner in before for owner in controllers):
        return []
    first, second = (f"{owner.kind}/{owner.name}" for owner in controllers[:2])
    rule = 'Only one reference can have Controller set to true. Found "true" in references for '
    owners = [msgspec.to_builtins(owner) for owner in obj.metadata.owner_references]
    return [invalid("metadata.ownerReferences", owners, f"{rule}{first} and {second}")]


def _event_owners(obj: Object, old: Object | None) -> list[Cause]:
    """Return the causes against new owners that are Events: an Event goes after an hour, and what it owns with it."""
    owners, before = (side.metadata.owner_references if side is not None else () for side in (obj, old))
    rule = "/v1, Kind=Event is disallowed from being an owner"
    return [
        invalid(f"metadata.ownerReferences[{index}]", msgspec.to_builtins(owner), rule)
        for index, owner in enumerate(owners)
        if (owner.api_version, owner.kind) == ("v1", "Event") and owner not in before
    ]


def _completed(
    kind: Kind, obj: Any, old: Any, *, settings: Settings, now: datetime
) -> tuple[Any, Sequence[str], list[Cause]]:
    """Return the object with the fields that admission sets for its kind, with warnings and errors about them."""
    if kind.key == LEASE:
        return heartbeats.stamped(obj, old, now=now), (), []
    if kind.key == CLUSTER:
        return _cluster(obj, old, settings=settings, now=now)
    if kind.key == DEFINITION:
        return _definition(obj, now=now), (), []
    if kind.key == WORK:
        work: Work = obj
        is_valid = not kind.validate(obj, None, settings)
        return (works.authored(work) if is_valid else work), (), []
    if kind.key in POLICIES:
        return obj, _never_unhealthy(obj), []
    return obj, (), []


def _never_unhealthy(policy: Policy) -> Sequence[str]:
    """Warn if application failover has no effect, because no selected kind has a rule for its health."""
    failover, selected = policy.spec.failover, policy.spec.resource_selectors
    if failover is None or failover.application is None or not selected:
        return ()
    if any(interpret.interpreter_for(entry.api_version, entry.kind).healthy is not None for entry in selected):
        return ()
    names = ", ".join(sorted({entry.kind for entry in selected}))
    return (f"spec.failover.application has no effect on {names}: there is no rule for the health of this kind",)


def _definition(definition: Template, *, now: datetime) -> Template:
    """Return a CustomResourceDefinition with its status, which reports whether its names are free.

    An invalid definition is returned unchanged; it is refused later.
    """
    try:
        return definitions.settled(definition, definitions.taken_from(definition), now=now)
    except (KeyError, TypeError, AttributeError, StopIteration):
        return definition


def _with_transition_times(cluster: Cluster, old: Any, *, now: datetime) -> Cluster:
    """Return the cluster with the transition times of its conditions set by the control plane's clock.

    Windows and timeouts start at these times, and the clock of a reporter may be minutes off [skewed-clocks].
    Conditions that Lifeboat itself publishes are kept if the report does not contain them, because a reporter writes
    the whole list.
    """
    before: Cluster = old
    stored = {known.type: (known,) for known in before.status.conditions}
    timed = tuple(with_condition(stored.get(new.type, ()), new, now=now)[0] for new in cluster.status.conditions)
    kept = (known for known in before.status.conditions if known.type in PUBLISHED and not condition(timed, known.type))
    return cluster.with_status(conditions=(*kept, *timed))


def _cluster(
    cluster: Cluster, old: Cluster | None, *, settings: Settings, now: datetime
) -> tuple[Cluster, Sequence[str], list[Cause]]:
    """Return the cluster with timeAdded and owners of its taints and standardised resource models [resource-models].

    Also returns warnings about taints that the edit cannot remove, and the errors in models and fence.
    """
    before = {(taint.key, taint.effect): taint.time_added for taint in old.spec.taints} if old is not None else {}
    stamp = to_seconds(now)
    taints = tuple(_with_time_added(taint, before, stamp) for taint in cluster.spec.taints)
    stays = kept(old, cluster, settings, now=now) if old is not None else ()
    spec, warnings, causes = replace(cluster.spec, taints=(*taints, *stays)), list[str](), list[Cause]()
    if settings.gate(_MODELS_GATE) and (old is None or spec.resource_models):
        warnings = resource_models.warnings(spec.resource_models)
        spec = replace(spec, resource_models=resource_models.standardise(spec.resource_models))
        causes = resource_models.violations(spec.resource_models)
    causes += fence.written_by_hand(cluster, old)
    staying = [f"spec.taints: {stays_because(taint)}" for taint in stays]
    return _with_taint_owners(replace(cluster, spec=spec), old), [*staying, *warnings], causes


def _with_taint_owners(cluster: Cluster, old: Cluster | None) -> Cluster:
    """Return the cluster with the stored owners of its taints if the document has no such annotation.

    An annotation in the document is kept. A PUT of a manifest from elsewhere does not have the annotation. Without an
    owner, no controller would remove the taints after the cluster recovers [taint-ownership].
    """
    known = None if old is None else old.metadata.annotations.get(OWNERS_ANNOTATION)
    if known is None or OWNERS_ANNOTATION in cluster.metadata.annotations:
        return cluster
    return cluster.with_meta(annotations={**cluster.metadata.annotations, OWNERS_ANNOTATION: known})


def _with_time_added(taint: Taint, before: dict[tuple[str, str], datetime | None], now: datetime) -> Taint:
    """Return a taint whose effect evicts with timeAdded: the time in the document, else the stored one, else now."""
    if taint.time_added is not None or taint.effect not in EVICTING_EFFECTS:
        return taint
    return replace(taint, time_added=before.get((taint.key, taint.effect)) or now)


def _with_generation(kind: Kind, obj: Any, old: Any) -> Any:
    """Return the object with its generation raised if its spec changed.

    Of a kind that a user defines, that is everything but its metadata, and its status if a subresource writes that.
    """
    if not kind.has_generation:
        return obj
    if isinstance(obj, Template) and KINDS.is_custom(kind):
        changed = obj.has_other_content_than(old) or not (kind.has_status or same(obj.status, old.status))
    elif isinstance(obj, Template):
        changed = not same(obj.content.get("spec"), old.content.get("spec"))
    else:
        changed = not same(getattr(obj, "spec", None), getattr(old, "spec", None))
    return obj.with_meta(generation=old.metadata.generation + 1) if changed else obj
