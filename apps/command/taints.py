"""Commands that change what a cluster may run: cordon, uncordon, taint, fence."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Annotated, Final, NamedTuple

import typer

from apps.command import durations, exit_codes, paths
from apps.command.completing import clusters
from apps.command.errors import CommandError, Document, Refused, usage
from apps.command.options import command
from apps.command.preview import preview
from apps.command.run import Run
from controlplane.apimachinery.names import FENCE_ANNOTATION, UNSCHEDULABLE_TAINT

app = typer.Typer()
PANEL: Final = "Clusters"
ATTEMPTS: Final = 5

Cluster = Annotated[str, typer.Argument(help="The cluster.", autocompletion=clusters)]
Taints = list[Document]

_TAINT = re.compile(r"(?P<key>[^=:]+?)(?:=(?P<value>[^:]*))?(?::(?P<effect>[A-Za-z]+))?(?P<remove>-)?")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute", "PreferNoExecute")


class Edit(NamedTuple):
    """A taint to add, or with `remove` to remove. Without an effect, all taints of the key are removed."""

    key: str
    value: str
    effect: str
    remove: bool

    def applied(self, taints: Taints) -> Taints:
        """Return the taints after the edit. A taint that is there already stays as it is, with its time."""
        if self.remove:
            return [one for one in taints if not self._is(one)]
        wanted = {"key": self.key, "effect": self.effect, **({"value": self.value} if self.value else {})}
        if any(self._is(one) and one.get("value", "") == self.value for one in taints):
            return taints
        return [*(one for one in taints if not self._is(one)), wanted]

    def _is(self, taint: Document) -> bool:
        return bool(taint["key"] == self.key and (not self.effect or taint["effect"] == self.effect))


CORDON: Final = Edit(UNSCHEDULABLE_TAINT, "", "NoSchedule", False)


def parsed(text: str) -> Edit:
    """Return the edit of KEY[=VALUE]:EFFECT, KEY:EFFECT- or KEY-. Raises CommandError for anything else."""
    found = _TAINT.fullmatch(text)
    effect = (found and found["effect"]) or ""
    if found is None or (effect and effect not in _EFFECTS) or not (effect or found["remove"]):
        raise usage(
            f'"{text}" is not a taint',
            advice=f"write KEY=VALUE:EFFECT to add, KEY:EFFECT- or KEY- to remove; effects: {', '.join(_EFFECTS)}",
        )
    return Edit(found["key"], found["value"] or "", effect, bool(found["remove"]))


def _change(
    run: Run,
    name: str,
    edit: Callable[[Taints], Taints],
    *,
    question: str = "",
    supposed: Sequence[Document] = (),
) -> Document | None:
    """Change the taints of a cluster after a dry run and a confirmation. None: they are already as wanted.

    `question` "": the change takes an earlier one back. `supposed`: the changes of a WhatIf that is shown before the
    question. A change by another writer in between is not lost.
    """
    confirmed = False
    for _ in range(ATTEMPTS):
        live = run.api.get(paths.cluster(name))
        before = live["spec"].get("taints") or []
        after = edit(before)
        if after == before:
            return None
        version = {"resourceVersion": live["metadata"]["resourceVersion"]}
        body = {"metadata": version, "spec": {"taints": after}}
        try:
            if not confirmed:
                run.api.patch(paths.cluster(name), body, dry_run=True)
                if supposed:
                    preview(run, *supposed)
                run.confirm(question, subject=name, back=not question)
                confirmed = True
            return run.api.patch(paths.cluster(name), body)
        except Refused as error:
            if error.http != 409:
                raise
    raise CommandError(f"other writes keep changing cluster {name}", code=exit_codes.REFUSED, advice="try again")


def _report(run: Run, name: str, changed: Document | None, did: str, already: str, *, watch: str) -> None:
    if changed is None:
        run.done(f"{name} {already}", run.api.get(paths.cluster(name)) if run.is_structured else {})
    else:
        run.done(f"{name} {did}", changed, watch=watch)


@command(app, panel=PANEL, dangerous=True)
def cordon(run: Run, cluster: Cluster) -> None:
    """Let nothing new be placed on a cluster. What runs there stays."""
    supposed = [{"type": "Cordoned", "names": [cluster]}]
    question = f"Cordon {cluster}?"
    run.require_reason()
    changed = _change(run, cluster, CORDON.applied, question=question, supposed=supposed)
    _report(run, cluster, changed, "cordoned", "is already cordoned", watch=f"kubectl get cluster {cluster} -w")


@command(app, panel=PANEL, dangerous=True)
def uncordon(run: Run, cluster: Cluster) -> None:
    """Let workloads be placed on a cluster again."""
    changed = _change(run, cluster, CORDON._replace(remove=True).applied)
    _report(run, cluster, changed, "uncordoned", "is not cordoned", watch=f"kubectl get cluster {cluster} -w")


@command(app, panel=PANEL, dangerous=True)
def taint(
    run: Run,
    cluster: Cluster,
    taints: Annotated[list[str], typer.Argument(help="KEY=VALUE:EFFECT adds, KEY:EFFECT- and KEY- remove.")],
) -> None:
    """Add or remove taints of a cluster. NoExecute evicts what does not tolerate the taint."""
    edits = [parsed(text) for text in taints]

    def edited(before: Taints) -> Taints:
        for edit in edits:
            before = edit.applied(before)
        return before

    new = [edit for edit in edits if not edit.remove]
    evicting = any(edit.effect.endswith("NoExecute") for edit in new)
    question = f"Taint {cluster}{', and evict what does not tolerate it' if evicting else ''}?" if new else ""
    supposed = [added(cluster, edit) for edit in new]
    if new:
        run.require_reason()
    changed = _change(run, cluster, edited, question=question, supposed=supposed)
    did, already = ("tainted", "has these taints already") if new else ("untainted", "has no such taint: nothing to do")
    if len(new) not in (0, len(edits)):
        did, already = "has other taints now", "has these taints already, and not those to remove"
    _report(run, cluster, changed, did, already, watch="lifeboat queue -w")


def added(cluster: str, edit: Edit) -> Document:
    """Return the change of a WhatIf that adds a taint."""
    taint = {"key": edit.key, "effect": edit.effect, **({"value": edit.value} if edit.value else {})}
    return {"type": "TaintAdded", "cluster": cluster, "taint": taint}


@command(app, panel=PANEL, dangerous=True)
def fence(
    run: Run,
    cluster: Cluster,
    last: Annotated[str, typer.Option("--for", help="How long the confirmation is valid: 10m, 2h.")] = "1h",
    remove: Annotated[bool, typer.Option("--remove", help="Remove the confirmation.")] = False,
) -> None:
    """Confirm that a cluster that does not answer is down. Copies that wait for this start elsewhere."""
    path, watch = f"{paths.cluster(cluster)}/fence", "lifeboat status -w"
    if remove:
        live = run.api.get(paths.cluster(cluster))
        if FENCE_ANNOTATION not in (live["metadata"].get("annotations") or {}):
            run.done(f"{cluster} has no fence: nothing to remove", live if run.is_structured else {})
            return
        run.api.post(path, {}, dry_run=True)
        run.confirm(f"Remove the fence of {cluster}?", subject=cluster, back=True)
        run.done(f"{cluster}: fence removed", run.api.post(path, {}), watch=watch)
        return
    valid = durations.seconds(last, option="--for")
    run.require_reason()
    run.api.post(path, {"reason": run.reason_or_blank, "expiresInSeconds": valid}, dry_run=True)
    run.remark(f"If {cluster} still runs, its workloads run twice. New copies start at once after this.")
    run.confirm(f"Is {cluster} really down?", subject=cluster, always=True)
    done = run.api.post(path, {"reason": run.reason, "expiresInSeconds": valid})
    run.done(f"{cluster}: confirmed down for {last}", done, watch=watch)
