"""Dry runs of acts: what changes of the fleet would do to workloads, as `controlplane.insight.what_if` finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from apps.console.guard import Effects
from apps.objects.access import reader_of
from apps.objects.configuration import configuration
from apps.objects.store import store
from apps.objects.tallies import copies_on
from apps.objects.what_if import SMALL, effects_of, is_small
from apps.objects.writer import Author, Writer, Written
from controlplane.apimachinery.errors import StatusError
from controlplane.apimachinery.meta import Ref
from controlplane.apimachinery.times import in_words
from controlplane.controllers.reads.supposed_snapshot import clusters_concerned
from controlplane.insight.changes import Change, ClustersDrained, ClustersLost, Failback, TaintAdded
from controlplane.insight.effects import Affected, readable
from controlplane.insight.previews import concerned
from controlplane.kinds import CLUSTER, CLUSTER_TAINT_POLICY

NAMED: Final = 5  # workloads that are named for each consequence


def dry_run(changes: Sequence[Change], user: Any) -> Effects:
    """Return what changes would do now. A dry run over many bindings names only their number.

    `user`: reads it, and sees the names of workloads that this user may list [names-of-others].
    """
    reading = store()
    if not is_small(reading, changes):
        names = clusters_concerned(changes, tuple(reading.list(CLUSTER)), reading.list(CLUSTER_TAINT_POLICY))
        copies = copies_on(names)
        return Effects(
            f"Concerns up to {copies} copies on {', '.join(names[:NAMED])}.",
            max(copies, SMALL),
            (f"A dry run of more than {SMALL} workloads takes too long for this page: use What if for it.",),
            what_if=question_url(changes),
        )
    found = effects_of(reading, changes)
    seen = readable(found, reader_of(user))
    lines = [
        *_named("Without a place", found.without_place, seen.without_place),
        *_named("Wait for a person", found.waits_for_person, seen.waits_for_person),
        *_named("Held", found.held, seen.held),
        *(f"{one.cluster} gets more {one.resource} than it has room for" for one in found.overpacked),
        *found.remarks,
    ]
    if found.eta_seconds is not None:
        rates = sorted({_rate(change, found.rate) for change in changes})
        at = " and ".join(f"{rate:g}/s" for rate in rates)
        lines.append(f"The last copy leaves after about {in_words(max(1.0, found.eta_seconds))}, at {at}.")
    sentence = found.sentence[:1].upper() + found.sentence[1:]
    return Effects(f"{sentence}.", concerned(found), tuple(lines), "; ".join(found.refused))


def _rate(change: Change, of_evictions: float) -> float:
    """Return at how many workloads per second copies leave because of a change. Drains and failbacks have a rate of
    their own."""
    return change.rate if isinstance(change, ClustersDrained | Failback) else of_evictions


def of_write(write: Callable[[Writer], Written]) -> Effects:
    """Return what a write would do, as the API warns its author under `--dry-run=server`.

    What the API refuses is refused with the same message.
    """
    writer = Writer(store(), configuration().settings(reread=True), Author("", "DryRun"), dry_run=True)
    try:
        write(writer)
    except StatusError as error:
        return Effects("Nothing would change.", refused=error.message)
    first, *others = [text.removeprefix("effects: ") for text in writer.preview.texts] or ["moves nothing"]
    return Effects(f"{first[:1].upper()}{first[1:]}.", writer.preview.concerned, tuple(others))


def question_url(changes: Sequence[Change]) -> str:
    """Return the URL of What if with a question about changes. Changes that its form does not have are left out."""
    query: list[tuple[str, str]] = []
    for change in changes:
        match change:
            case ClustersLost(names):
                query += [("lost", name) for name in names]
            case ClustersDrained(names, rate):
                query += [*(("drained", name) for name in names), ("rate", f"{rate:g}")]
            case TaintAdded(cluster, taint):
                query += [("tainted", cluster), ("key", taint.key), ("effect", taint.effect)]
    return f"/what-if?{urlencode(query)}" if query else "/what-if"


def _named(title: str, affected: Sequence[Affected], seen: Sequence[Affected]) -> Iterable[str]:
    """Yield a line with the first workloads of a consequence, the first with its reason. `seen`: may be named."""
    if not affected:
        return
    names = [f"{ref.namespace}/{ref.name}".lstrip("/") for ref in (Ref.parse(one.binding) for one in seen[:NAMED])]
    if not names:
        yield f"{title}: {len(affected)} in namespaces that you may not read"
        return
    more = f" and {len(affected) - len(names)} more" if len(affected) > len(names) else ""
    why = f" ({seen[0].message})" if seen[0].message else ""
    yield f"{title}: {', '.join(names)}{more}{why}"
