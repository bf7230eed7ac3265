"""The checks: what the ledger says was acknowledged against what is stored, logged and running when all has settled."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any, NamedTuple

from apps.development.supervise.stack import MEMBERS
from apps.failover.bucket import capacity
from controlplane.settings import Settings
from tests.chaos.ledger import Ledger, Write
from tests.chaos.site import Document, Site
from tests.chaos.writers import MARK

KINDS = ("ConfigMap", "Deployment")
# A write is logged where the object did not carry its id before.
_WRITTEN = f"""
    SELECT version, doc::jsonb #>> '{{metadata,annotations,{MARK}}}' FROM objects_changelog
    WHERE type <> 'DELETED' AND kind = ANY(ARRAY['ConfigMap', 'apps/Deployment'])
      AND doc::jsonb #>> '{{metadata,annotations,{MARK}}}' IS DISTINCT FROM
          old_doc::jsonb #>> '{{metadata,annotations,{MARK}}}'"""
_EVICTIONS = """
    SELECT at FROM objects_changelog WHERE actor = 'evictions' AND reason = 'Evictions' AND type = 'MODIFIED'
      AND jsonb_array_length(coalesce(doc::jsonb #> '{spec,gracefulEvictionTasks}', '[]'))
        > jsonb_array_length(coalesce(old_doc::jsonb #> '{spec,gracefulEvictionTasks}', '[]'))
    ORDER BY at"""


class Stored(NamedTuple):
    """What is read of the product once, for all checks."""

    objects: dict[tuple[str, str], Document]
    bindings: list[Document]
    copies: dict[str, dict[str, Document]]  # Deployments on members, by name and member


def read(site: Site) -> Stored:
    """Read everything. Raises ConnectionError where something does not answer."""
    objects = {(kind, one["metadata"]["name"]): one for kind in KINDS for one in site.items(kind)}
    names = {name for kind, name in objects if kind == "Deployment"}
    names |= {f"d{writer}-{place}" for writer in range(3) for place in range(4)}
    return Stored(objects, site.items("ResourceBinding"), {name: site.on_members(name) for name in sorted(names)})


def unsettled(site: Site) -> list[str]:
    """Return what is not yet as it has to be in the end. Each entry is a finding if it stays."""
    found = read(site)
    problems = [
        f"cluster {one['metadata']['name']} is not Ready or has taints"
        for one in site.items("Cluster")
        if not _is_whole(one)
    ]
    problems += [
        f"Work {one['metadata']['namespace']}/{one['metadata']['name']} is not applied"
        for one in site.items("Work")
        if _condition(one, "Applied") != "True"
    ]
    problems += placed_nowhere(found) + copies(found)
    return problems


def placed_nowhere(found: Stored) -> list[str]:
    """Return Deployments without a binding, and bindings on no cluster or on an unknown one."""
    bound = {one["spec"]["resource"]["name"]: one for one in found.bindings}
    problems = []
    for kind, name in found.objects:
        if kind != "Deployment":
            continue
        clusters = [one["name"] for one in bound.get(name, {}).get("spec", {}).get("clusters") or ()]
        if not clusters or not set(clusters) <= set(MEMBERS):
            problems.append(f"nowhere: Deployment {name} is placed on {clusters or 'no cluster'}")
    return problems


def copies(found: Stored) -> list[str]:
    """Return Deployments that do not run exactly once, as they were written last; and copies of deleted ones."""
    problems = []
    for name, held in found.copies.items():
        stored = found.objects.get(("Deployment", name))
        if stored is None:
            problems += [f"leftover: {name} is deleted and runs on {', '.join(held)}"] if held else []
            continue
        if len(held) != 1:
            problems.append(f"copies: {name} runs on {', '.join(held) or 'no member'}, one is asked for")
        for member, copy in held.items():
            if _mark(copy) != _mark(stored):
                problems.append(f"stale: {name} on {member} is of write {_mark(copy)}, stored is {_mark(stored)}")
            if copy.get("status", {}).get("readyReplicas", 0) != 1:
                problems.append(f"not ready: {name} on {member}")
    return problems


def lost(site: Site, ledger: Ledger) -> list[str]:
    """Return acknowledged writes that are not logged under their version, or whose object is older than they are."""
    logged = {(version, mark) for version, mark in site.sql(_WRITTEN)}
    found = read(site)
    problems = []
    last: dict[tuple[str, str], Write] = {}
    for one in ledger.writes:
        if one.outcome != "acknowledged":
            continue
        last[one.kind, one.name] = one
        if one.verb == "apply" and (one.version, one.id) not in logged and not _repeated(one, logged):
            problems.append(f"lost: write {one.id} of {one.kind} {one.name} was acknowledged at {one.version}")
    unknown = {(one.kind, one.name, one.id) for one in ledger.writes if one.outcome == "unknown"}
    open_deletes = {(one.kind, one.name) for one in ledger.writes if one.outcome == "unknown" and one.verb == "delete"}
    for place, one in last.items():
        stored = found.objects.get(place)
        if one.verb == "delete":
            gone = stored is None or (*place, _mark(stored)) in unknown
            problems += [] if gone else [f"lost: {place} is there, its deletion {one.id} was acknowledged"]
        elif stored is None:
            problems += [] if place in open_deletes else [f"lost: {place} is gone, write {one.id} was acknowledged"]
        elif _mark(stored) != one.id and (*place, _mark(stored)) not in unknown:
            problems.append(f"lost: {place} is of write {_mark(stored)}, {one.id} was acknowledged after it")
    return problems


def _repeated(one: Write, logged: set[tuple[int, Any]]) -> bool:
    """Return whether a write is logged at an older version than its answer: the API tried again after a lost
    connection, found the object as it was to be, and answered with what a controller had written meanwhile."""
    return any(mark == one.id and version <= one.version for version, mark in logged)


def twice(site: Site) -> list[str]:
    """Return writes that were logged more than once."""
    counts = Counter(mark for _, mark in site.sql(_WRITTEN) if mark is not None)
    return [f"twice: write {mark} is logged {count} times" for mark, count in counts.items() if count > 1]


def beyond_the_rate(site: Site, *, settings: Settings | None = None) -> list[str]:
    """Return spans of time in which more evictions began than the token bucket allows."""
    rate = (settings or Settings()).resource_eviction_rate
    at: list[datetime] = [row[0] for row in site.sql(_EVICTIONS)]
    problems = []
    for first, begun in enumerate(at):
        for last in range(first, len(at)):
            seconds, count = (at[last] - begun).total_seconds(), last - first + 1
            if count > capacity(rate) + rate * seconds + 1:  # one whose token was taken just before the span
                problems.append(f"rate: {count} evictions within {seconds:.1f} s from {begun}")
    return problems


def evictions(site: Site) -> int:
    """Return how many evictions began."""
    return len(site.sql(_EVICTIONS))


def _is_whole(cluster: Document) -> bool:
    return _condition(cluster, "Ready") == "True" and not cluster["spec"].get("taints")


def _condition(one: Document, type: str) -> str:
    conditions = one.get("status", {}).get("conditions") or ()
    return next((found["status"] for found in conditions if found["type"] == type), "")


def _mark(one: Document) -> str:
    return str(one["metadata"].get("annotations", {}).get(MARK, ""))
