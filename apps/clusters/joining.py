"""Joining of member clusters: creation of Secrets with credentials, and of a Cluster that names the Secrets."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

from apps.objects.store import DjangoStore
from apps.objects.writer import ATTEMPTS, Author, Change, Writer, document_of
from controlplane import kinds
from controlplane.apimachinery.errors import AlreadyExists
from controlplane.apimachinery.meta import Object, Ref, kind_key
from controlplane.apimachinery.names import CLUSTER_NAMESPACE, CREDENTIALS_ANNOTATION, impersonation_secret_name
from controlplane.apimachinery.yaml_rules import problem
from controlplane.engine.decision import Put
from controlplane.kinds import KINDS
from controlplane.kinds.cluster import PULL, PUSH, Cluster, SecretReference
from controlplane.settings import Settings

USER = "join"  # in the change log
_CLUSTER = {"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster"}


class JoinError(Exception):
    """A member cannot be joined. The message says why, and what to do."""


class Member(msgspec.Struct, frozen=True):
    """The address and credentials of a member. The tokens are secret and are not in the repr.

    `impersonator`: the token for requests of users; "": not known, the stored token stays.
    """

    name: str
    url: str
    token: str = ""
    authority: str = ""  # PEM
    insecure: bool = False
    impersonator: str = ""

    def __repr__(self) -> str:
        return f"Member({self.name} at {self.url})"


def from_list(path: Path) -> list[Member]:
    """Return the members of a file members.json, which `python -m apps.simulator serve` writes. Raises JoinError."""
    try:
        known = json.loads(path.read_text())
        authority = known.get("certificateAuthority", "")
        return [Member(item["name"], item["url"], item["token"], authority) for item in known["members"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise JoinError(f"{path} is not a list of members: {error}") from error


def from_kubeconfig(name: str, path: Path) -> Member:
    """Return the member of the current context of a kubeconfig. Raises JoinError."""
    try:
        config = yaml.safe_load(path.read_text())
        context = _named(config, "contexts", config["current-context"])["context"]
        cluster = _named(config, "clusters", context["cluster"])["cluster"]
        user = _named(config, "users", context["user"])["user"]
        return Member(
            name,
            cluster["server"],
            _token(user),
            _inline(cluster, "certificate-authority", path.parent),
            bool(cluster.get("insecure-skip-tls-verify", False)),
        )
    except yaml.YAMLError as error:  # its text quotes the line of the error, which may have the token
        raise JoinError(f"{path} is not valid YAML: {problem(error)}") from None
    except (OSError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise JoinError(f"{path}: no usable current context: {type(error).__name__} {error}") from error


def _named(config: dict[str, Any], part: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] | None = next((item for item in config[part] if item["name"] == name), None)
    if found is None:
        raise ValueError(f"{part} has no entry {name}")
    return found


def _token(user: dict[str, Any]) -> str:
    if "token" in user:
        return str(user["token"])
    if "tokenFile" in user:
        return Path(user["tokenFile"]).read_text().strip()
    raise ValueError("the user has no token; create a token (kubectl create token SERVICEACCOUNT) and put it there")


def _inline(cluster: dict[str, Any], name: str, folder: Path) -> str:
    if f"{name}-data" in cluster:
        return base64.b64decode(cluster[f"{name}-data"]).decode()
    return (folder / cluster[name]).read_text() if name in cluster else ""


def join(store: DjangoStore, members: list[Member], settings: Settings) -> list[str]:
    """Create or update Secrets and Cluster of each member; return the names of those that changed.

    Secrets and Cluster of a member are stored together or not at all. Raises errors.Invalid if an object is refused,
    and JoinError if a cluster is being deleted or joined with mode Pull, or if other writes keep changing the same
    objects.
    """
    changed: list[str] = []
    waiting = members
    for _ in range(ATTEMPTS):
        writer = _writer(store, settings)
        refs = [ref for item in waiting for ref in (_secret_ref(item), _impersonator_ref(item), _cluster_ref(item))]
        held = store.get(refs, unopened=True)  # credentials whose key is lost are renewed like others
        groups = {
            member.name: [
                *_wanted_secret(writer, member, _secret_ref(member), held),
                *(_wanted_secret(writer, member, _impersonator_ref(member), held) if member.impersonator else ()),
                *_wanted_cluster(writer, member, held.get(_cluster_ref(member))),
            ]
            for member in waiting
        }
        groups = {name: changes for name, changes in groups.items() if changes}
        outcomes = dict(zip(groups, writer.apply(list(groups.values())), strict=True))
        changed += [name for name, outcome in outcomes.items() if not outcome.lost]
        waiting = [member for member in waiting if member.name in outcomes and outcomes[member.name].lost]
        if not waiting:
            return changed
    raise JoinError(f"other writes keep changing the objects of {waiting[0].name}: run the command again")


def join_pull(store: DjangoStore, name: str, settings: Settings) -> bool:
    """Create the Cluster of a member with sync mode Pull, whose agent connects to Lifeboat. False: it exists already.

    Raises errors.Invalid if the Cluster is refused, and JoinError if the member is joined with mode Push or is being
    deleted.
    """
    ref = Ref(kinds.CLUSTER, "", name)
    held: Cluster | None = store.get([ref]).get(ref)
    if held is not None:
        _check_stays(held, PULL)
        return False
    document = {**_CLUSTER, "metadata": {"name": name}, "spec": {"syncMode": PULL}}
    try:
        _writer(store, settings).create(KINDS[kinds.CLUSTER], document)
    except AlreadyExists:
        raise JoinError(f"another user joined {name} at the same time: join again") from None
    return True


def _check_stays(cluster: Cluster, mode: str) -> None:
    """Raise JoinError if a joined cluster is being deleted or has the other mode."""
    name = cluster.metadata.name
    if cluster.terminating:
        raise JoinError(
            f"cluster {name} is being deleted: wait until it is gone, then join it again (kubectl describe cluster "
            f"{name} shows what its deletion waits for)"
        )
    if cluster.spec.sync_mode != mode:
        raise JoinError(
            f"cluster {name} is joined with spec.syncMode {cluster.spec.sync_mode}: to change it, edit the Cluster "
            f"(kubectl edit cluster {name})"
        )


def create_missing(store: DjangoStore, text: str, settings: Settings) -> list[str]:
    """Create the objects of a YAML text that do not exist; return their names. Raises errors.Invalid, NotFound."""
    made: list[str] = []
    writer = Writer(store, settings, Author(USER, "Develop"))
    for document in yaml.safe_load_all(text):
        kind = KINDS[kind_key(document["apiVersion"], document["kind"])]
        metadata = document["metadata"]
        if store.get([kind.ref(metadata.get("namespace", ""), metadata["name"])]):
            continue
        try:
            made.append(writer.create(kind, document).stored.metadata.name)
        except AlreadyExists:
            continue  # created by another process meanwhile
    return made


def _secret_ref(member: Member) -> Ref:
    return Ref("Secret", CLUSTER_NAMESPACE, member.name)


def _impersonator_ref(member: Member) -> Ref:
    return Ref("Secret", CLUSTER_NAMESPACE, impersonation_secret_name(member.name))


def _cluster_ref(member: Member) -> Ref:
    return Ref(kinds.CLUSTER, "", member.name)


def _wanted_secret(writer: Writer, member: Member, ref: Ref, stored: Mapping[Ref, Any]) -> list[Change]:
    """Return the change that stores a Secret with credentials of a member; none if they are stored already."""
    held, is_own = stored.get(ref), ref == _secret_ref(member)
    token, authority = (member.token, member.authority) if is_own else (member.impersonator, "")
    data = {
        name: base64.b64encode(text.encode()).decode()
        for name, text in (("token", token), ("caBundle", authority))
        if text
    }
    if held is None:
        doc = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": ref.name,
                "namespace": ref.namespace,
                "annotations": {CREDENTIALS_ANNOTATION: member.name},
            },
            "type": "Opaque",
            "data": data,
        }
        return [_created(writer, doc)]
    return _changed(writer, held.with_content({**held.content, "data": data}), held)


def _wanted_cluster(writer: Writer, member: Member, held: Cluster | None) -> list[Change]:
    """Return the change that stores the Cluster of a member; none if it is stored already."""
    secret, impersonator = _secret_ref(member), _impersonator_ref(member)
    if held is None:
        spec: dict[str, Any] = {
            "syncMode": PUSH,
            "apiEndpoint": member.url,
            "secretRef": {"namespace": secret.namespace, "name": secret.name},
            "insecureSkipTLSVerification": member.insecure,
        }
        if member.impersonator:
            spec["impersonatorSecretRef"] = {"namespace": impersonator.namespace, "name": impersonator.name}
        return [_created(writer, {**_CLUSTER, "metadata": {"name": member.name}, "spec": spec})]
    _check_stays(held, PUSH)
    changed = held.with_spec(
        api_endpoint=member.url,
        secret_ref=SecretReference(secret.namespace, secret.name),
        insecure_skip_tls_verification=member.insecure,
    )
    if member.impersonator:
        reference = SecretReference(impersonator.namespace, impersonator.name)
        changed = changed.with_spec(impersonator_secret_ref=reference)
    return _changed(writer, changed, held)


def _created(writer: Writer, document: dict[str, Any]) -> Change:
    admitted = writer.admit_new(KINDS[kind_key(document["apiVersion"], document["kind"])], document)
    return Change(Put(admitted.object, None), admitted.warnings)


def _changed(writer: Writer, new: Object, held: Object) -> list[Change]:
    if new is held:
        return []
    admitted = writer.admit_change(KINDS[held.ref.kind], document_of(new), held)
    return [Change(Put(admitted.object, held), admitted.warnings)]


def _writer(store: DjangoStore, settings: Settings) -> Writer:
    return Writer(store, settings, Author(USER, "Join"))
