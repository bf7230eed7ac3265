"""Commands that take over another control plane: import, compare, takeover, observe."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from apps.command import durations, exit_codes, kubeconfig, paths
from apps.command.api import Api
from apps.command.completing import clusters
from apps.command.errors import CommandError, Document, Refused, usage
from apps.command.import_plan import (
    BINDINGS,
    CLUSTER,
    DEFINITION,
    IDS,
    Item,
    bindings_by_template,
    bindings_of,
    counted,
    expected_copies,
    placements,
    planned,
    removable,
    targets,
)
from apps.command.kubectl import FIELD_MANAGER, Attempt
from apps.command.options import command
from apps.command.run import Run
from apps.command.source import ControlPlane, Discovery, Files, Identity, Source
from controlplane.apimachinery.names import OBSERVE_ANNOTATION, UNJOIN_ANNOTATION

app = typer.Typer()
PANEL: Final = "Taking over"
WORKS: Final = "/apis/work.karmada.io/v1alpha1/works"
WORKS_OF: Final = "karmada-es-"  # and the name of the cluster: the namespace of its Works
LOOK_SECONDS: Final = 1.0
IMPORTER: Final = "lifeboat-import"  # field manager of what an import creates, by which an undo knows it
MOST_LINES: Final = 20
# How the message of a compared Work begins, and the column that counts it.
SAME, MARKS, OTHER, MISSING, UNKNOWN = "Same", "Marks only", "Different", "Missing", "Not compared"
_BEGINS: Final = (
    ("An apply would change nothing.", SAME),
    ("An apply would change nothing but", MARKS),
    ("An apply would change", OTHER),
    ("The member does not have", MISSING),
)

Clusters = Annotated[list[str], typer.Argument(help="The clusters.", autocompletion=clusters)]
Timeout = Annotated[str, typer.Option(help="How long to wait.")]


@command(app, panel=PANEL, name="import", dangerous=True)
def import_(
    run: Run,
    kubeconfig_file: Annotated[
        Path | None, typer.Option("--from", help="A kubeconfig of the other control plane.")
    ] = None,
    file_context: Annotated[str, typer.Option("--from-context", help="Its context. Default: the current one.")] = "",
    files: Annotated[
        list[Path] | None, typer.Option("--file", help="A file or folder with its objects as YAML. May be repeated.")
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Remove what was imported. Members keep their objects.")] = False,
    timeout: Timeout = "2m",
) -> None:
    """Take over a Karmada: clusters, policies, bindings with their placements, templates. Members are only observed."""
    if bool(kubeconfig_file) == bool(files):
        raise usage("give --from KUBECONFIG of the other control plane, or --file with its objects")
    items = planned(_source(kubeconfig_file, file_context, files or ()))
    if not items:
        raise CommandError("the source has nothing to import", code=exit_codes.NOT_FOUND)
    run.require_reason()
    if undo:
        _undo(run, items, seconds=durations.seconds(timeout, option="--timeout"))
        return
    wanted = [item.document for item in items if not item.left_out]
    if run.dry_run and run.show({"apiVersion": "v1", "kind": "List", "items": wanted}):
        return
    if not run.is_structured:
        run.rows(("Kind", "To write", "Left out"), [[kind, *numbers] for kind, *numbers in counted(items)])
    for item in items:
        if item.left_out:
            run.remark(f"left out: {item.title}: {item.left_out}")
    same = [f"repeat the command with --dry-run -o yaml, and pipe it to kubectl create --field-manager={IMPORTER} -f -"]
    written_to = _written_to(run, items)
    for name in written_to:
        run.remark(f"{name} is not observed: what is imported for it is written to it at once", style="yellow")
    run.effects_known = bool(written_to)
    others = "The other members" if written_to else "The members"
    run.confirm(f"Write them? {others} are compared and not written to.", same=same)
    refused = _write(run, items)
    written = [item for item in items if item.identity not in refused]
    observed = [name for name in _names(written) if name not in written_to]
    _wait_until_compared(run, written, observed, seconds=durations.seconds(timeout, option="--timeout"))
    moved = _moved(run, written)
    _report(run, _compared(run, observed))
    for line in (*refused.values(), *moved):
        run.remark(line, style="red")
    if refused or moved:
        raise CommandError(
            f"{len(refused)} objects were refused, {len(moved)} bindings have other clusters than in the source",
            code=exit_codes.REFUSED,
            advice=f"{'no other' if written_to else 'no'} member was written to; correct the source or Lifeboat and "
            "repeat the command",
        )
    if observed:
        run.remark("next: stop the controllers of the other control plane, then lifeboat takeover CLUSTER…")


def _source(file: Path | None, context: str, files: Sequence[Path]) -> Source:
    if file is None:
        return Files(files)
    return ControlPlane(Api(kubeconfig.read(file, context), warn=lambda text: None))


def _written_to(run: Run, items: list[Item]) -> list[str]:
    """Return the clusters of the source and of its bindings that Lifeboat writes to already: imported before, and taken
    over since."""
    named = {*_names(items), *(name for wanted in placements(items).values() for name in wanted)}
    joined = run.api.items(paths.CLUSTERS).get("items") or []
    return sorted(
        one["metadata"]["name"] for one in joined if one["metadata"]["name"] in named and not _is_observed(one)
    )


def _names(items: Sequence[Item]) -> list[str]:
    return [item.identity[3] for item in items if item.identity[:2] == CLUSTER]


def _write(run: Run, items: Sequence[Item]) -> dict[Identity, str]:
    """Create what does not exist yet; return a line for each object that was refused, or that needs one of these."""
    served, refused = Discovery(run.api), dict[Identity, str]()
    created, bindings = Counter[str](), bindings_by_template(items)
    joined: set[str] | None = None  # read after the clusters are written
    were_here: dict[Identity, Item] = {}
    for item in items:
        if item.left_out:
            continue
        if item.identity[:2] in BINDINGS and joined is None:
            joined = _joined(run)
        try:
            problem = _lacks(item, bindings, refused, joined or set())
            if not problem and (binding := were_here.get(bindings.get(item.identity, item.identity))):
                problem = _displaced(run, served, item, binding)
            problem = problem or _created(run, served, item)
            created[item.kind] += 0 if problem else 1
        except Refused as error:
            is_here = error.status.get("reason") == "AlreadyExists"
            problem = "" if is_here else error.message
            were_here |= {item.identity: item} if is_here else {}
        if problem:
            refused[item.identity] = f"{item.title}: {problem}"
        if item.identity[:2] == DEFINITION:
            served.forget()
    run.remark(
        f"{created.total()} objects written, {len(items) - created.total() - len(refused)} were there or left out"
    )
    return refused


def _lacks(
    item: Item, bindings: Mapping[Identity, Identity], refused: Mapping[Identity, str], joined: Collection[str]
) -> str:
    """Return why an object is not written: the scheduler would place it elsewhere. "": it is written."""
    if item.identity[:2] in BINDINGS:
        missing = [name for name in targets(item.document) if name not in joined]
        return f"cluster {', '.join(missing)} is not joined here, or is being deleted" if missing else ""
    return "its binding was not written: it would be scheduled again" if bindings.get(item.identity) in refused else ""


def _displaced(run: Run, served: Discovery, item: Item, binding: Item) -> str:
    """Return why a template is not written whose binding was here: it would go to other clusters than in the source.

    "": it would not, or it is here as well. An import that was interrupted leaves bindings without their templates, and
    the scheduler moves them when their clusters go.
    """
    here, there = targets(_found(run, served, binding.identity)), targets(binding.document)
    if here.keys() == there.keys() or _found(run, served, item.identity):
        return ""
    return f"its binding is on {_shown(here)} here, and on {_shown(there)} there: remove it with import --undo"


def _joined(run: Run) -> set[str]:
    """Return the clusters that workloads can be placed on."""
    found = run.api.items(paths.CLUSTERS).get("items") or ()
    return {one["metadata"]["name"] for one in found if not one["metadata"].get("deletionTimestamp")}


def _created(run: Run, served: Discovery, item: Item) -> str:
    """Create an object; return why it cannot be created. Raises Refused."""
    path = served.path(item.identity[0], item.kind, item.identity[2])
    if path is None:
        return f"Lifeboat does not serve {item.kind} of {item.identity[0]}"
    run.api.post(path, item.document, fieldManager=IMPORTER)
    return ""


def _moved(run: Run, items: list[Item]) -> list[str]:
    """Return a line for each binding whose clusters are not those of the source."""
    served, lines = Discovery(run.api), []
    for identity, wanted in placements(items).items():
        now = targets(_found(run, served, identity))
        if now != wanted:
            lines.append(f"{identity[1]} {identity[2]}/{identity[3]}: {_shown(wanted)} there, {_shown(now)} here")
    return lines


def _found(run: Run, served: Discovery, identity: Identity) -> Document:
    """Return an object as it is here. {}: it is not here."""
    path = served.path(*identity)
    try:
        return {} if path is None else run.api.get(path)
    except Refused as error:
        if error.http != 404:
            raise
        return {}


def _shown(clusters: dict[str, int]) -> str:
    return ", ".join(f"{name}: {replicas}" for name, replicas in clusters.items()) or "no cluster"


def _undo(run: Run, items: list[Item], *, seconds: float) -> None:
    """Delete templates, policies and clusters that were imported, as long as all their clusters are observed.

    So are bindings without templates, which an interrupted import has left. Then wait until they and their bindings
    have gone: an import that finds one of them does not write it.
    """
    served, removed = Discovery(run.api), 0
    waiting = _waiting(run, served, items)
    going = [*waiting.values(), *_imported(run, served, removable(items))]
    for name in dict.fromkeys((*_names(items), *_clusters_with(run, {item.identity for item in going} | set(waiting)))):
        try:
            found = run.api.get(paths.cluster(name))
        except Refused as error:
            if error.http == 404:
                continue
            raise
        if found["metadata"].get("annotations", {}).get(OBSERVE_ANNOTATION) != "true":
            raise CommandError(
                f"cluster {name} is not observed: removing its objects here would remove them there",
                code=exit_codes.REFUSED,
                advice=f"lifeboat observe {name}",
            )
    run.rows(("Kind", "To remove"), list(Counter(item.kind for item in going).items()))
    found_at = [served.path(*item.identity) for item in going]
    run.concerned = len(placements(items))
    same = [Attempt("DELETE", path) for path in found_at if path is not None]
    run.confirm("Remove them from Lifeboat? The members keep their objects.", subject=str(run.concerned), same=same)
    for item, path in zip(going, found_at, strict=True):
        try:
            if path is not None and item.identity[:2] == CLUSTER:
                run.api.patch(path, {"metadata": {"annotations": {UNJOIN_ANNOTATION: "keep"}}})
            if path is not None:
                run.api.delete(path)
                removed += 1
        except Refused as error:
            if error.http != 404:
                raise
    until = time.monotonic() + seconds
    left = {item.identity for item in going} | bindings_of(going, items)
    while left := left & _here(run, served, left).keys():
        if time.monotonic() > until:
            run.remark(f"{len(left)} objects are still there: wait until they have gone before you import again")
            break
        time.sleep(LOOK_SECONDS)
    run.done(
        f"{removed} objects removed; Namespaces, definitions and credentials of clusters are left", {"removed": removed}
    )


def _waiting(run: Run, served: Discovery, items: list[Item]) -> dict[Identity, Item]:
    """Return the imported bindings that wait for their template, which is not here, by this template.

    Without it, nothing deletes them for an hour. When their clusters have gone, they would be scheduled to others, and
    the next import would send their templates there.
    """
    templates = bindings_by_template(items)
    here = _here(run, served, {*templates, *templates.values()})
    bindings = {item.identity: item for item in items}
    waiting = {template: bindings[of] for template, of in templates.items() if template not in here and of in here}
    imported = {item.identity for item in _imported(run, served, list(waiting.values()))}
    return {template: item for template, item in waiting.items() if item.identity in imported}


def _imported(run: Run, served: Discovery, items: list[Item]) -> list[Item]:
    """Return these items without those that were here before under the same name: an import leaves them as they are."""
    going, left = parted(items, _here(run, served, {item.identity for item in items}))
    for item in left:
        run.remark(f"left: {item.title} was here before the import")
    return going


def parted(items: Sequence[Item], here: Mapping[Identity, Document]) -> tuple[list[Item], list[Item]]:
    """Return the items that an import has created, or that are not here, and those that were here before."""
    held = {item.identity for item in items if item.identity in here and not _is_imported(item, here[item.identity])}
    return [item for item in items if item.identity not in held], [item for item in items if item.identity in held]


def _is_imported(item: Item, held: Document) -> bool:
    """Test whether an import has created an object: it is among its field managers, or a policy has the source's id.

    An import of a release before this one has the name of the command, which also changes clusters.
    """
    label, metadata = IDS.get(item.kind, ""), held["metadata"]
    given = item.document["metadata"].get("labels", {}).get(label)
    if given and (metadata.get("labels") or {}).get(label) == given:
        return True
    managers = {one.get("manager") for one in metadata.get("managedFields") or ()}
    return IMPORTER in managers or (FIELD_MANAGER in managers and item.identity[:2] != CLUSTER)


def _clusters_with(run: Run, templates: set[Identity]) -> list[str]:
    """Return the clusters for which Lifeboat has a Work with one of these objects. The source need not know them.

    An object may be in another version of its kind in the source: Works have the version that Lifeboat stores.
    """
    works, going = run.api.items(WORKS).get("items") or [], set(map(_without_version, templates))
    found = [work for work in works if going & set(map(_without_version, _carried(work)))]
    return [work["metadata"]["namespace"].removeprefix(WORKS_OF) for work in found]


def _without_version(identity: Identity) -> tuple[str, ...]:
    return identity[0].rpartition("/")[0], *identity[1:]


def _carried(work: Document) -> set[Identity]:
    """Return the objects that a Work brings to its cluster."""
    found = set()
    for manifest in (work["spec"].get("workload") or {}).get("manifests") or ():
        about = manifest.get("metadata") or {}
        place = about.get("namespace", ""), about.get("name", "")
        found.add((manifest.get("apiVersion", ""), manifest.get("kind", ""), *place))
    return found


def _here(run: Run, served: Discovery, objects: set[Identity]) -> dict[Identity, Document]:
    """Return the objects that Lifeboat has, of the kinds of these objects."""
    found = {}
    for kind in {identity[:2] for identity in objects}:
        path = served.path(*kind)
        for one in [] if path is None else run.api.items(path).get("items") or []:
            found[(*kind, one["metadata"].get("namespace", ""), one["metadata"]["name"])] = one
    return found


@command(app, panel=PANEL)
def compare(run: Run, names: Annotated[list[str] | None, typer.Argument(help="The clusters.")] = None) -> None:
    """Show what would change on clusters that are observed, if Lifeboat took them over now."""
    _report(run, _compared(run, names or _observed(run)))


@command(app, panel=PANEL, dangerous=True)
def takeover(run: Run, names: Clusters) -> None:
    """Let Lifeboat write to clusters that were only observed. Stop the other control plane first."""
    found = _compared(run, names)
    _report(run, found)
    if waiting := sum(1 for one in found if one[2] == UNKNOWN):
        run.remark(f"{waiting} objects are not compared: what would change there is not known", style="yellow")
    run.concerned = sum(1 for one in found if one[2] not in (SAME, MARKS))
    run.effects_known = True  # the comparison is the dry run
    question = f"Has the other control plane stopped, and should Lifeboat write to {', '.join(names)}?"
    _annotate(run, names, None, "taken over", question=question)


@command(app, panel=PANEL, dangerous=True)
def observe(run: Run, names: Clusters) -> None:
    """Stop writing to clusters: they are read and compared only, so that another control plane may write to them."""
    run.concerned = len(_compared(run, names))
    run.remark(f"{run.concerned} objects on {', '.join(names)} are compared, and not written to.", style="bold")
    run.effects_known = True
    question = f"Stop writing to {', '.join(names)}? Failovers from and to them have no effect then."
    _annotate(run, names, "true", "observed", question=question)


def _annotate(run: Run, names: Sequence[str], value: str | None, did: str, *, question: str) -> None:
    run.require_reason()
    body = {"metadata": {"annotations": {OBSERVE_ANNOTATION: value}}}
    for name in names:
        run.api.patch(paths.cluster(name), body, dry_run=True)
    run.confirm(question, subject=" ".join(names))
    watch = f"lifeboat compare {' '.join(names)}" if value else "kubectl get works -A -w"
    for name in names:
        run.done(f"{name} {did}", run.api.patch(paths.cluster(name), body), watch=watch if name == names[-1] else "")


def _observed(run: Run) -> list[str]:
    items = run.api.items(paths.CLUSTERS).get("items") or []
    return [one["metadata"]["name"] for one in items if _is_observed(one)]


def _is_observed(cluster: Document) -> bool:
    return (cluster["metadata"].get("annotations") or {}).get(OBSERVE_ANNOTATION) == "true"


Compared = tuple[str, str, str, str]  # cluster, object, column, message


def _compared(run: Run, names: Sequence[str]) -> list[Compared]:
    """Return the comparison of each Work of the clusters."""
    wanted = {f"{WORKS_OF}{name}": name for name in names}
    works = run.api.items(WORKS).get("items") or []
    return [_verdict(wanted[place], work) for work in works if (place := work["metadata"]["namespace"]) in wanted]


def _verdict(cluster: str, work: Document) -> Compared:
    conditions: list[Any] = (work.get("status") or {}).get("conditions") or []
    applied: Document = next(
        (one for one in conditions if one["type"] == "Applied" and one.get("reason") == "Observed"), {}
    )
    current = applied.get("observedGeneration") == work["metadata"].get("generation")
    message = str(applied.get("message", "")) if current else ""
    column = next((name for begin, name in _BEGINS if message.startswith(begin)), UNKNOWN)
    manifest = ((work["spec"].get("workload") or {}).get("manifests") or [{}])[0]
    place = manifest.get("metadata") or {}
    shown = "/".join(filter(None, (place.get("namespace"), place.get("name"))))
    return cluster, f"{manifest.get('kind', '')} {shown}", column, message or "not compared yet"


def _wait_until_compared(run: Run, items: list[Item], names: Sequence[str], *, seconds: float) -> None:
    """Wait until every copy of the imported bindings on these clusters, and every other Work there, is compared.

    Returns also when the time is over.
    """
    until = time.monotonic() + seconds
    wanted = {(cluster, about) for cluster, about in expected_copies(items) if cluster in names}
    while time.monotonic() < until:
        found = _compared(run, names)
        compared = {(cluster, about) for cluster, about, column, _ in found if column != UNKNOWN}
        if wanted <= compared and len(found) == sum(1 for one in found if one[2] != UNKNOWN):
            return
        time.sleep(LOOK_SECONDS)


def _report(run: Run, found: Sequence[Compared]) -> None:
    columns = (SAME, MARKS, OTHER, MISSING, UNKNOWN)
    counts = Counter((cluster, column) for cluster, _, column, _ in found)
    names = list(dict.fromkeys(cluster for cluster, *_ in found))
    if run.show({"items": [dict(zip(("cluster", "object", "verdict", "message"), one, strict=True)) for one in found]}):
        return
    if not found:
        run.remark("no object of these clusters is compared")
        return
    run.rows(("Cluster", *columns), [[name, *(counts[name, column] for column in columns)] for name in names])
    lines = [one for one in found if one[2] not in (SAME, MARKS)]
    for cluster, about, _, message in lines[:MOST_LINES]:
        run.remark(f"{cluster}: {about}: {message}")
    if len(lines) > MOST_LINES:
        run.remark(f"… and {len(lines) - MOST_LINES} more; -o json has all of them")
