"""The resources, schemas and printer columns that a CustomResourceDefinition defines, and its status."""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from controlplane.apimachinery import jsonpath
from controlplane.wire.columns import at
from controlplane.wire.discovery import preference
from controlplane.wire.resource import Column, Resource, ScalePaths, age
from controlplane.wire.schema import Schema
from controlplane.wire.structural import StructuralSchema

Document = dict[str, Any]

KEY = "apiextensions.k8s.io/CustomResourceDefinition"
CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
ESTABLISHED, NAMES_ACCEPTED, TERMINATING = "Established", "NamesAccepted", "Terminating"

_INTEGERS = range(-(2**63), 2**63)  # that JSON of the API may contain
_PLAIN = re.compile(r"\.?[\w-]+(\.[\w-]+)*")


def served(definition: Document) -> list[tuple[Resource, Schema]]:
    """Return the resource and schema of every served version of a CustomResourceDefinition (apiextensions.k8s.io/v1).

    Raises KeyError or TypeError if the definition has not been validated.
    """
    spec = definition["spec"]
    return [
        (_resource(spec, version), schema_of(version)) for version in spec["versions"] if version.get("served", False)
    ]


def stored(definition: Document) -> tuple[Resource, Schema]:
    """Return the resource and schema of the version in which objects are stored.

    Raises KeyError, TypeError or StopIteration if the definition has not been validated.
    """
    spec = definition["spec"]
    version = next(version for version in spec["versions"] if version.get("storage"))
    return _resource(spec, version), schema_of(version)


def conversion_webhook(definition: Document) -> Document | None:
    """Return the webhook that converts objects; None: only their apiVersion differs."""
    conversion = definition["spec"].get("conversion") or {}
    return (conversion.get("webhook") or {}) if conversion.get("strategy") == "Webhook" else None


def storage_version(definition: Document) -> str:
    """Return the version in which objects are stored. Raises StopIteration if no version has storage: true."""
    return str(next(version["name"] for version in definition["spec"]["versions"] if version.get("storage")))


def schema_of(version: Document) -> Schema:
    """Return the schema of a version; Schema.OPEN if the version has none."""
    node = at(version, "schema.openAPIV3Schema")
    return StructuralSchema(node) if node else Schema.OPEN


def is_refused(definition: Document) -> bool:
    """Test whether a definition is without effect because another kind has one of its names."""
    return _condition(definition.get("status") or {}, ESTABLISHED).get("status") == "False"


def conflict(definition: Document, taken: Iterable[Resource]) -> str:
    """Return the first of its names that another kind of its group has; "": all names are free."""
    spec = definition["spec"]
    names = spec["names"]
    wanted = {names["plural"], names.get("singular") or names["kind"].lower(), *(names.get("shortNames") or ())}
    kinds = {names["kind"], names.get("listKind") or f"{names['kind']}List"}
    for other in taken:
        if other.group != spec["group"]:
            continue
        found = wanted & {other.plural, other.singular, *other.short_names} or kinds & {other.kind, other.list_kind}
        if found:
            return str(min(found))
    return ""


def status_of(definition: Document, *, taken_name: str, now: datetime) -> Document:
    """Return the status of a definition: accepted names, conditions, and all versions that were ever stored.

    taken_name: a name of the definition that another kind has; "": none.
    now: the transition time of conditions that change; with timezone.
    """
    before = definition.get("status") or {}
    names = definition["spec"]["names"]
    accepted = {"singular": names["kind"].lower(), "listKind": f"{names['kind']}List", **names}
    stored = [*before.get("storedVersions", ()), storage_version(definition)]
    if taken_name:
        reported = {
            NAMES_ACCEPTED: ("False", "NamesConflict", f'"{taken_name}" is already in use'),
            ESTABLISHED: ("False", "NotAccepted", "not all names are accepted"),
        }
    else:
        reported = {
            NAMES_ACCEPTED: ("True", "NoConflicts", "no conflicts found"),
            ESTABLISHED: ("True", "InitialNamesAccepted", "the initial names have been accepted"),
        }
    if definition["metadata"].get("deletionTimestamp"):
        reported[TERMINATING] = ("True", "InstanceDeletionInProgress", "CustomResource deletion is in progress")
    return {
        **before,
        "acceptedNames": before.get("acceptedNames", {"plural": "", "kind": ""}) if taken_name else accepted,
        "conditions": _conditions(before, reported, now=now),
        "storedVersions": list(dict.fromkeys(stored)),
    }


def _conditions(status: Document, reported: dict[str, tuple[str, str, str]], *, now: datetime) -> list[Document]:
    """Return the conditions of a status after the update of those in `reported`; all others are kept."""
    made = [known for known in status.get("conditions", ()) if known.get("type") not in reported]
    for type_, (value, reason, message) in reported.items():
        was = _condition(status, type_)
        since = was["lastTransitionTime"] if was.get("status") == value else now.strftime("%Y-%m-%dT%H:%M:%SZ")
        new = {"lastTransitionTime": since, "message": message, "reason": reason, "status": value, "type": type_}
        made.append(new)
    return made


def _condition(status: Document, type_: str) -> Document:
    return next((known for known in status.get("conditions", ()) if known.get("type") == type_), {})


def _resource(spec: Document, version: Document) -> Resource:
    """Return the declaration of the resource that a version of a definition serves."""
    names = spec["names"]
    return Resource(
        group=spec["group"],
        version=version["name"],
        kind=names["kind"],
        plural=names["plural"],
        singular=names.get("singular") or names["kind"].lower(),
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=tuple(name for name in ("status", "scale") if name in (version.get("subresources") or {})),
        columns=tuple(_columns(version)),
        adds_age=not version.get("additionalPrinterColumns"),
        fields=tuple(selectable["jsonPath"].removeprefix(".") for selectable in version.get("selectableFields") or ()),
        scale=_scale_paths(version),
        deprecation=_deprecation(spec, version),
    )


def _deprecation(spec: Document, version: Document) -> str:
    """Return the warning for requests through a deprecated version, with the version to use instead; "": none."""
    if not version.get("deprecated"):
        return ""
    if stated := version.get("deprecationWarning"):
        return str(stated)
    group, kind, name = spec["group"], spec["names"]["kind"], version["name"]
    others = (one["name"] for one in spec["versions"] if one.get("served") and not one.get("deprecated"))
    newest = max(others, key=preference, default=name)
    instead = f"; use {group}/{newest} {kind}" if preference(newest) > preference(name) else ""
    return f"{group}/{name} {kind} is deprecated{instead}"


def _scale_paths(version: Document) -> ScalePaths:
    stated = (version.get("subresources") or {}).get("scale") or {}
    words = {
        field: stated[name].removeprefix(".")
        for field, name in (
            ("spec", "specReplicasPath"),
            ("status", "statusReplicasPath"),
            ("selector", "labelSelectorPath"),
        )
        if stated.get(name)
    }
    return ScalePaths(**words) if words else ScalePaths()


def _columns(version: Document) -> Iterator[Column]:
    for stated in version.get("additionalPrinterColumns") or ():
        yield Column(
            stated["name"],
            _Cell(stated["jsonPath"], stated["type"]),
            type=stated["type"],
            format=stated.get("format", ""),
            priority=stated.get("priority", 0),
            description=stated.get("description", ""),
        )


class _Cell:
    """Reads the first value at a JSONPath and converts it to the type of a printer column; "" if there is none.

    Raises ValueError or TypeError for a value that cannot be converted.
    """

    def __init__(self, path: str, kind: str) -> None:
        self.kind = kind
        self.plain = path.removeprefix(".") if _PLAIN.fullmatch(path) else ""
        self.template = f"{{{path}}}"

    def __call__(self, document: Document, now: datetime) -> Any:
        value = self._value(document)
        if value in (None, ""):
            return ""
        match self.kind:
            case "date":
                return age(str(value), now)
            case "integer":
                return _integer(value)
            case "number":
                return float(value)
            case "boolean":
                return value if isinstance(value, bool) else value == "true"
            case _:
                return _text(value)

    def _value(self, document: Document) -> Any:
        if self.plain:
            return at(document, self.plain)
        try:
            return jsonpath.first(self.template, document)
        except jsonpath.JSONPathError:
            return None


def _text(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) else jsonpath.evaluate("{@}", value)


def _integer(value: Any) -> int:
    number = int(value)
    if number not in _INTEGERS:
        raise ValueError(f"{value} has more than 64 bits")
    return number
