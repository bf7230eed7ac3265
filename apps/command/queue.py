"""Commands for the eviction queue: look at it, give orders about evictions, pause and resume all evictions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, NamedTuple

import typer

from apps.command import durations, exit_codes, output, paths, side_by_side
from apps.command.errors import CommandError, Document, Refused, usage
from apps.command.follow import follow
from apps.command.options import command
from apps.command.repeated import existing, removed
from apps.command.run import Run

app = typer.Typer()
PANEL: Final = "Evictions"
PAUSE: Final = "pause"
"""The name of the EvictionHold that `pause` creates for the whole fleet. Names of others begin with it."""

_COLUMNS: Final = ("Position", "Namespace", "Eviction", "State", "Reason", "Due", "ETA")
_WIDE: Final = ("Kind", "Queued", "Message")

Names = Annotated[list[str] | None, typer.Argument(help="Evictions, as `lifeboat queue` names them.")]
OfCluster = Annotated[str, typer.Option("--cluster", help="All evictions from this cluster.")]
FORBIDDEN: Final = 403
SHOWN: Final = 100  # evictions that are listed without -o wide
Waiting = ("Queued", "Held", "Recovering")


@command(app, panel=PANEL, name="queue")
def queue_(
    run: Run,
    watch: Annotated[bool, typer.Option("-w", "--watch", help="Print it again until Ctrl-C.")] = False,
    interval: Annotated[str, typer.Option(help="With -w: time between two answers.")] = "2s",
    cluster: OfCluster = "",
    rate: Annotated[float | None, typer.Option(min=0, help="Estimate for this rate, in evictions per second.")] = None,
    finished: Annotated[bool, typer.Option("--finished", help="Also evictions that have ended.")] = False,
) -> None:
    """Show the eviction queue in its order: state, reason, due time, and the estimated time of each eviction."""
    query = {} if rate is None else {"rate": rate}

    def answer() -> Any:
        found = [one for one in _evictions(run, cluster=cluster, **query) if finished or _waits(one)]
        if run.is_structured:
            return output.structured({"apiVersion": "v1", "kind": "List", "items": found}, run.how)
        return found

    def printed() -> Any:
        is_whole = not (run.is_structured or run.how == output.Output.WIDE or run.chosen_namespace)
        if is_whole and not cluster and not finished and (head := _head(run, **query)) is not None:
            return _shown(run, *head, moving(run))
        found = answer()
        if isinstance(found, str):
            return found
        return _shown(run, found, tally_of(found), moving(run, cluster=cluster), cluster=cluster)

    follow(run, printed, every=durations.seconds(interval, option="--interval") if watch else 0)


class QueueTally(NamedTuple):
    """How many evictions wait, by state; how many are held, by reason; and when the last queued one takes place."""

    states: Mapping[str, int]
    held: Mapping[str, int]
    ends: str

    @property
    def waiting(self) -> int:
        return sum(self.states.get(state, 0) for state in Waiting)


def tally_of(found: Sequence[Document]) -> QueueTally:
    """Return the numbers of listed evictions."""
    status = [one["status"] for one in found]
    held = Counter(one.get("reason", "") for one in status if one.get("state") == "Held")
    ends = next((one["queueEndsAt"] for one in status if one.get("queueEndsAt")), "")
    return QueueTally(Counter(one.get("state", "") for one in status), held, ends)


def _head(run: Run, **query: Any) -> tuple[list[Document], QueueTally] | None:
    """Return the first evictions of the fleet in the order of the queue, and the numbers of all of them.

    It costs the same for 10 evictions and for 100,000. None: there are few, or the user may not read the fleet's
    figures.
    """
    found: list[Document] = []
    for plural in ("evictions", "clusterevictions"):
        page = run.api.get(paths.failover(plural), limit=SHOWN, **query)
        found += [one for one in page.get("items") or () if _waits(one)]
    if len(found) < SHOWN:
        return None
    try:
        queue = run.api.get(paths.failover("fleetstatuses", "fleet"))["status"].get("queue") or {}
    except Refused as error:
        if error.http == FORBIDDEN:
            return None
        raise
    states = {state: queue.get(state.lower(), 0) for state in Waiting}
    held = {one["reason"]: one["evictions"] for one in queue.get("heldBy") or ()}
    first = sorted(found, key=lambda one: one["status"].get("position") or math.inf)[:SHOWN]
    return first, QueueTally(states, held, tally_of(first).ends)


def _evictions(run: Run, *, cluster: str = "", **query: Any) -> list[Document]:
    """Return the evictions of the namespace of -n, or of all namespaces, in the order of the queue."""
    if cluster:
        query["fieldSelector"] = f"spec.cluster={cluster}"
    found = run.api.items(paths.failover("evictions", namespace=run.chosen_namespace), **query)["items"]
    if not run.chosen_namespace:
        found += run.api.items(paths.failover("clusterevictions"), **query)["items"]
    # A position is that in the queue of the whole fleet. Held evictions have none, and follow.
    return sorted(found, key=lambda one: one["status"].get("position") or math.inf)


def _waits(eviction: Document) -> bool:
    return eviction["status"].get("state") in Waiting


def moving(run: Run, *, cluster: str = "") -> str:
    """Return how many evicted copies still move; "": none, or the user may not know.

    Such copies have left the queue, and are kept until their replacements are healthy. They are those of the fleet, or
    of the namespace of -n, and from `cluster` if it is not "".
    """
    try:
        counts = _moving_in(run, run.chosen_namespace) if run.chosen_namespace else _moving_in_fleet(run)
    except Refused as error:
        if error.http == FORBIDDEN:
            return ""
        raise
    counts = {name: count for name, count in counts.items() if count and cluster in ("", name)}
    number = sum(counts.values())
    if not number:
        return ""
    where = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
    copies = "1 evicted copy still moves: it is" if number == 1 else f"{number} evicted copies still move: they are"
    return f"{copies} kept until healthy elsewhere ({where})."


def _moving_in_fleet(run: Run) -> dict[str, int]:
    status = run.api.get(paths.failover("fleetstatuses", "fleet"))["status"]
    return {one["name"]: one.get("moving", 0) for one in status.get("members") or ()}


def _moving_in(run: Run, namespace: str) -> dict[str, int]:
    records = run.api.items(paths.failover("failoverrecords", namespace=namespace))["items"]
    running = [one["status"] for one in records if one["status"].get("state") == "Running"]
    return Counter(left["name"] for status in running for left in status.get("left") or ())


def _shown(run: Run, found: Sequence[Document], tally: QueueTally, still_moving: str, *, cluster: str = "") -> Any:
    from rich.console import Group  # here: only this command combines a sentence with a table

    wide = run.how == output.Output.WIDE
    columns = [*_COLUMNS, *(_WIDE if wide else ())]
    rows = [_row(one)[: len(columns)] for one in found]
    parts: list[Any] = [sentence(tally, run, cluster=cluster), *([still_moving] if still_moving else [])]
    parts += [output.table(columns, rows, now=run.now)] if rows else []
    more = tally.waiting - len(found)
    parts += [f"… and {more} more (-o wide, -n, --cluster, or the page /queue)"] if more > 0 else []
    return Group(*parts)


def _row(one: Document) -> list[Any]:
    meta, spec, status = one["metadata"], one["spec"], one["status"]
    eta = status.get("estimate") or status.get("estimatedAt")
    return [
        *(status.get("position"), meta.get("namespace"), meta["name"], status.get("state"), status.get("reason")),
        *(status.get("dueAt"), eta, spec.get("resourceKind"), status.get("queuedAt"), status.get("message")),
    ]


def sentence(tally: QueueTally, run: Run, *, cluster: str = "") -> str:
    """Return the state of the queue: "31 queued, 1 held (NoRefuge 1); the last at 21:40:03Z (in 12m)."."""
    if not tally.waiting:
        of_cluster, namespace = f" from {cluster}" if cluster else "", run.chosen_namespace
        part = f"{of_cluster} of namespace {namespace}" if namespace else of_cluster
        return f"No eviction{part} waits." if part else "The queue is empty."
    parts = [f"{tally.states.get('Queued', 0)} queued"]
    if tally.held:
        said = ", ".join(f"{why} {count}" for why, count in sorted(tally.held.items()))
        parts.append(f"{sum(tally.held.values())} held ({said})")
    if recovering := tally.states.get("Recovering", 0):
        parts.append(f"{recovering} recovering")
    end = f"the last at {durations.relative(tally.ends, now=run.now)}" if tally.ends else "no estimated end"
    return f"{', '.join(parts)}; {end}."


def _order(run: Run, verb: str, names: list[str] | None, *, cluster: str, asks: str) -> None:
    """Give an order about evictions. `asks`: the question before it; "": only several are asked about."""
    named = _chosen(run, names or [], cluster=cluster)
    run.require_reason()
    chosen = _each(run, verb, named, reason=run.reason_or_blank, dry_run=True).ordered
    if not run.is_structured:
        run.remark(_about(verb, chosen), style="bold")
    run.concerned = len(chosen)
    question = asks.format(count=_count(len(chosen)))
    if not asks and len(chosen) > 1:
        question = f"{verb.capitalize()} {_count(len(chosen))}?"
    run.confirm(question, subject=cluster or str(len(chosen)))
    done = _each(run, verb, chosen, reason=run.reason)
    if not run.show({"apiVersion": "v1", "kind": "List", "items": done.answers}):
        run.say(f"{verb}: {_count(len(done.ordered))}")
    run.remark("watch it: lifeboat queue -w")
    if missed := len(named) - len(done.ordered):
        raise CommandError(f"{_count(missed)} not ordered, for the reason above", code=exit_codes.REFUSED)


class _Given(NamedTuple):
    """The evictions that have an order, and the answers of the API."""

    ordered: list[Document]
    answers: list[Document]


def _each(run: Run, verb: str, chosen: Sequence[Document], *, reason: str, dry_run: bool = False) -> _Given:
    """Give an order about each eviction. One that was evicted since it was listed, or whose binding others keep
    writing, is named and left out. Raises Refused if none can have the order."""
    given, failed = _Given([], []), None
    asked = [f"{_path(one)}/{verb}" for one in chosen]

    def give(path: str) -> Document | Refused:
        try:
            return run.api.post(path, {"reason": reason}, dry_run=dry_run)
        except Refused as error:
            if error.http not in (404, 409):
                raise
            return error

    for one, answer in zip(chosen, side_by_side.each(give, asked), strict=True):
        if isinstance(answer, Refused):
            if len(chosen) > 1:
                run.remark(f"{one['metadata']['name']}: {answer.message}", style="red")
            failed = answer
        else:
            given.ordered.append(one)
            given.answers.append(answer)
    places = {path: place for place, path in enumerate(asked)}
    run.api.tried.sort(key=lambda attempt: places.get(attempt.path, -1))
    if failed is not None and not given.ordered:
        raise failed
    return given


def _about(verb: str, chosen: Sequence[Document]) -> str:
    """Return what an order concerns: "Skip: 12 evictions from member1, in 3 namespaces."."""
    clusters = sorted({one["spec"]["cluster"] for one in chosen})
    spaces = len({one["metadata"].get("namespace", "") for one in chosen})
    places = f"{spaces} namespace{'' if spaces == 1 else 's'}"
    return f"{verb.capitalize()}: {_count(len(chosen))} from {', '.join(clusters)}, in {places}."


def _count(number: int) -> str:
    return f"{number} eviction{'' if number == 1 else 's'}"


def _path(eviction: Document) -> str:
    plural = "evictions" if eviction["kind"] == "Eviction" else "clusterevictions"
    return paths.failover(plural, eviction["metadata"]["name"], namespace=eviction["metadata"].get("namespace", ""))


def _chosen(run: Run, names: Sequence[str], *, cluster: str) -> list[Document]:
    """Return the named evictions, or all waiting evictions of `cluster`.

    A name may have its namespace before it: shop/web.member1. Raises CommandError if both names and a cluster are
    given, or neither, or if no eviction of the cluster waits.
    """
    if bool(names) == bool(cluster):
        raise usage("name evictions, or all of a cluster with --cluster", advice="lifeboat queue shows their names")
    if cluster:
        found = [one for one in _evictions(run, cluster=cluster) if _waits(one)]
        if not found:
            raise CommandError(f"no eviction from cluster {cluster} waits", code=exit_codes.NOT_FOUND)
        return found
    return [_named(run, name) for name in names]


def _named(run: Run, text: str) -> Document:
    namespace, _, name = text.rpartition("/")
    paths.named(name)
    own = paths.failover("evictions", name, namespace=namespace or run.namespace)
    for path in (own, *([] if namespace else [paths.failover("clusterevictions", name)])):
        try:
            return run.api.get(path)
        except Refused as error:
            # A user of one namespace may not read cluster-scoped evictions.
            if error.http != 404 and not (path != own and error.http == FORBIDDEN):
                raise
    raise CommandError(
        f"no eviction {name} in namespace {namespace or run.namespace}",
        code=exit_codes.NOT_FOUND,
        advice="lifeboat queue shows all; write NAMESPACE/NAME",
    )


@command(app, panel=PANEL, dangerous=True)
def hold(run: Run, evictions: Names = None, cluster: OfCluster = "") -> None:
    """Hold evictions: the copies stay until you release them."""
    _order(run, "hold", evictions, cluster=cluster, asks="")


@command(app, panel=PANEL, dangerous=True)
def release(run: Run, evictions: Names = None, cluster: OfCluster = "") -> None:
    """Remove a hold; if there is none, remove skip and expedite."""
    _order(run, "release", evictions, cluster=cluster, asks="")


@command(app, panel=PANEL, dangerous=True)
def skip(run: Run, evictions: Names = None, cluster: OfCluster = "") -> None:
    """Do not evict: the copies stay on their cluster for as long as its present taints stay."""
    asks = "Leave {count} undone, so that the copies stay where they are?"
    _order(run, "skip", evictions, cluster=cluster, asks=asks)


@command(app, panel=PANEL, dangerous=True)
def expedite(run: Run, evictions: Names = None, cluster: OfCluster = "") -> None:
    """Evict first of all that is due. An eviction whose taint is still tolerated waits for that."""
    asks = "Put {count} before all others, so that the copies leave first once they are due?"
    _order(run, "expedite", evictions, cluster=cluster, asks=asks)


@command(app, panel=PANEL, dangerous=True)
def pause(
    run: Run,
    last: Annotated[str, typer.Option("--for", help="When it ends: after 30m, 2h, 1d. Default: at `resume`.")] = "",
    cluster: Annotated[list[str] | None, typer.Option("--cluster", help="Only evictions from it. Repeatable.")] = None,
    name: Annotated[
        str, typer.Option(help="Name of the EvictionHold. Default: pause, with the clusters and the namespace of -n.")
    ] = "",
) -> None:
    """Stop all evictions by taints at once. Detection and everything else continue. -n: only those of a namespace."""
    run.require_reason()
    spec: Document = {"who": _user(run), "clusters": cluster or []}
    if run.chosen_namespace:
        spec["namespaces"] = [run.chosen_namespace]
    if last:
        spec["expiresAt"] = durations.later(durations.seconds(last, option="--for"), now=run.now)
    name = name or "-".join([PAUSE, *spec["clusters"], *spec.get("namespaces", ())])
    _write_pause(run, name, {**spec, "reason": run.reason_or_blank}, dry_run=True)
    run.confirm("")  # it is urgent, and moves nothing
    made = _write_pause(run, name, {**spec, "reason": run.reason})
    until = f"until {spec['expiresAt']}" if last else f"until `lifeboat resume{'' if name == PAUSE else f' {name}'}`"
    run.done(f"paused: no eviction {_scope(spec)} {until}", made, watch="lifeboat queue -w")


def _scope(spec: Document) -> str:
    """Return what a pause holds: "in the fleet", "from member1 of namespace shop"."""
    clusters, namespaces = spec.get("clusters") or (), spec.get("namespaces") or ()
    parts = [f"from {', '.join(clusters)}"] if clusters else []
    parts += [f"of namespace {', '.join(namespaces)}"] if namespaces else []
    parts += ["that its selector selects"] if spec.get("selector") else []
    return " ".join(parts) or "in the fleet"


def _write_pause(run: Run, name: str, spec: Document, *, dry_run: bool = False) -> Document:
    """Create a pause. One of this name that has ended, or is of this user, gets this spec and keeps no other field.

    Nothing is written over what another user writes meanwhile. Raises CommandError.
    """
    head = {"apiVersion": "failover.lifeboat.io/v1alpha1", "kind": "EvictionHold", "metadata": {"name": name}}
    path = paths.failover("evictionholds", name)
    try:
        there = existing(run, path)
    except Refused as error:
        if error.http != FORBIDDEN:  # who may pause but not read must not be kept from it
            raise
        return run.api.apply(path, {**head, "spec": spec}, dry_run=dry_run)
    if there is None:
        return run.api.post(paths.failover("evictionholds"), {**head, "spec": spec}, dry_run=dry_run)
    _refuse_replacement(run, there, spec)
    basis = {"resourceVersion": there["metadata"]["resourceVersion"]}
    return run.api.patch(path, {"metadata": basis, "spec": {**dict.fromkeys(there["spec"]), **spec}}, dry_run=dry_run)


def _refuse_replacement(run: Run, there: Document, spec: Document) -> None:
    """Raise CommandError if the pause that is there holds something else, or is of another user.

    To write it again would end what it holds, and forget who stopped it and why.
    """
    held, name = there["spec"], there["metadata"]["name"]
    if _is_over(there, now=run.now) or (held.get("who"), _scope(held)) == (spec["who"], _scope(spec)):
        return
    raise CommandError(
        _described(there),
        code=exit_codes.REFUSED,
        advice=f"it stays as it is; for a pause beside it choose another --name, or end it: lifeboat resume {name}",
    )


def _user(run: Run) -> str:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    made = run.api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
    return str(made["status"]["userInfo"].get("username", ""))


def _only_pause(run: Run) -> str:
    """Return the name of the pause over the whole fleet; "": there is none. Raises CommandError for several."""
    status = run.api.get(paths.failover("fleetstatuses", "fleet"))["status"]
    pauses: list[Document] = status.get("pauses") or []
    if len(pauses) == 1:
        return str(pauses[0]["name"])
    if not pauses:
        return ""
    said = "; ".join(f"{one['name']} by {one.get('who') or 'a user'}: {one.get('reason', '')}" for one in pauses)
    raise usage(f"{len(pauses)} pauses hold the fleet: {said}", advice="end each of them: lifeboat resume NAME")


@command(app, panel=PANEL, dangerous=True)
def resume(
    run: Run,
    name: Annotated[str, typer.Argument(help="The EvictionHold. Default: the only pause over the whole fleet.")] = "",
) -> None:
    """End a pause: evictions that were held continue, in the order of the queue."""
    name = name or _only_pause(run)
    if not name:
        run.done("the fleet is not paused: nothing to resume", {})
        if others := [one["metadata"]["name"] for one in _pauses(run)]:
            run.remark(f"pauses of clusters and namespaces: {', '.join(others)}; end one: lifeboat resume NAME")
        return
    path = paths.failover("evictionholds", name)
    hold = existing(run, path)
    if hold is None:
        _has_ended(run, name)
        return
    others = [one for one in _pauses(run) if one["metadata"]["name"] != name]
    freed = len(_freed(run, hold, others))
    who = hold["spec"].get("who") or "a user"
    run.remark(f"{name} by {who}: {hold['spec']['reason']}. {_count(freed)} held by this pause alone.")
    run.api.delete(path, dry_run=True)
    run.concerned = freed
    run.confirm("Resume evictions?", subject=name, back=True)
    ended = removed(run, path)
    run.done(f"resumed: {_count(freed)} may continue", ended, watch="lifeboat queue -w")
    for one in others:
        run.remark(
            f"still paused: {_described(one)}; end it: lifeboat resume {one['metadata']['name']}", style="yellow"
        )


def _freed(run: Run, hold: Document, others: Sequence[Document]) -> list[Document]:
    """Return the evictions that a pause holds and no other pause. What a selector chooses only the server knows: here
    the pause may hold them, and others do not."""
    whole = [one for one in others if not one["spec"].get("selector")]
    held = [one for one in _evictions(run) if one["status"].get("reason") == "OnHold" and _covers(hold, one)]
    return [one for one in held if not any(_covers(other, one) for other in whole)]


def _covers(hold: Document, eviction: Document) -> bool:
    """Test whether a pause is about the cluster and the namespace of an eviction."""
    clusters, namespaces = hold["spec"].get("clusters"), hold["spec"].get("namespaces")
    is_there = not clusters or eviction["spec"]["cluster"] in clusters
    return is_there and (not namespaces or eviction["metadata"].get("namespace", "") in namespaces)


def _pauses(run: Run) -> list[Document]:
    """Return the pauses that hold evictions now. One that has ended stays, and holds nothing."""
    found = run.api.items(paths.failover("evictionholds"))["items"]
    return [one for one in found if not _is_over(one, now=run.now)]


def _is_over(hold: Document, *, now: datetime) -> bool:
    ends = durations.moment(hold["spec"].get("expiresAt") or "")
    return ends is not None and ends <= now


def _described(hold: Document) -> str:
    """Return a pause in words: "pause pauses evictions in the fleet until 2026-…, by ann: disks"."""
    held = hold["spec"]
    until = f" until {held['expiresAt']}" if held.get("expiresAt") else ""
    by = held.get("who") or "a user"
    return f"{hold['metadata']['name']} pauses evictions {_scope(held)}{until}, by {by}: {held['reason']}"


def _has_ended(run: Run, name: str) -> None:
    """Report that there is no pause of a name, as after an order that is repeated. Raises CommandError if another one
    holds evictions, because the name may be wrong."""
    if others := [one["metadata"]["name"] for one in _pauses(run)]:
        raise CommandError(
            f"there is no pause {name}, and others hold evictions",
            code=exit_codes.NOT_FOUND,
            advice=f"other pauses: {', '.join(others)}; resume one with: lifeboat resume NAME",
        )
    run.done(f"there is no pause {name}, and no other: nothing to resume", {})
