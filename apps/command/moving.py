"""Commands that move workloads on purpose: drain and failback. Each shows first what would move."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from apps.command import exit_codes, output, paths
from apps.command.completing import clusters
from apps.command.errors import CommandError, Document, Refused, usage
from apps.command.kubectl import Attempt
from apps.command.options import command
from apps.command.preview import preview
from apps.command.progress import State, followed
from apps.command.run import Run
from apps.command.workloads import subject

app = typer.Typer()
PANEL: Final = "Moving"
_API_VERSION: Final = "failover.lifeboat.io/v1alpha1"
_FOR_MANIFESTS: Final = "; set spec.dryRun to false"  # advice of a plan that is no use here: the command asks
HIGHEST_RATE: Final = 1_000_000.0  # JSON has no infinite number
_SHOWN: Final = 10  # planned returns that are listed without -o wide

Rate = Annotated[float, typer.Option(min=0.001, max=HIGHEST_RATE, help="Maximum number of bindings per second.")]
Wait = Annotated[bool, typer.Option(help="Show the progress until the end.")]
Timeout = Annotated[str, typer.Option(help="How long to wait for the end.")]


@command(app, panel=PANEL, dangerous=True)
def drain(
    run: Run,
    cluster: Annotated[str, typer.Argument(help="The cluster to empty.", autocompletion=clusters)],
    rate: Rate = 0.5,
    stop: Annotated[bool, typer.Option("--stop", help="Stop all drains of this cluster.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a drain that was stopped.")] = False,
    wait: Wait = True,
    timeout: Timeout = "12h",
) -> None:
    """Empty a cluster: cordon it, and move what runs there, one binding after the other, as soon as it has a place."""
    if stop and resume:
        raise usage("--stop and --resume exclude each other")
    live = _open_drains(run, cluster)
    if (stop or resume) and not live:
        _nothing_to_stop(run, cluster, stop=stop)
        return
    if stop:
        _stopped(run, cluster, live)
        return
    running = [one for one in live if not one["spec"].get("stop")]
    collection = paths.failover("drains")
    if resume:
        one = next((one for one in live if one["spec"].get("stop")), live[0])
        name = one["metadata"]["name"]
        (changed,) = _with_stop(run, cluster, [one], stop=False)
        if not wait:
            run.done(f"drain {name} continues", changed, watch=f"kubectl get drain {name} -w")
            return
    elif running:
        name = running[0]["metadata"]["name"]
        run.remark(f"drain {name} of {cluster} is open already; this shows its progress")
    elif live:
        raise CommandError(
            f"drain {_names(live)} of {cluster} is stopped",
            code=exit_codes.PROBLEM,
            advice=f"continue it with: lifeboat drain {cluster} --resume",
        )
    else:
        made = _drained(run, cluster, rate)
        name = made["metadata"]["name"]
        if not wait:
            run.done(f"drain {name} started", made, watch=f"lifeboat drain {cluster}")
            return
    ended = followed(run, collection, name, _drain_state, timeout=timeout, stop=f"lifeboat drain {cluster} --stop")
    _report(run, ended, _drain_state(ended), problem=ended["status"].get("phase") != "Finished")


def _stopped(run: Run, cluster: str, live: list[Document]) -> None:
    """Stop all open drains of a cluster: drills, the console and other users may have created some as well."""
    running = [one for one in live if not one["spec"].get("stop")]
    if not running:
        run.done(f"drain {_names(live)} is stopped already: nothing to do", _whole(live), watch=_watch(live))
        return
    changed = _with_stop(run, cluster, running, stop=True)
    did = f"drain {_names(changed)} stopped" if changed else "all drains are gone"
    run.done(f"{did}; what is moving continues", _whole(changed), watch=_watch(changed) if changed else "")


def _watch(drains: list[Document]) -> str:
    names = " ".join(one["metadata"]["name"] for one in drains)
    return f"kubectl get drain {names}" + ("" if len(drains) > 1 else " -w")  # kubectl watches one object, or all


def _with_stop(run: Run, cluster: str, drains: list[Document], *, stop: bool) -> list[Document]:
    """Stop drains, or let them continue, after a dry run of each; return them."""
    tried = _patched(run, drains, stop=stop, dry_run=True)
    if not tried:
        return []
    run.confirm(f"{'Stop' if stop else 'Continue'} drain {_names(tried)}?", subject=cluster, back=True)
    return _patched(run, tried, stop=stop)


def _patched(run: Run, drains: list[Document], *, stop: bool, dry_run: bool = False) -> list[Document]:
    """Stop drains, or let them continue; return them.

    One that was deleted meanwhile, as with its drill, is named and left out: the others must stop all the same.
    """
    changed = list[Document]()
    for one in drains:
        place = paths.failover("drains", one["metadata"]["name"])
        try:
            changed.append(run.api.patch(place, {"spec": {"stop": stop}}, dry_run=dry_run))
        except Refused as error:
            if error.http != 404 or not stop:
                raise
            run.remark(f"drain {_names([one])} does not exist any more")
    return changed


def _whole(items: list[Document]) -> Document:
    """Return the only object, or all of them as a list."""
    return items[0] if len(items) == 1 else {"apiVersion": "v1", "kind": "List", "items": items}


def _names(drains: list[Document]) -> str:
    return ", ".join(one["metadata"]["name"] for one in drains)


def _nothing_to_stop(run: Run, cluster: str, *, stop: bool) -> None:
    """Report that a stop is repeated after the end of the drain. Raises CommandError if there is no such cluster, whose
    name may be wrong, or if the drain was to be continued."""
    run.api.get(paths.cluster(cluster))
    if not stop:
        raise CommandError(f"no drain of {cluster} is open", code=exit_codes.NOT_FOUND)
    run.done(f"no drain of {cluster} is open: nothing to stop", {})


def _drained(run: Run, cluster: str, rate: float) -> Document:
    """Create a Drain after its dry run, and return it."""
    run.require_reason()
    collection = paths.failover("drains")
    head = {"apiVersion": _API_VERSION, "kind": "Drain", "metadata": {"generateName": f"{cluster}-"}}
    spec: Document = {"cluster": cluster, "rate": rate, "reason": run.reason_or_blank}
    run.api.post(collection, {**head, "spec": spec}, dry_run=True)
    preview(run, {"type": "ClustersDrained", "names": [cluster], "rate": rate})
    run.confirm(f"Drain {cluster}?", subject=cluster)
    return run.api.post(collection, {**head, "spec": {**spec, "reason": run.reason}})


def _open_drains(run: Run, cluster: str) -> list[Document]:
    """Return the drains of a cluster that have not finished, the newest first."""
    found = [
        one
        for one in run.api.items(paths.failover("drains"))["items"]
        if one["spec"].get("cluster") == cluster and (one.get("status") or {}).get("phase") != "Finished"
    ]
    return sorted(found, key=lambda one: (one["metadata"]["creationTimestamp"], one["metadata"]["name"]), reverse=True)


def _drain_state(document: Document) -> State:
    status = document.get("status") or {}
    moved, leaving, remaining = (status.get(name, 0) for name in ("moved", "leaving", "remaining"))
    phase = status.get("phase", "Waiting")
    text = f"{phase}, {leaving} leaving, {remaining} remaining"
    if message := status.get("message"):
        text += f": {message}"
    total = moved + remaining
    return State(max(0, moved - leaving), total, text, phase if phase in ("Finished", "Stopped") else "")


@command(app, panel=PANEL, dangerous=True)
def revert(
    run: Run,
    workload: Annotated[str, typer.Argument(help="TYPE/NAME (deployment/web), or the name of a binding.")],
) -> None:
    """Undo the latest failover of one workload: it returns to its placement before that failover."""
    about = subject(run, workload)
    run.require_reason()
    before = run.api.get(about.path)
    planned = run.api.post(f"{about.path}/revert", {}, dry_run=True)
    run.remark(f"{about.qualified}: {_placement(before)} becomes {_placement(planned)}")
    run.confirm("Take the failover back?")
    done = run.api.post(f"{about.path}/revert", {})
    within = f" -n {about.namespace}" if about.namespace else ""
    run.done(f"{about.qualified} returns to {_placement(done)}", done, watch=f"lifeboat record {about.name}{within}")


def _placement(binding: Document) -> str:
    targets = binding["spec"].get("clusters") or ()
    return ", ".join(f"{one['name']} ({one['replicas']})" if one.get("replicas") else one["name"] for one in targets)


def _report(run: Run, ended: Document, state: State, *, problem: bool) -> None:
    run.done(f"{ended['metadata']['name']}: {state.text}", ended)
    if problem:
        raise typer.Exit(exit_codes.PROBLEM.code)


@command(app, panel=PANEL, dangerous=True)
def failback(
    run: Run,
    cluster: Annotated[str, typer.Argument(help="Return what left this cluster.", autocompletion=clusters)] = "",
    binding: Annotated[str, typer.Option(help="Return this binding: NAMESPACE/NAME.")] = "",
    selector: Annotated[str, typer.Option("-l", "--selector", help="Only workloads with these labels: a=b,c=d.")] = "",
    rate: Rate = 0.5,
    at_once: Annotated[int, typer.Option(min=1, max=100, help="How many return at the same time.")] = 10,
    wait: Wait = True,
    timeout: Timeout = "12h",
) -> None:
    """Bring workloads back to the cluster they left. The plan is shown first, and the first failure stops it."""
    spec: Document = {"rate": rate, "atOnce": at_once, "reason": run.reason_or_blank, "dryRun": True}
    spec |= {key: value for key, value in (("cluster", cluster), ("binding", binding)) if value}
    if selector:
        spec["selector"] = {"matchLabels": labels_of(selector)}
    if not cluster and not binding and not selector:
        raise usage("name a cluster, or choose with --binding or --selector")
    run.require_reason()
    collection = paths.failover("failbacks")
    head = {"apiVersion": _API_VERSION, "kind": "Failback", "metadata": {"generateName": f"{cluster or 'back'}-"}}
    made = run.api.post(collection, {**head, "spec": spec})
    name = made["metadata"]["name"]
    place, started = f"{collection}/{name}", False
    try:
        planned = followed(run, collection, name, _plan_state, timeout="2m", stop=f"kubectl delete failback {name}")
        if not _show_plan(run, planned):
            return
        run.concerned, run.effects_known = len(planned["status"]["planned"]), True
        begun = {"spec": {"dryRun": False}}
        run.api.patch(place, begun, dry_run=True)  # refused if nothing may return yet, although there is a plan
        same = [Attempt("POST", collection, {**head, "spec": {**spec, "dryRun": False}})]
        run.confirm("Return them?", subject=cluster or str(run.concerned), same=same)
        run.api.patch(place, {"spec": {**begun["spec"], "reason": run.reason}})
        started = True
    finally:
        if not started:
            run.api.delete(place)  # a plan that is not carried out does not stay behind
    if not wait:
        run.done(f"failback {name} started", run.api.get(place), watch=f"kubectl get failback {name} -w")
        return
    stop = f"""kubectl patch failback {name} --type merge -p '{{"spec": {{"stop": true}}}}'"""
    ended = followed(run, collection, name, _failback_state, timeout=timeout, stop=stop)
    _report(run, ended, _failback_state(ended), problem=ended["status"].get("phase") != "Finished")


def labels_of(text: str) -> dict[str, str]:
    """Return the labels of a text such as a=b,c=d. Raises CommandError for any other text."""
    pairs = [part.partition("=") for part in text.split(",")]
    if any(not key or not equals for key, equals, _ in pairs):
        raise usage(f'--selector: "{text}" is not a list of labels; write a=b,c=d')
    return {key.strip(): value.strip() for key, _, value in pairs}


def _plan_state(document: Document) -> State:
    status = document.get("status") or {}
    phase = status.get("phase", "")
    ended = phase if phase in ("Planned", "Failed", "Finished") else ""
    return State(0, 0, f"planning: {_message(status) or 'waiting for a worker'}", ended)


def _show_plan(run: Run, document: Document) -> bool:
    """Print what would return. Return whether anything would."""
    status = document["status"]
    plans, staying = status.get("planned") or (), status.get("cannotReturn") or ()
    if run.is_structured and run.dry_run:
        run.show(document)
    shown = None if run.how == output.Output.WIDE else _SHOWN
    rows: list[list[Any]] = [
        [_place(one["binding"]), ", ".join(one.get("leaves") or ()), one["cluster"], one.get("replicas") or ""]
        for one in plans
    ]
    if rows:
        run.remark(output.table(("Binding", "Leaves", "Returns to", "Replicas"), rows[:shown], now=run.now))
    if shown is not None and len(rows) > shown:
        run.remark(f"… and {len(rows) - shown} more (-o wide)")
    by_reason: dict[str, list[str]] = {}
    for one in staying:
        by_reason.setdefault(one["message"], []).append(_place(one["binding"]))
    for why, places in by_reason.items():
        run.remark(f"{'stays' if len(places) == 1 else 'stay'}: {', '.join(places)}: {why}", style="yellow")
    run.remark(f"{status.get('phase')}: {_message(status)}")
    if not plans:
        run.done("nothing returns", document)
    return bool(plans)


def _message(status: Document) -> str:
    return str(status.get("message") or "").replace(_FOR_MANIFESTS, "")


def _place(binding: str) -> str:
    """Return a binding as users write it: namespace and name, without its kind."""
    return binding.partition(":")[2] or binding


def _failback_state(document: Document) -> State:
    status = document.get("status") or {}
    returned, remaining = status.get("returned", 0), status.get("remaining", 0)
    returning, phase = len(status.get("returning") or ()), status.get("phase", "Waiting")
    text = f"{phase}, {returning} returning, {remaining} remaining"
    if message := _message(status):
        text += f": {message}"
    end = phase if phase in ("Finished", "Failed", "Stopped") else ""
    return State(returned, returned + returning + remaining, text, end)
