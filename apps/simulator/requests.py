"""A request to a member as data: its target, its query and its body."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from apps.simulator.catalogue import Catalogue
from apps.simulator.objects import Writer
from controlplane.apimachinery.errors import BadRequest, NotFound
from controlplane.wire.negotiate import go_bool
from controlplane.wire.request import Choice, choice_of, parse_path
from controlplane.wire.resource import Resource

Document = dict[str, Any]


class Target(msgspec.Struct, frozen=True):
    """The resource, object and subresource of a URL."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


class Request(msgspec.Struct, frozen=True):
    """A request. `query` has the first value of every parameter."""

    method: str
    target: Target
    query: Mapping[str, str]
    accept: str = ""
    content_type: str = ""
    user_agent: str = ""
    impersonated: Mapping[str, Any] = {}  # the user, as reviews describe users; {}: none
    body: bytes = b""

    def flag(self, name: str) -> bool:
        """Return a boolean query parameter. Raises BadRequest."""
        return go_bool(name, self.query.get(name))

    def number(self, name: str, default: int = 0) -> int:
        """Return an integer query parameter. Raises BadRequest."""
        text = self.query.get(name, "")
        if not text:
            return default
        if not text.isascii() or not text.isdigit() or len(text) > 18:
            raise BadRequest(f"query parameter {name}={text!r} is not a whole number")
        return int(text)

    @property
    def writer(self) -> Writer:
        """Return the writer. Its field manager is the parameter fieldManager, else the program name in User-Agent."""
        manager = self.query.get("fieldManager") or self.user_agent.partition("/")[0] or "unknown"
        dry_run = self.query.get("dryRun", "")
        if dry_run not in ("", "All"):
            raise BadRequest(f"query parameter dryRun={dry_run!r}: the only value is All")
        return Writer(manager, self.target.subresource, dry_run=dry_run == "All", force=self.flag("force"))

    @property
    def choice(self) -> Choice:
        """Return the selection of a list or watch.

        Raises BadRequest for a selector that cannot be parsed, and for fields that the kind does not support.
        """
        return choice_of(
            self.target.resource,
            label_selector=self.query.get("labelSelector", ""),
            field_selector=self.query.get("fieldSelector", ""),
            namespace=self.target.namespace,
            name=self.target.name,
        )


def target_of(parts: list[str], catalogue: Catalogue) -> Target:
    """Return the target of the path /api/v1/… or /apis/<group>/<version>/…, split at its slashes. Raises NotFound."""
    place = parse_path(parts)
    resource = None if place is None else catalogue.find(place.group, place.version, place.plural)
    if place is None or resource is None or not place.fits(resource):
        raise nothing_here()
    return Target(resource, place.namespace, place.name, place.subresource)


def nothing_here() -> NotFound:
    """Return the error for a URL that is not served."""
    return NotFound("the server could not find the requested resource")
