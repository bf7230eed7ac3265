"""metadata.managedFields, the record of which manager owns which field, and server-side apply, which uses it.

A manager that applies an object owns the fields in it. A field that it no longer applies is removed, unless another
manager owns the field too. A different value for a field of another manager is a conflict, unless the manager forces
it. A manager that creates, updates or patches owns the fields that it changed.

Arguments are never mutated. A result shares the unchanged parts with the arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import msgspec
import orjson

from controlplane.apimachinery.equality import same
from controlplane.apimachinery.errors import BadRequest, Cause, Conflict
from controlplane.wire.field_versions import Differences, Versions, only_version, pruned, with_metadata
from controlplane.wire.fieldset import Fields, difference, fields_of, intersection, is_readable, paths_in, union
from controlplane.wire.schema import Schema
from controlplane.wire.structured import merge, refuse_duplicates, without_nulls

Document = dict[str, Any]

# These fields have no owner: the server sets them, or they are part of the object's name.
_SERVER_METADATA = frozenset(
    (
        *("name", "namespace", "uid", "creationTimestamp", "resourceVersion", "generation", "selfLink"),
        *("managedFields", "deletionTimestamp", "deletionGracePeriodSeconds"),
    )
)
_UNOWNED: Fields = {
    "f:apiVersion": {},
    "f:kind": {},
    "f:metadata": {f"f:{name}": {} for name in sorted(_SERVER_METADATA)},
}
MAX_UPDATE_MANAGERS = 10
ANCIENT = "ancient-changes"
BEFORE_FIRST_APPLY = "before-first-apply"


class Manager(NamedTuple):
    """What identifies a manager in managedFields. `api_version` is "" for Apply, which is the same in all versions."""

    manager: str
    operation: str
    api_version: str
    subresource: str


class OwnedFields(msgspec.Struct, frozen=True):
    """The fields that a manager owns, the time of its last change (RFC 3339), and the apiVersion of the field names."""

    fields: Fields
    time: str
    api_version: str


def server_side_apply(
    live: Document | None,
    applied: Document,
    *,
    manager: str,
    force: bool,
    schema: Schema,
    now: datetime,
    api_version: str,
    subresource: str = "",
    resets: tuple[str, ...] = (),
    versions: Versions | None = None,
) -> Document:
    """Return the document after `manager` has applied `applied`; the same object as `live` if nothing changes.

    live: the stored document; None: there is none.
    force: take over fields that other managers own with another value. Without it, Conflict is raised, with a cause
    for each of these fields.
    resets: top-level fields that this endpoint does not write, for example "status".
    versions: the served versions of the kind. None: it has a single version.
    Raises BadRequest if `applied` has managedFields or lists an item twice.
    """
    if (applied.get("metadata") or {}).get("managedFields"):
        raise BadRequest("metadata.managedFields must be nil: the server keeps them, an applied object leaves them out")
    schema_ = with_metadata(schema)
    versions = versions or only_version(schema_)
    intent = _intent(applied, schema_, subresource, resets)
    refuse_duplicates(intent, schema_)
    fields = difference(fields_of(intent, schema_), _UNOWNED)
    key = Manager(manager, "Apply", "", subresource)
    if live is None:
        created = {**intent, "metadata": {**(applied.get("metadata") or {}), **intent.get("metadata", {})}}
        return _with_managers(created, {key: OwnedFields(fields, _stamp(now), api_version)} if fields else {})
    managers = _managers(live)
    if not managers:
        managers = _before_first_apply(live, schema_, api_version, now)
    before = managers.pop(key, None)
    wanted = merge(live, intent, schema_)
    if before is not None:
        is_same_version = before.api_version == api_version
        lost = difference(before.fields, fields) if is_same_version else before.fields
        if lost:
            kept = [(api_version, fields), *((owned.api_version, owned.fields) for owned in managers.values())]
            wanted = pruned(wanted, lost, before.api_version, kept, versions, api_version)
    differences = Differences(live, wanted, versions)
    _resolve_conflicts(managers, differences, force=force)
    _disown(managers, differences)
    if same(wanted, live) and before is not None and (before.fields, before.api_version) == (fields, api_version):
        return live
    if fields:
        managers[key] = OwnedFields(fields, _stamp(now), api_version)
    return _with_managers(wanted, managers)


def track(
    live: Document | None,
    new: Document,
    *,
    manager: str,
    schema: Schema,
    now: datetime,
    api_version: str,
    operation: Literal["Update"] = "Update",
    subresource: str = "",
    versions: Versions | None = None,
) -> Document:
    """Return `new` with its managedFields after a create, update or patch: `manager` owns the changed fields.

    live: the document before; None: the object is created. A client clears all managedFields by sending an empty list.
    versions: the served versions of the kind. None: it has a single version. As in Kubernetes, a conversion that fails
    stops no update: managers that wrote such a version keep their fields.
    """
    sent = (new.get("metadata") or {}).get("managedFields")
    if live is not None and sent is not None and not any(sent):
        return _with_managers(new, {})
    managers = _managers(new) if sent else {}
    if not managers and live is not None:
        managers = _managers(live)
    versions = versions or only_version(with_metadata(schema))
    differences = Differences(live or {}, new, versions, needs_all=False)
    changed, removed = differences.in_version(api_version) or ({}, {})
    changed = difference(changed, _UNOWNED)
    key = Manager(manager, operation, api_version, subresource)
    mine = managers.pop(key, None)
    for other, owned, taken in _disputes(managers, differences):
        _replace(managers, other, owned, difference(owned.fields, taken))
    _disown(managers, differences)
    if not changed and mine is not None and not (removed and intersection(mine.fields, removed)):
        managers[key] = mine
    else:
        fields = union(difference(mine.fields, removed, with_subtrees=True), changed) if mine is not None else changed
        if fields:
            managers[key] = OwnedFields(fields, _stamp(now), api_version)
    return _with_managers(new, _capped(managers))


def differ_in_times_only(left: Sequence[Document], right: Sequence[Document]) -> bool:
    """Test whether two lists of managedFields differ in their times and order only, or not at all."""
    known, other = (
        {orjson.dumps({**entry, "time": ""}, option=orjson.OPT_SORT_KEYS) for entry in entries}
        for entries in (right, left)
    )
    return len(left) == len(right) and other <= known


def _intent(applied: Document, schema: Schema, subresource: str, resets: tuple[str, ...]) -> Document:
    """Return the fields to apply: without nulls, fields set by the server, and fields of other endpoints."""
    if subresource == "status":
        return {"status": without_nulls(applied["status"], schema.property("status"))} if applied.get("status") else {}
    intent: Document = without_nulls({key: value for key, value in applied.items() if key not in resets}, schema)
    metadata = {key: value for key, value in intent.get("metadata", {}).items() if key not in _SERVER_METADATA}
    if metadata:
        intent["metadata"] = metadata
    else:
        intent.pop("metadata", None)
    return intent


def _resolve_conflicts(managers: dict[Manager, OwnedFields], differences: Differences, *, force: bool) -> None:
    """Raise Conflict if other managers own changed fields; with `force`, remove these fields from their sets."""
    conflicts: list[tuple[str, str]] = []
    for other, owned, disputed in _disputes(managers, differences):
        if force:
            _replace(managers, other, owned, difference(owned.fields, disputed))
        else:
            conflicts += [(_described(other, owned), path) for path in paths_in(disputed)]
    if conflicts:
        raise _conflict(conflicts)


def _disputes(
    managers: dict[Manager, OwnedFields], differences: Differences
) -> list[tuple[Manager, OwnedFields, Fields]]:
    """Return the managers that own changed fields, with these fields.

    A manager whose version is no longer served is removed: its fields cannot be compared.
    """
    found = []
    for other, owned in list(managers.items()):
        compared = differences.in_version(owned.api_version)
        if compared is None:
            del managers[other]
        elif disputed := intersection(owned.fields, compared[0]):
            found.append((other, owned, disputed))
    return found


def _conflict(conflicts: list[tuple[str, str]]) -> Conflict:
    """Return the error for conflicts, given as (manager, path), in the words of kube-apiserver."""
    causes = [Cause("FieldManagerConflict", f"conflict with {manager}", path) for manager, path in conflicts]
    if len(conflicts) == 1:
        manager, path = conflicts[0]
        return Conflict(f"Apply failed with 1 conflict: conflict with {manager}: {path}", causes=causes)
    by_manager: dict[str, list[str]] = {}
    for manager, path in conflicts:
        by_manager.setdefault(manager, []).append(f"- {path}")
    text = "\n".join(f"conflicts with {manager}:\n" + "\n".join(paths) for manager, paths in sorted(by_manager.items()))
    return Conflict(f"Apply failed with {len(conflicts)} conflicts: {text}", causes=causes)


def _described(key: Manager, owned: OwnedFields) -> str:
    text = f'"{key.manager}"'
    if key.subresource:
        text += f' with subresource "{key.subresource}"'
    if key.operation == "Update":
        text += f" using {key.api_version}"
        if owned.time:
            text += f" at {owned.time}"
    return text


def _disown(managers: dict[Manager, OwnedFields], differences: Differences) -> None:
    """Remove the removed fields, and all fields below them, from the sets of all managers."""
    for other, owned in list(managers.items()):
        _, removed = differences.in_version(owned.api_version) or ({}, {})
        if removed:
            _replace(managers, other, owned, difference(owned.fields, removed, with_subtrees=True))


def _replace(managers: dict[Manager, OwnedFields], key: Manager, owned: OwnedFields, fields: Fields) -> None:
    if not fields:
        del managers[key]
    elif fields is not owned.fields:
        managers[key] = OwnedFields(fields, owned.time, owned.api_version)


def _before_first_apply(live: Document, schema: Schema, api_version: str, now: datetime) -> dict[Manager, OwnedFields]:
    """Return the managers of an object without managedFields: a single one that owns all of its fields."""
    fields = difference(fields_of(live, schema), _UNOWNED)
    if not fields:
        return {}
    return {Manager(BEFORE_FIRST_APPLY, "Update", api_version, ""): OwnedFields(fields, _stamp(now), api_version)}


def _capped(managers: dict[Manager, OwnedFields]) -> dict[Manager, OwnedFields]:
    """Merge the oldest updaters into one if there are more than 10, so that managedFields do not grow without end."""
    updaters = sorted((owned.time, key) for key, owned in managers.items() if key.operation == "Update")
    surplus = updaters[: max(0, len(updaters) - MAX_UPDATE_MANAGERS)]
    if surplus:
        surplus = updaters[: len(surplus) + 1]
    for time, key in surplus:
        owned = managers.pop(key)
        ancient = Manager(ANCIENT, "Update", owned.api_version, "")
        had = managers.get(ancient)
        fields = union(had.fields, owned.fields) if had else owned.fields
        managers[ancient] = OwnedFields(fields, time, owned.api_version)
    return managers


def _managers(document: Document) -> dict[Manager, OwnedFields]:
    """Return the managers in a document's managedFields. Invalid entries are ignored, as in kube-apiserver."""
    managers: dict[Manager, OwnedFields] = {}
    for entry in (document.get("metadata") or {}).get("managedFields") or ():
        if not isinstance(entry, dict) or not is_readable(entry.get("fieldsV1")):
            continue
        api_version = str(entry.get("apiVersion", ""))
        operation = str(entry.get("operation", "Update"))
        version = "" if operation == "Apply" else api_version
        key = Manager(str(entry.get("manager", "")), operation, version, str(entry.get("subresource", "")))
        managers[key] = OwnedFields(entry["fieldsV1"], str(entry.get("time", "")), api_version)
    return managers


def _with_managers(document: Document, managers: dict[Manager, OwnedFields]) -> Document:
    """Return the document with managedFields in the order of kube-apiserver: by operation, time and name."""
    entries = []
    for key, owned in sorted(managers.items(), key=lambda item: (item[0].operation, item[1].time, item[0])):
        entry = {
            "manager": key.manager,
            "operation": key.operation,
            "apiVersion": owned.api_version,
            "time": owned.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": owned.fields,
        }
        if key.subresource:
            entry["subresource"] = key.subresource
        entries.append(entry)
    metadata = {**(document.get("metadata") or {})}
    if entries:
        metadata["managedFields"] = entries
    else:
        metadata.pop("managedFields", None)
    return {**document, "metadata": metadata}


def _stamp(now: datetime) -> str:
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
