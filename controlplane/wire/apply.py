"""Server-side apply, and the bookkeeping of who set which field (metadata.managedFields).

An applier owns what it last applied. Where it stops saying a field that nobody else owns, the field goes; where it
says another value than the owner of a field, that is a conflict, unless it forces. Every other write owns what it
changed. Parts of a document that do not change are shared between the result and what was given; nothing is mutated.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple
from weakref import WeakKeyDictionary

import msgspec

from controlplane.apimachinery.errors import BadRequest, Cause, Conflict
from controlplane.wire.fieldset import Fields, difference, fields_of, intersection, is_readable, paths_in, union
from controlplane.wire.schema import Schema
from controlplane.wire.structured import METADATA, compare, merge, prune, refuse_twins, without_nulls

Document = dict[str, Any]

# Set by the server or part of the name: nobody owns these.
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


class Who(NamedTuple):
    """A field manager as the bookkeeping tells them apart; appliers are the same one across versions."""

    manager: str
    operation: str
    api_version: str
    subresource: str


class Owned(msgspec.Struct, frozen=True):
    """What a manager owns, since when (RFC 3339), in which apiVersion's words."""

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
) -> Document:
    """Return the document after `manager` applied its intent; the very `live` where nothing changes.

    `resets` names top-level fields this endpoint does not write ("status"). Raises Conflict with a cause for every
    field another manager owns with another value, unless `force`, which takes these fields over; BadRequest where
    the intent carries managedFields or names a list item twice.
    """
    if (applied.get("metadata") or {}).get("managedFields"):
        raise BadRequest("metadata.managedFields must be nil: the server keeps them, an applied object leaves them out")
    schema_ = _with_metadata(schema)
    intent = _intent(applied, schema_, subresource, resets)
    refuse_twins(intent, schema_)
    fields = difference(fields_of(intent, schema_), _UNOWNED)
    who = Who(manager, "Apply", "", subresource)
    if live is None:
        created = {**intent, "metadata": {**(applied.get("metadata") or {}), **intent.get("metadata", {})}}
        return _with_managers(created, {who: Owned(fields, _stamp(now), api_version)} if fields else {})
    managers = _managers(live)
    if not managers:
        managers = _before_first_apply(live, schema_, api_version, now)
    before = managers.pop(who, None)
    wanted = merge(live, intent, schema_)
    if before is not None:
        lost = difference(before.fields, fields)
        if lost:
            kept = [fields, *(owned.fields for owned in managers.values())]
            wanted = prune(wanted, lost, kept, schema_)
    changed, removed = compare(live, wanted, schema_)
    if changed:
        _settle_conflicts(managers, changed, force=force)
    if removed:
        _take_away(managers, removed)
    if wanted == live and before is not None and before.fields == fields:
        return live
    if fields:
        managers[who] = Owned(fields, _stamp(now), api_version)
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
) -> Document:
    """Return `new` with the bookkeeping after a create, update or patch: what it changed now belongs to `manager`.

    A client may clear the bookkeeping by sending managedFields as an empty list.
    """
    sent = (new.get("metadata") or {}).get("managedFields")
    if live is not None and sent is not None and not any(sent):
        return _with_managers(new, {})
    managers = _managers(new) if sent else {}
    if not managers and live is not None:
        managers = _managers(live)
    schema_ = _with_metadata(schema)
    changed, removed = compare(live if live is not None else {}, new, schema_)
    changed = difference(changed, _UNOWNED)
    who = Who(manager, operation, api_version, subresource)
    mine = managers.pop(who, None)
    if changed:
        for other, owned in list(managers.items()):
            _replace(managers, other, owned, difference(owned.fields, changed))
    if removed:
        _take_away(managers, removed)
    if not changed and mine is not None and not (removed and intersection(mine.fields, removed)):
        managers[who] = mine
    else:
        fields = union(difference(mine.fields, removed, with_subtrees=True), changed) if mine is not None else changed
        if fields:
            managers[who] = Owned(fields, _stamp(now), api_version)
    return _with_managers(new, _capped(managers))


def differ_in_times_only(one: Sequence[Document], other: Sequence[Document]) -> bool:
    """Test whether two lists of managedFields say the same but for their times."""
    untimed = [[{**entry, "time": ""} for entry in entries] for entries in (one, other)]
    return len(one) == len(other) and all(entry in untimed[1] for entry in untimed[0])


def _intent(applied: Document, schema: Schema, subresource: str, resets: tuple[str, ...]) -> Document:
    """Return what an applied object really asks for: no nulls, nothing the server sets, nothing of other endpoints."""
    if subresource == "status":
        return {"status": without_nulls(applied["status"], schema.property("status"))} if applied.get("status") else {}
    intent: Document = without_nulls({key: value for key, value in applied.items() if key not in resets}, schema)
    metadata = {key: value for key, value in intent.get("metadata", {}).items() if key not in _SERVER_METADATA}
    if metadata:
        intent["metadata"] = metadata
    else:
        intent.pop("metadata", None)
    return intent


def _settle_conflicts(managers: dict[Who, Owned], changed: Fields, *, force: bool) -> None:
    conflicts: list[tuple[str, str]] = []
    for other, owned in list(managers.items()):
        disputed = intersection(owned.fields, changed)
        if not disputed:
            continue
        if force:
            _replace(managers, other, owned, difference(owned.fields, disputed))
        else:
            conflicts += [(_shown(other, owned), path) for path in paths_in(disputed)]
    if conflicts:
        raise _conflict(conflicts)


def _conflict(conflicts: list[tuple[str, str]]) -> Conflict:
    causes = [Cause("FieldManagerConflict", f"conflict with {manager}", path) for manager, path in conflicts]
    if len(conflicts) == 1:
        manager, path = conflicts[0]
        return Conflict(f"Apply failed with 1 conflict: conflict with {manager}: {path}", causes=causes)
    by_manager: dict[str, list[str]] = {}
    for manager, path in conflicts:
        by_manager.setdefault(manager, []).append(f"- {path}")
    told = "\n".join(f"conflicts with {manager}:\n" + "\n".join(paths) for manager, paths in sorted(by_manager.items()))
    return Conflict(f"Apply failed with {len(conflicts)} conflicts: {told}", causes=causes)


def _shown(who: Who, owned: Owned) -> str:
    text = f'"{who.manager}"'
    if who.subresource:
        text += f' with subresource "{who.subresource}"'
    if who.operation == "Update":
        text += f" using {who.api_version}"
        if owned.time:
            text += f" at {owned.time}"
    return text


def _take_away(managers: dict[Who, Owned], removed: Fields) -> None:
    for other, owned in list(managers.items()):
        _replace(managers, other, owned, difference(owned.fields, removed, with_subtrees=True))


def _replace(managers: dict[Who, Owned], who: Who, owned: Owned, fields: Fields) -> None:
    if not fields:
        del managers[who]
    elif fields is not owned.fields:
        managers[who] = Owned(fields, owned.time, owned.api_version)


def _before_first_apply(live: Document, schema: Schema, api_version: str, now: datetime) -> dict[Who, Owned]:
    fields = difference(fields_of(live, schema), _UNOWNED)
    if not fields:
        return {}
    return {Who(BEFORE_FIRST_APPLY, "Update", api_version, ""): Owned(fields, _stamp(now), api_version)}


def _capped(managers: dict[Who, Owned]) -> dict[Who, Owned]:
    """Fold the oldest updaters into one, so that clients with ever new names do not make objects grow without end."""
    updaters = sorted((owned.time, who) for who, owned in managers.items() if who.operation == "Update")
    surplus = updaters[: max(0, len(updaters) - MAX_UPDATE_MANAGERS)]
    if surplus:
        surplus = updaters[: len(surplus) + 1]
    for time, who in surplus:
        owned = managers.pop(who)
        ancient = Who(ANCIENT, "Update", owned.api_version, "")
        had = managers.get(ancient)
        managers[ancient] = Owned(union(had.fields, owned.fields) if had else owned.fields, time, owned.api_version)
    return managers


def _managers(document: Document) -> dict[Who, Owned]:
    """Return the bookkeeping of a document; entries nobody can read are left out, as the API server does."""
    managers: dict[Who, Owned] = {}
    for entry in (document.get("metadata") or {}).get("managedFields") or ():
        if not isinstance(entry, dict) or not is_readable(entry.get("fieldsV1")):
            continue
        api_version = str(entry.get("apiVersion", ""))
        operation = str(entry.get("operation", "Update"))
        version = "" if operation == "Apply" else api_version
        who = Who(str(entry.get("manager", "")), operation, version, str(entry.get("subresource", "")))
        managers[who] = Owned(entry["fieldsV1"], str(entry.get("time", "")), api_version)
    return managers


def _with_managers(document: Document, managers: dict[Who, Owned]) -> Document:
    entries = []
    for who, owned in sorted(managers.items(), key=lambda item: (item[0].operation, item[1].time, item[0])):
        entry = {
            "manager": who.manager,
            "operation": who.operation,
            "apiVersion": owned.api_version,
            "time": owned.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": owned.fields,
        }
        if who.subresource:
            entry["subresource"] = who.subresource
        entries.append(entry)
    metadata = {**(document.get("metadata") or {})}
    if entries:
        metadata["managedFields"] = entries
    else:
        metadata.pop("managedFields", None)
    return {**document, "metadata": metadata}


_merged_schemas: WeakKeyDictionary[Schema, Schema] = WeakKeyDictionary()  # those of definitions come and go


def _with_metadata(schema: Schema) -> Schema:
    """Return the schema with the rules of metadata's own lists and maps, which schemas of custom kinds leave out."""
    declared = schema.properties.get("metadata")
    if declared is not None and "finalizers" in declared.properties:
        return schema
    found = _merged_schemas.get(schema)
    if found is None:
        node = {**schema.node, "properties": {**schema.node.get("properties", {}), "metadata": METADATA.node}}
        found = _merged_schemas[schema] = Schema(node, schema.components)
    return found


def _stamp(now: datetime) -> str:
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
