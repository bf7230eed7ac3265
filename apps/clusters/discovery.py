"""Discovery: reads from a member which API resources it has."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Final, Protocol

from apps.clusters import inventory
from apps.clusters.answers import first_line, too_much
from apps.clusters.response_reader import TooMuch
from controlplane.clusters.questions import NOT_FOUND, Answer
from controlplane.wire.discovery import content_type

AGGREGATED: Final = f"{content_type('v2')},{content_type('v2beta1')},application/json"  # the forms that are asked for


CORE: Final = "v1"  # the API version that every member serves


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
    missing = Answer(404, problem=f"the cluster does not have the kind {api_version} {kind}", reason=NOT_FOUND)
    if isinstance(found, Answer):
        return await _unserved(read, api_version, found, missing) if found.code == missing.code else found
    return next((each["name"] for each in found if each["kind"] == kind), missing)


async def confirmed(read: Read, manifest: dict[str, Any], answer: Answer) -> Answer:
    """Return an answer 404 if the API server of the member has given it, and a failure if it may be another's.

    A proxy answers 404 to everything while it has no member behind it. Its answer has no Status. An API server answers
    without a Status as well, for a kind that it does not serve; then its discovery does not list the kind either.
    """
    if answer.reason:
        return answer
    plural = await plural_of(read, manifest)
    return plural if isinstance(plural, Answer) else _of_others(answer)


async def _unserved(read: Read, version: str, answer: Answer, missing: Answer) -> Answer:
    """Return `missing` if the member does not serve an API version. `answer`: its answer 404 for that version."""
    if answer.reason:
        return missing
    groups = await read("/apis")
    try:
        listed = inventory.versions(groups.body) if groups.ok and inventory.is_group_list(groups.body) else None
    except (TooMuch, ValueError) as error:
        return Answer(0, problem=f"GET /apis: {first_line(error)}")
    return missing if listed is not None and version not in (CORE, *listed) else _of_others(answer)


def _of_others(answer: Answer) -> Answer:
    problem = f"{answer.problem}; no API server answers so: a proxy before the member may have lost it"
    return Answer(0, problem=problem)


async def _one_by_one(read: Read, groups: Any) -> list[dict[str, Any]] | Answer:
    """Return the same with a request for each API version. `groups`: the APIGroupList of the member.

    Raises TooMuch, and ValueError if the list is malformed.
    """
    versions = [CORE, *inventory.versions(groups)]
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
