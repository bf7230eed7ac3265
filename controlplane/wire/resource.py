"""The declaration of a kind for the API: names, scope, verbs, subresources and the columns that kubectl prints.

Discovery (`discovery`), OpenAPI (`openapi`) and the URL patterns (`url_patterns`) are all derived from declarations.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from controlplane.apimachinery.errors import BadRequest, qualified
from controlplane.apimachinery.selectors import FieldSelectorTerm

MINUTE = 60
HOUR = 60 * MINUTE
DAY = 24 * HOUR
YEAR = 365 * DAY

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")

COLLECTION_METHODS = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}
OBJECT_METHODS = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
SUBRESOURCE_METHODS = {**OBJECT_METHODS, "POST": "create"}
"""The verb of each HTTP method: on a collection, on an object, and on a subresource of an object."""


class Column(msgspec.Struct, frozen=True):
    """One column of `kubectl get`.

    `cell` returns the value for a document and the time of the request (UTC, with timezone). Columns of priority 0 are
    always printed, others only with `-o wide`. `type` and `format` are those of OpenAPI; clients use them to align and
    sort.
    """

    name: str
    cell: Callable[[dict[str, Any], datetime], Any]
    type: str = "string"
    format: str = ""
    priority: int = 0
    description: str = ""
    is_timed: bool = True  # False: the cell does not depend on the time of the request


AGE = Column(
    "Age",
    lambda document, now: age(document.get("metadata", {}).get("creationTimestamp"), now),
    description="Time since the object was created.",
)


class ScalePaths(msgspec.Struct, frozen=True):
    """The paths of the fields of a kind that its Scale shows. `selector` "": the matchLabels of spec.selector."""

    spec: str = "spec.replicas"
    status: str = "status.replicas"
    selector: str = ""


class Subresource(msgspec.Struct, frozen=True):
    """What can be done with a subresource, whatever the kind of its object.

    kind: group, version and kind of its documents; None: those of the object itself.
    own_request: the body of a POST is a request in a form of its own, not a document of `kind`.
    """

    name: str
    verbs: tuple[str, ...]
    kind: tuple[str, str, str] | None = None
    own_request: bool = False


_EDIT = ("get", "patch", "update")
SUBRESOURCES: Final = {
    subresource.name: subresource
    for subresource in (
        Subresource("status", _EDIT),
        Subresource("approval", _EDIT),
        Subresource("scale", _EDIT, ("autoscaling", "v1", "Scale")),
        Subresource("finalize", ("update",)),
        Subresource("eviction", ("create",), ("policy", "v1", "Eviction")),
        Subresource("proxy", ("create", "delete", "get", "patch", "update")),
        Subresource("token", ("create",), ("authentication.k8s.io", "v1", "TokenRequest")),
        *(Subresource(name, ("get",)) for name in ("log", "explain", "readiness")),
        *(
            Subresource(name, ("create",), own_request=True)
            for name in ("fence", "revert", "hold", "release", "skip", "expedite")
        ),
    )
}
"""All subresources that a kind may declare, by name."""


class Resource(msgspec.Struct, frozen=True):
    """One kind as it is served: its URLs, its entry in discovery and its printed columns.

    group: "" for the core group.
    subresources: names of SUBRESOURCES that are served for its objects.
    verbs: the verbs of discovery. Reviews can only be created.
    columns: the columns between Name and Age. `table` adds these two, unless a column here has that name already;
    "Last Seen" and "Created At" replace Age too.
    adds_age: `table` adds the column Age. False: a definition states all its columns, as with a kube-apiserver.
    fields: the fields that a field selector may use besides metadata.name and metadata.namespace (`check_fields`).
    deprecation: the warning for each request; "": the version is not deprecated.
    stored_fields: of those, the fields that have another name in stored objects, with that name.
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
    adds_age: bool = True
    verbs: tuple[str, ...] = VERBS
    fields: tuple[str, ...] = ()
    stored_fields: tuple[tuple[str, str], ...] = ()
    scale: ScalePaths = ScalePaths()
    deprecation: str = ""

    def __post_init__(self) -> None:
        unknown = [name for name in self.subresources if name not in SUBRESOURCES]
        if unknown:
            raise ValueError(f"{self.kind} declares the subresource {unknown[0]}; add it to resource.SUBRESOURCES")

    def verbs_of(self, subresource: str) -> tuple[str, ...]:
        """Return the verbs of one of its subresources; "": of the resource itself. (): it has no such subresource."""
        if not subresource:
            return self.verbs
        return SUBRESOURCES[subresource].verbs if subresource in self.subresources else ()

    def methods(self, *, has_name: bool, subresource: str = "") -> tuple[str, ...]:
        """Return the HTTP methods of its URLs: of the collection, of an object (`has_name`), or of a subresource."""
        table = SUBRESOURCE_METHODS if subresource else OBJECT_METHODS if has_name else COLLECTION_METHODS
        verbs = self.verbs_of(subresource)
        return tuple(method for method, verb in table.items() if verb in verbs)

    @property
    def api_version(self) -> str:
        """Return the apiVersion of its objects, for example "apps/v1"; "v1" for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def key(self) -> str:
        """Return group and kind, without the version: "apps/Deployment", or "ConfigMap" for the core group."""
        return f"{self.group}/{self.kind}" if self.group else self.kind

    @property
    def list_kind(self) -> str:
        """Return the kind of the list document ("DeploymentList")."""
        return f"{self.kind}List"


def check_fields(resource: Resource, terms: Iterable[FieldSelectorTerm]) -> None:
    """Raise BadRequest if a field selector uses a field by which objects of this kind cannot be selected."""
    known = ("metadata.name", "metadata.namespace", *resource.fields)
    for term in terms:
        if term.field not in known:
            raise BadRequest(
                f"field label not supported: {term.field}: {qualified(resource.plural, resource.group)} can be "
                f"selected by {', '.join(known)}"
            )


def age(timestamp: str | datetime | None, now: datetime) -> str:
    """Return the time since a timestamp (RFC 3339, or a datetime with timezone) as kubectl prints it, such as "3d4h".

    The age of a missing or invalid timestamp is "<unknown>".
    """
    time = parse_time(timestamp)
    return "<unknown>" if time is None else human_duration((now - time).total_seconds())


def parse_time(timestamp: str | datetime | None) -> datetime | None:
    """Return an RFC 3339 timestamp as a datetime with timezone (default: UTC); None: it is missing or invalid."""
    if not timestamp:
        return None
    if isinstance(timestamp, str):
        try:
            timestamp = datetime.fromisoformat(timestamp)
        except ValueError:
            return None
    return timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=UTC)


def human_duration(seconds: float) -> str:
    """Return a duration as kubectl prints it, in one or two units: "5m12s", "3d4h", "12d".

    A negative duration is "0s" down to -2 s, because clocks differ, and "<invalid>" below that.
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
