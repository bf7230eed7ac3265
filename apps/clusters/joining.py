"""Joining a member: a Secret with its credentials and a Cluster that names it, written like any other object."""

from __future__ import annotations

import base64
import json
import uuid
from pathlib import Path
from typing import Any

import msgspec
import yaml

from apps.objects.store import DjangoStore
from controlplane import kinds
from controlplane.admission.admit import admit_create
from controlplane.apimachinery.meta import Object, Ref, kind_key
from controlplane.apimachinery.names import CLUSTER_NAMESPACE, CREDENTIALS_ANNOTATION
from controlplane.engine.decision import Decision, Put
from controlplane.engine.state import Actor
from controlplane.kinds import KINDS
from controlplane.kinds.cluster import PULL, PUSH, Cluster, SecretReference
from controlplane.settings import Settings

ACTOR = Actor("join")
_CLUSTER = {"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster"}


class JoinError(Exception):
    """A member cannot be joined; the message says why and what to do."""


class Member(msgspec.Struct, frozen=True):
    """What is needed to reach a member. The token is a secret."""

    name: str
    url: str
    token: str = ""
    authority: str = ""  # PEM
    insecure: bool = False

    def __repr__(self) -> str:
        return f"Member({self.name} at {self.url})"


def from_list(path: Path) -> list[Member]:
    """Return the members of a members.json, as `python -m apps.simulator serve` leaves it. Raises JoinError."""
    try:
        known = json.loads(path.read_text())
        authority = known.get("certificateAuthority", "")
        return [Member(one["name"], one["url"], one["token"], authority) for one in known["members"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise JoinError(f"{path}: not a list of members: {error}") from error


def from_kubeconfig(name: str, path: Path) -> Member:
    """Return the member a kubeconfig's current context leads to. Raises JoinError."""
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
    except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise JoinError(f"{path}: no usable current context: {type(error).__name__} {error}") from error


def _named(config: dict[str, Any], part: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in config[part] if one["name"] == name)
    return found


def _token(user: dict[str, Any]) -> str:
    if "token" in user:
        return str(user["token"])
    if "tokenFile" in user:
        return Path(user["tokenFile"]).read_text().strip()
    raise ValueError("the user has no token; make a service account's token for Lifeboat and put it there")


def _inline(cluster: dict[str, Any], name: str, folder: Path) -> str:
    if f"{name}-data" in cluster:
        return base64.b64decode(cluster[f"{name}-data"]).decode()
    return (folder / cluster[name]).read_text() if name in cluster else ""


def join(store: DjangoStore, members: list[Member], settings: Settings) -> list[str]:
    """Create or update Secret and Cluster of each member; return the names of those that changed.

    Raises errors.Invalid for what cannot be, JoinError where somebody changed the same objects meanwhile or where a
    cluster is being deleted.
    """
    held = store.get([ref for one in members for ref in (_secret_ref(one), _cluster_ref(one))])
    changed: list[str] = []
    decisions: list[tuple[None, Decision]] = []
    for member in members:
        puts = (
            _wanted_secret(store, member, held.get(_secret_ref(member)), settings),
            _wanted_cluster(store, member, held.get(_cluster_ref(member)), settings),
        )
        if changes := tuple(one for one in puts if one is not None):
            decisions.append((None, Decision(changes=changes, reason="Join")))
            changed.append(member.name)
    lost = [outcome.lost for outcome in store.apply(decisions, by=ACTOR) if outcome.lost]
    if lost:
        raise JoinError(f"somebody changed the same objects meanwhile ({lost[0]}): join again")
    return changed


def join_pull(store: DjangoStore, name: str, settings: Settings) -> bool:
    """Make the Cluster of a member whose own agent reaches us; False where it is joined that way already.

    Raises errors.Invalid for what cannot be, JoinError where it is joined another way or is being deleted.
    """
    ref = Ref(kinds.CLUSTER, "", name)
    held: Cluster | None = store.get([ref]).get(ref)
    if held is not None:
        _check_stays(held)
        if held.spec.sync_mode != PULL:
            raise JoinError(f"{name} is joined as {held.spec.sync_mode}: edit spec.syncMode to change who reaches whom")
        return False
    new = _admitted(store, {**_CLUSTER, "metadata": {"name": name}, "spec": {"syncMode": PULL}}, settings)
    outcome = store.apply([(None, Decision(changes=(Put(new, None),), reason="Join"))], by=ACTOR)[0]
    if outcome.lost:
        raise JoinError(f"somebody joined {name} meanwhile: join again")
    return True


def _check_stays(cluster: Cluster) -> None:
    if cluster.terminating:
        name = cluster.metadata.name
        raise JoinError(
            f"{name} is being deleted: wait until it is gone (kubectl describe cluster {name} says on what)"
        )


def create_missing(store: DjangoStore, text: str, settings: Settings) -> list[str]:
    """Create the objects of a YAML text that do not exist; return their names. Raises errors.Invalid."""
    made: list[str] = []
    for doc in yaml.safe_load_all(text):
        new = _admitted(store, doc, settings)
        if new.ref not in store.get([new.ref]):
            outcome = store.apply([(None, Decision(changes=(Put(new, None),), reason="Develop"))], by=ACTOR)[0]
            made += [] if outcome.lost else [new.metadata.name]
    return made


def _secret_ref(member: Member) -> Ref:
    return Ref("Secret", CLUSTER_NAMESPACE, member.name)


def _cluster_ref(member: Member) -> Ref:
    return Ref(kinds.CLUSTER, "", member.name)


def _wanted_secret(store: DjangoStore, member: Member, held: Any, settings: Settings) -> Put | None:
    data = {
        name: base64.b64encode(text.encode()).decode()
        for name, text in (("token", member.token), ("caBundle", member.authority))
        if text
    }
    if held is None:
        doc = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": member.name,
                "namespace": CLUSTER_NAMESPACE,
                "annotations": {CREDENTIALS_ANNOTATION: member.name},
            },
            "type": "Opaque",
            "data": data,
        }
        return Put(_admitted(store, doc, settings), None)
    changed = held.with_content({**held.content, "data": data})
    return None if changed is held else Put(changed, held)


def _wanted_cluster(store: DjangoStore, member: Member, held: Cluster | None, settings: Settings) -> Put | None:
    secret = _secret_ref(member)
    if held is None:
        spec = {
            "syncMode": PUSH,
            "apiEndpoint": member.url,
            "secretRef": {"namespace": secret.namespace, "name": secret.name},
            "insecureSkipTLSVerification": member.insecure,
        }
        return Put(_admitted(store, {**_CLUSTER, "metadata": {"name": member.name}, "spec": spec}, settings), None)
    _check_stays(held)
    changed = held.with_spec(
        api_endpoint=member.url,
        secret_ref=SecretReference(secret.namespace, secret.name),
        insecure_skip_tls_verification=member.insecure,
    )
    return None if changed is held else Put(changed, held)


def _admitted(store: DjangoStore, doc: dict[str, Any], settings: Settings) -> Object:
    """Return the object as the API would store it."""
    kind = KINDS[kind_key(doc["apiVersion"], doc["kind"])]
    return admit_create(
        kind,
        doc,
        namespace=doc["metadata"].get("namespace", ""),
        settings=settings,
        now=store.now(),
        uid=str(uuid.uuid4()),
    ).object
