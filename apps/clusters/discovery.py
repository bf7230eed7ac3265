"""Discovery: reads from a member which API resources it has."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Final, Protocol

from apps.clusters import inventory
from apps.clusters.answers import first_line, too_much
from apps.clusters.response_reader import TooMuch
from controlplane.clusters.questions import Answer
from controlplane.wire.discovery import content_type

AGGREGATED: Final = f"{content_type('v2')},{content_type('v2beta1')},application/json"  # the forms that are asked for


class Read(Protocol):
    """Sends GET to a member. The answer is a failure if it is not a JSON object."""

    def __call__(self, path: str, *, accept: str = "") -> Awaitable[Answer]: ...


async def apis(read: Read) -> list[dict[str, Any]] | Answer:
    """Return [{groupVersion, resources: [{name, kind}]}] without subresources, or an Answer that reports a failure.

    `resources` None: that version does not answer, for example an aggregated API whose server is down. That is no
    failure of the member.

    A member of Kubernetes 1.27 or later answers two requests with all versions (aggregated discovery). Others need a
    request for each version.
    """
    groups = await read("/apis", accept=AGGREGATED)
    if not groups.ok:
        return groups
    try:
        if not inventory.is_aggregated(groups.body):
            return await _one_by_one(read, groups.body)
        core = await read("/api", accept=AGGREGATED)
        return inventory.aggregated(core.body, groups.body) if core.ok else core
    except TooMuch as error:
        return too_much(f"discovery: {error}")
    except ValueError as error:
        return Answer(0, problem=f"discovery: {first_line(error)}")


async def plural_of(read: Read, manifest: dict[str, Any]) -> str | Answer:
    """Return the plural name that a member has for the kind of a manifest, or an Answer that reports a failure.

    Code 404: the member does not have the kind.
    """
    api_version, kind = manifest.get("apiVersion", ""), manifest.get("kind", "")
    found = await _resources(read, api_version)
    if isinstance(found, Answer):
        return found
    missing = Answer(404, problem=f"the cluster does not have the kind {api_version} {kind}")
    return next((each["name"] for each in found if each["kind"] == kind), missing)


async def _one_by_one(read: Read, groups: Any) -> list[dict[str, Any]] | Answer:
    """Return the same with a request for each API version. `groups`: the APIGroupList of the member.

    Raises TooMuch, and ValueError if the list is malformed.
    """
    versions = ["v1", *inventory.versions(groups)]
    core, *others = await asyncio.gather(*(_resources(read, version) for version in versions))
    if isinstance(core, Answer):
        return core
    found: list[dict[str, Any]] = [
        {"groupVersion": version, "resources": None if isinstance(answer, Answer) else answer}
        for version, answer in zip(versions, (core, *others), strict=True)
    ]
    inventory.check_number(found)
    return found


async def _resources(read: Read, version: str) -> list[dict[str, str]] | Answer:
    path = f"/api/{version}" if "/" not in version else f"/apis/{version}"
    answer = await read(path)
    if not answer.ok:
        return answer
    try:
        return inventory.resources(answer.body)
    except ValueError as error:
        return Answer(0, problem=f"GET {path}: {first_line(error)}")
