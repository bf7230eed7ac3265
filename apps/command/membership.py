"""Commands that add and remove member clusters: join, unjoin."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from apps.command import exit_codes, impersonator, kubeconfig, manifests, paths, registration
from apps.command.api import Api
from apps.command.errors import CommandError, Document, usage
from apps.command.kubeconfig import KUBECONFIG, SCHEMES
from apps.command.kubectl import Attempt
from apps.command.options import command
from apps.command.preview import preview
from apps.command.progress import gone
from apps.command.repeated import existing, removed
from apps.command.run import Run
from apps.command.shapes import check
from apps.command.taints import PANEL, Cluster
from controlplane.apimachinery.names import (
    CLUSTER_NAMESPACE,
    CREDENTIALS_ANNOTATION,
    UNJOIN_ANNOTATION,
    impersonation_secret_name,
)

app = typer.Typer()
_API_VERSION: Final = "cluster.karmada.io/v1alpha1"
_RENEWALS: Final = {
    "Push": "lifeboat join {name} --cluster-kubeconfig FILE",
    "Pull": "lifeboat join {name} --pull, which registers its agent again",
}


@command(app, panel=PANEL, dangerous=True)
def join(
    run: Run,
    cluster: Annotated[str, typer.Argument(help="The name of the cluster in Lifeboat.")],
    file: Annotated[
        Path | None, typer.Option("--cluster-kubeconfig", help="A kubeconfig of the cluster, with a token.")
    ] = None,
    file_context: Annotated[str, typer.Option("--cluster-context", help="Its context. Default: the current one.")] = "",
    pull: Annotated[bool, typer.Option("--pull", help="An agent in the cluster connects to Lifeboat.")] = False,
) -> None:
    """Join a cluster, or give a joined cluster another address and credentials."""
    if bool(file) == pull:
        raise usage("give --cluster-kubeconfig FILE, or --pull for a cluster whose agent connects to Lifeboat")
    _check_stays(run, cluster, mode="Pull" if pull else "Push")
    head = {"apiVersion": _API_VERSION, "kind": "Cluster", "metadata": {"name": cluster}}
    if file is None:
        joined = run.api.apply(paths.cluster(cluster), {**head, "spec": {"syncMode": "Pull"}}, dry_run=run.dry_run)
        run.done(f"{cluster} {'would be ' if run.dry_run else ''}joined: it is Ready when its agent reports", joined)
        registration.advise(run, cluster)
        return
    server, insecure, data = _member(file, file_context)
    spec: Document = {
        "syncMode": "Push",
        "apiEndpoint": server,
        "secretRef": {"namespace": CLUSTER_NAMESPACE, "name": cluster},
        "insecureSkipTLSVerification": insecure,
    }
    secrets = {cluster: data}
    if not run.dry_run and (token := _impersonator(run, cluster, file, file_context)):
        name = impersonation_secret_name(cluster)
        secrets[name] = {"token": token}
        spec["impersonatorSecretRef"] = {"namespace": CLUSTER_NAMESPACE, "name": name}
    # All are tried first, so that no Secret stays behind for a Cluster that is refused.
    for dry_run in (True,) if run.dry_run else (True, False):
        for name, content in secrets.items():
            _store(run, name, cluster, content, dry_run=dry_run)
        joined = run.api.apply(paths.cluster(cluster), {**head, "spec": spec}, dry_run=dry_run)
    run.done(f"{cluster} {'would be ' if run.dry_run else ''}joined: {server}", joined)


def _store(run: Run, name: str, cluster: str, data: dict[str, str], *, dry_run: bool) -> None:
    """Store a Secret with exactly this data. An apply leaves what another client has written, as an old authority."""
    place = f"/api/v1/namespaces/{CLUSTER_NAMESPACE}/secrets/{name}"
    stored = run.api.apply(place, _secret(name, cluster, data), dry_run=dry_run)
    if not dry_run and (left := set(stored.get("data") or ()) - set(data)):
        run.api.patch(place, {"data": dict.fromkeys(sorted(left))})


def _secret(name: str, cluster: str, data: dict[str, str]) -> Document:
    metadata = {"name": name, "annotations": {CREDENTIALS_ANNOTATION: cluster}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data}


def _impersonator(run: Run, cluster: str, file: Path, context: str) -> str:
    """Create the impersonator in a member and return its token; "": it could not be created, which is reported."""
    try:
        return impersonator.create(Api(kubeconfig.read(file, context), warn=run.remark))
    except CommandError as error:
        run.remark(
            f"{cluster} has no new impersonator, which requests of users through the proxy need: {error}; run this "
            "command again when that is repaired"
        )
        return ""


def _check_stays(run: Run, name: str, *, mode: str) -> None:
    """Raise CommandError if a joined cluster is being deleted or has the other mode.

    With another mode, the agent of a Pull cluster, or the address and credentials of a Push cluster, would be given up,
    and its workloads evicted when nothing is heard of it.
    """
    held = existing(run, paths.cluster(name))
    if held is None:
        return
    if held["metadata"].get("deletionTimestamp"):
        raise CommandError(
            f"cluster {name} is being deleted",
            code=exit_codes.REFUSED,
            advice=f"kubectl describe cluster {name} shows what its deletion waits for; join it again afterwards",
        )
    other = "Push" if mode == "Pull" else "Pull"
    if held["spec"].get("syncMode") == other:
        raise CommandError(
            f"cluster {name} is joined with spec.syncMode {other}",
            code=exit_codes.REFUSED,
            advice=f"to renew its access: {_RENEWALS[other].format(name=name)}; to make it {mode}, change the spec of "
            f"the Cluster: kubectl edit cluster {name}",
        )


def _member(file: Path, context: str) -> tuple[str, bool, dict[str, str]]:
    """Return address, whether TLS is not verified, and the data of the Secret, from the kubeconfig of a member."""
    try:
        cluster, user = _chosen(file, context)
        token = user.get("token") or (Path(user["tokenFile"]).read_text().strip() if user.get("tokenFile") else "")
        encoded = base64.b64encode(token.encode()).decode()
        authority = cluster.get("certificate-authority-data") or _encoded(cluster, file.parent)
        server, insecure = cluster.get("server") or "", bool(cluster.get("insecure-skip-tls-verify"))
    except FileNotFoundError as error:
        raise CommandError(f"there is no file {error.filename}", code=exit_codes.NOT_FOUND) from None
    except (OSError, UnicodeError) as error:
        raise usage(f"{file} names a file that cannot be read: {error}") from None
    if not server.startswith(SCHEMES):
        raise usage(f'{file}: the server of its cluster is "{server}"; write https://HOST:PORT')
    if not token:
        raise usage(
            f"the user of {file} has no token, and Lifeboat needs one",
            advice="create a ServiceAccount in the cluster and put its token there (kubectl create token NAME)",
        )
    data = {"token": encoded, **({"caBundle": authority} if authority else {})}
    return server, insecure, data


def _chosen(file: Path, context: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return cluster and user of a context of a kubeconfig, "" for the current one. Raises CommandError."""
    config = manifests.document(file)
    check(config, KUBECONFIG, place=str(file))

    def entry(part: str, field: str, name: str) -> dict[str, Any]:
        named = [one for one in config.get(part) or () if one.get("name") == name]
        if not named:
            raise usage(f'{file}: {part} has no entry "{name}"')
        if named[0].get(field) is None:
            raise usage(f'{file}: the entry "{name}" of {part} has no field {field}')
        found: dict[str, Any] = named[0][field]
        return found

    if not (name := context or config.get("current-context") or ""):
        raise usage(f"{file} has no current-context", advice="name a context with --cluster-context")
    chosen = entry("contexts", "context", name)
    cluster = entry("clusters", "cluster", chosen.get("cluster") or "")
    return cluster, entry("users", "user", chosen.get("user") or "")


def _encoded(cluster: dict[str, Any], folder: Path) -> str:
    if not cluster.get("certificate-authority"):
        return ""
    return base64.b64encode((folder / cluster["certificate-authority"]).read_bytes()).decode()


@command(app, panel=PANEL, dangerous=True)
def unjoin(
    run: Run,
    cluster: Cluster,
    keep: Annotated[bool, typer.Option("--keep", help="Copies that run there stay there, unmanaged.")] = False,
    delete: Annotated[bool, typer.Option("--delete-copies", help="Copies that run there are deleted.")] = False,
    wait: Annotated[bool, typer.Option(help="Wait until it is gone.")] = True,
    timeout: Annotated[str, typer.Option(help="How long to wait.")] = "10m",
) -> None:
    """Remove a cluster from Lifeboat. Empty it first with `lifeboat drain`, or decide about its copies."""
    if keep and delete:
        raise usage("--keep and --delete-copies exclude each other")
    path = paths.cluster(cluster)
    if existing(run, path) is None:
        run.done(f"{cluster} is not joined: nothing to do", {})
        return
    run.require_reason()
    wish = {"metadata": {"annotations": {UNJOIN_ANNOTATION: "keep" if keep else "delete"}}}
    if keep or delete:
        run.api.patch(path, wish, dry_run=True)
        same = [*run.api.tried, Attempt("DELETE", path)]
        run.remark(f"{cluster} is removed at once. Copies on it {'stay, unmanaged' if keep else 'are deleted'}.")
        preview(run, {"type": "ClusterRemoved", "name": cluster, "copies": "keep" if keep else "delete"})
    else:
        run.api.delete(path, dry_run=True)
        same = run.api.tried
        preview(run, {"type": "ClusterRemoved", "name": cluster})
    run.confirm(f"Unjoin {cluster}?", subject=cluster, always=True, same=same)
    if keep or delete:
        run.api.patch(path, wish)
    deleted = removed(run, path)
    if wait:
        gone(run, paths.CLUSTERS, cluster, timeout=timeout)
    watch = "" if wait else f"kubectl get cluster {cluster} -w"
    run.done(f"{cluster} {'unjoined' if wait else 'is being unjoined'}", deleted, watch=watch)
