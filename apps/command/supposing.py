"""The command `whatif`: what changes of the fleet would do, before they happen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from apps.command import exit_codes, manifests
from apps.command.errors import CommandError, Document, usage
from apps.command.moving import HIGHEST_RATE
from apps.command.options import command
from apps.command.preview import ask, show
from apps.command.reading import PANEL
from apps.command.run import Run
from apps.command.taints import added, parsed

app = typer.Typer()
_SETTINGS: Final = "FailoverConfiguration"
_POLICIES: Final = (
    *("PropagationPolicy", "ClusterPropagationPolicy", "OverridePolicy", "ClusterOverridePolicy"),
    "ClusterTaintPolicy",
)

Several = list[str] | None


@command(app, panel=PANEL)
def whatif(
    run: Run,
    clusters: Annotated[Several, typer.Argument(help="These clusters stop answering: the same as --lost.")] = None,
    lost: Annotated[Several, typer.Option("--lost", help="This cluster stops answering. Repeatable.")] = None,
    region: Annotated[Several, typer.Option("--region", help="All clusters of this region stop answering.")] = None,
    provider: Annotated[Several, typer.Option("--provider", help="Clusters of this provider stop answering.")] = None,
    drain: Annotated[Several, typer.Option("--drain", help="This cluster is drained.")] = None,
    rate: Annotated[
        float, typer.Option(min=0.001, max=HIGHEST_RATE, help="Bindings per second of --drain and --failback.")
    ] = 0.5,
    cordon: Annotated[Several, typer.Option("--cordon", help="This cluster is cordoned.")] = None,
    taint: Annotated[Several, typer.Option("--taint", help="CLUSTER:KEY=VALUE:EFFECT is added.")] = None,
    failback: Annotated[Several, typer.Option("--failback", help="Workloads that left this cluster return.")] = None,
    unjoin: Annotated[Several, typer.Option("--unjoin", help="This cluster is removed.")] = None,
    file: Annotated[
        list[Path] | None, typer.Option("-f", "--filename", help="A policy or FailoverConfiguration is applied.")
    ] = None,
) -> None:
    """Say what moves where, what has no place and when it is over, if clusters fail or something is changed."""
    changes: list[Document] = []
    names = [*(clusters or ()), *(lost or ())]
    if names or region or provider:
        changes.append({"type": "ClustersLost", "names": names, "regions": region or [], "providers": provider or []})
    changes += [{"type": "ClustersDrained", "names": drain, "rate": rate}] if drain else []
    changes += [{"type": "Cordoned", "names": cordon}] if cordon else []
    changes += [_tainted(text) for text in taint or ()]
    changes += [{"type": "Failback", "cluster": name, "rate": rate} for name in failback or ()]
    changes += [{"type": "ClusterRemoved", "name": name} for name in unjoin or ()]
    changes += [change for path in file or () for change in _edits(path)]
    if not changes:
        raise usage("say what happens", advice="for example: lifeboat whatif member1")
    found = ask(run, changes)
    if not run.show(found):
        show(run, found)
    if refused := found["status"]["effects"].get("refused"):
        raise CommandError(f"not all of this can happen: {refused[0]}", code=exit_codes.REFUSED)


def _tainted(text: str) -> Document:
    cluster, _, rest = text.partition(":")
    edit = parsed(rest)
    if not cluster or edit.remove:
        raise usage(f'--taint: "{text}" is not CLUSTER:KEY=VALUE:EFFECT')
    return added(cluster, edit)


def _edits(path: Path) -> list[Document]:
    """Return the changes that the documents of a file make."""
    changes: list[Document] = []
    if not (documents := manifests.documents(path)):
        raise usage(f"{path} is empty")
    for one in documents:
        kind = one.get("kind") if isinstance(one, dict) else None
        if kind in _POLICIES:
            changes.append({"type": "PolicyEdited", "policy": one})
        elif kind == _SETTINGS:
            changes.append({"type": "GateOrRateChanged", "configuration": one.get("spec") or {}})
        else:
            known = ", ".join((*_POLICIES, _SETTINGS))
            raise usage(f"{path}: what if knows {known}, not {kind or 'a document without a kind'}")
    return changes
