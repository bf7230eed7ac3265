"""What the API serves under one plural: names, scope, subresources, and the columns kubectl prints for it."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from controlplane.apimachinery.errors import BadRequest, qualified
from controlplane.apimachinery.selectors import FieldSelectorTerm

MINUTE = 60
HOUR = 60 * MINUTE
DAY = 24 * HOUR
YEAR = 365 * DAY

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class Column(msgspec.Struct, frozen=True):
    """Say how one column of `kubectl get` is called and computed.

    `cell` takes the document and the (aware, UTC) time of the request. `priority` 0 is always printed, anything
    above only with `-o wide`. `type` and `format` are OpenAPI's; clients use them to align and to sort.
    """

    name: str
    cell: Callable[[dict[str, Any], datetime], Any]
    type: str = "string"
    format: str = ""
    priority: int = 0
    description: str = ""


AGE = Column(
    "Age",
    lambda document, now: age(document.get("metadata", {}).get("creationTimestamp"), now),
    description="Time since the object was created.",
)


class ScalePaths(msgspec.Struct, frozen=True):
    """Where a kind keeps what its Scale shows. `selector` "" stands for the matchLabels of spec.selector."""

    spec: str = "spec.replicas"
    status: str = "status.replicas"
    selector: str = ""


class Resource(msgspec.Struct, frozen=True):
    """Describe one kind as it appears in URLs and in discovery.

    `group` is "" for the core group. `subresources` names those served beside the object itself ("status", "scale").
    `verbs` are those of discovery; reviews can only be created.
    `columns` leaves out Name (first) and Age (after the last column of priority 0): `table` adds them, each unless a
    column here has that name already. "Last Seen" and "Created At" stand for Age too.
    `fields` are those a field selector may name beside metadata.name and metadata.namespace (`check_fields`).
    """

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    verbs: tuple[str, ...] = VERBS
    fields: tuple[str, ...] = ()
    scale: ScalePaths = ScalePaths()

    @property
    def api_version(self) -> str:
        """Return the apiVersion objects carry: "v1" for the core group, else "apps/v1"."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def key(self) -> str:
        """Return the name of the kind without its version: "Deployment" would be ambiguous, "apps/Deployment" is not.

        Kinds of the core group are called by their kind alone ("ConfigMap").
        """
        return f"{self.group}/{self.kind}" if self.group else self.kind

    @property
    def list_kind(self) -> str:
        """Return the kind of the list document ("DeploymentList")."""
        return f"{self.kind}List"


def check_fields(resource: Resource, terms: Iterable[FieldSelectorTerm]) -> None:
    """Raise BadRequest where a field selector names a field that objects of this kind cannot be selected by."""
    known = ("metadata.name", "metadata.namespace", *resource.fields)
    for term in terms:
        if term.field not in known:
            raise BadRequest(
                f"field label not supported: {term.field}: {qualified(resource.plural, resource.group)} can be "
                f"selected by {', '.join(known)}"
            )


def age(timestamp: str | datetime | None, now: datetime) -> str:
    """Return how long ago `timestamp` (RFC 3339 or aware datetime) was, in kubectl's words ("3d4h", "5m12s").

    A missing or unreadable timestamp is "<unknown>", as kubectl prints it.
    """
    moment = parse_time(timestamp)
    return "<unknown>" if moment is None else human_duration((now - moment).total_seconds())


def parse_time(timestamp: str | datetime | None) -> datetime | None:
    """Return an RFC 3339 timestamp as an aware datetime (UTC if it names no zone), None if there is none to read."""
    if not timestamp:
        return None
    if isinstance(timestamp, str):
        try:
            timestamp = datetime.fromisoformat(timestamp)
        except ValueError:
            return None
    return timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=UTC)


def human_duration(seconds: float) -> str:
    """Return a duration as kubectl prints it: two units while the second one still matters, then one.

    Up to two seconds into the future is "0s" (clocks differ), further ahead "<invalid>".
    """
    if seconds <= -2:
        return "<invalid>"
    whole = max(int(seconds), 0)
    if whole < 2 * MINUTE:
        return f"{whole}s"
    if whole < 10 * MINUTE:
        return _two(whole // MINUTE, "m", whole % MINUTE, "s")
    if whole < 3 * HOUR:
        return f"{whole // MINUTE}m"
    if whole < 8 * HOUR:
        return _two(whole // HOUR, "h", whole % HOUR // MINUTE, "m")
    if whole < 2 * DAY:
        return f"{whole // HOUR}h"
    if whole < 8 * DAY:
        return _two(whole // DAY, "d", whole % DAY // HOUR, "h")
    if whole < 2 * YEAR:
        return f"{whole // DAY}d"
    if whole < 8 * YEAR:
        return _two(whole // YEAR, "y", whole % YEAR // DAY, "d")
    return f"{whole // YEAR}y"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"
