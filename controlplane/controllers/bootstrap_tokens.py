"""Bootstrap tokens: removes those that have expired, and signs the ConfigMap cluster-info by the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, ClassVar, Final

from controlplane.apimachinery.meta import Ref, Struct
from controlplane.apimachinery.names import KUBE_PUBLIC_NAMESPACE, KUBE_SYSTEM_NAMESPACE
from controlplane.apimachinery.unopened import holds_unopened
from controlplane.authentication import bootstrap_tokens
from controlplane.engine.controller import Controller, Ownership
from controlplane.engine.decision import Decision, Put, deleting
from controlplane.engine.state import State, Watch
from controlplane.kinds import SECRET
from controlplane.kinds.template import CONFIG_MAP, Template
from controlplane.settings import Settings

CLUSTER_INFO: Final = Ref(CONFIG_MAP, KUBE_PUBLIC_NAMESPACE, "cluster-info")
_BEFORE_TOKENS: Final = (KUBE_SYSTEM_NAMESPACE, bootstrap_tokens.NAME_PREFIX)


class BootstrapTokensSnapshot(Struct, frozen=True):
    """The ConfigMap cluster-info (None: there is none), and the Secrets of bootstrap tokens."""

    cluster_info: Template | None
    secrets: tuple[Template, ...]

    @property
    def subject(self) -> Template | None:
        return self.cluster_info


def _secret_changed(old: Template | None, new: Template | None) -> Iterator[Ref]:
    if any(secret is not None and bootstrap_tokens.is_token_secret(secret) for secret in (old, new)):
        yield CLUSTER_INFO


def _info_changed(old: Template | None, new: Template | None) -> Iterator[Ref]:
    present = new or old
    if present is not None and present.ref == CLUSTER_INFO:
        yield CLUSTER_INFO


class BootstrapTokens(Controller):
    """Key: the ConfigMap kube-public/cluster-info, which all tokens sign. Deletes Secrets of expired tokens."""

    name: ClassVar[str] = "bootstrap_tokens"
    group: ClassVar[str] = "propagation"
    keys: ClassVar[tuple[str, ...]] = (CONFIG_MAP,)
    watches: ClassVar[tuple[Watch, ...]] = (Watch(SECRET, _secret_changed), Watch(CONFIG_MAP, _info_changed))
    due_at_start: ClassVar[tuple[Ref, ...]] = (CLUSTER_INFO,)
    owns: ClassVar[Ownership] = Ownership({CONFIG_MAP: ("content",), SECRET: ("delete",)})

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[BootstrapTokensSnapshot | None]:
        found = state.get([CLUSTER_INFO]).get(CLUSTER_INFO)
        stored = state.list(SECRET, namespace=KUBE_SYSTEM_NAMESPACE, after=_BEFORE_TOKENS, unopened=True)
        # A token whose encryption key is lost stays: it may be valid, and signs nothing until it can be read.
        readable = (secret for secret in stored if not holds_unopened(secret.content))
        tokens = tuple(secret for secret in readable if bootstrap_tokens.is_token_secret(secret))
        return [BootstrapTokensSnapshot(found, tokens) if ref == CLUSTER_INFO else None for ref in refs]

    def decide(
        self, snapshot: BootstrapTokensSnapshot, settings: Settings, *, now: datetime, answer: Any = None
    ) -> Decision:
        changes: list[Any] = []
        valid: list[bootstrap_tokens.BootstrapToken] = []
        for secret in snapshot.secrets:
            try:
                token = bootstrap_tokens.read(secret)
            except ValueError:
                changes.append(deleting(secret, now=now))
                continue
            if token is not None and token.is_expired(now):
                changes.append(deleting(secret, now=now))
            elif token is not None and secret.metadata.deletion_timestamp is None:
                valid.append(token)
        if snapshot.cluster_info is not None:
            changes += _signing(snapshot.cluster_info, valid)
        ends = [token.expires for token in valid if token.expires is not None]
        return Decision(changes=tuple(changes), reason="BootstrapTokens", wake_at=min(ends, default=None))


def _signing(cluster_info: Template, tokens: Sequence[bootstrap_tokens.BootstrapToken]) -> list[Put]:
    """Return the change of cluster-info that the tokens need; []: it has their signatures already."""
    data = cluster_info.content.get("data") or {}
    wanted = bootstrap_tokens.signed(data, (token for token in tokens if token.signs))
    if wanted == data:
        return []
    return [Put(cluster_info.with_content({**cluster_info.content, "data": wanted}), cluster_info)]
