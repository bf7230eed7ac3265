"""CertificateSigningRequests: approves those of new agents, signs what was approved, removes old ones [agent-roles]."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final

from cryptography import x509
from msgspec.structs import replace

from controlplane.apimachinery.meta import Ref, Struct, condition
from controlplane.apimachinery.names import KUBE_SYSTEM_NAMESPACE
from controlplane.authentication import signing_requests
from controlplane.authorization.attributes import Caller, Request
from controlplane.authorization.policy import KINDS, Policy
from controlplane.controllers.reads.fleet_state import FLEET
from controlplane.engine.controller import Controller, Inquiry, Ownership, cursor_after, page
from controlplane.engine.decision import NOTHING, Decision, Put, deleting
from controlplane.engine.state import State, Watch
from controlplane.kinds import CLUSTER, SECRET
from controlplane.kinds.cluster import ESTABLISHED, PULL, Cluster
from controlplane.kinds.template import Template, secret_data, signing_request
from controlplane.kinds.template.signing_request import APPROVED, FAILED
from controlplane.settings import Settings

AUTHORITY: Final = Ref(SECRET, KUBE_SYSTEM_NAMESPACE, "lifeboat-client-authority")
"""The Secret with the certificate and private key of the authority that signs logins: tls.crt and tls.key."""
WITHOUT_AUTHORITY: Final = timedelta(seconds=60)


class SigningRequestSnapshot(Struct, frozen=True):
    """A request, the authority (None: there is none), and whether roles and clusters allow to approve it at once.

    `place`: the position of its certificate in the answer; -1: it gets none.
    """

    subject: Template
    authority: Template | None
    is_approved_by_roles: bool = False
    place: int = -1


def _changed(old: Template | None, new: Template | None) -> Iterator[Ref]:
    if new is not None:
        yield new.ref


def _authority_changed(old: Template | None, new: Template | None) -> Iterator[Ref]:
    present = new or old
    if present is not None and present.ref == AUTHORITY:
        yield FLEET


class SigningRequests(Controller):
    """Key: a CertificateSigningRequest. Writes its status, and deletes it when it is old.

    Each decision takes one step and is due again at once for the next step: approved, then signed, then removed later.
    """

    name: ClassVar[str] = "signing_requests"
    group: ClassVar[str] = "propagation"
    keys: ClassVar[tuple[str, ...]] = (signing_request.KEY,)
    watches: ClassVar[tuple[Watch, ...]] = (
        Watch(signing_request.KEY, _changed),
        Watch(SECRET, _authority_changed, fan_out=True),
    )
    due_at_start: ClassVar[tuple[Ref, ...]] = (FLEET,)
    owns: ClassVar[Ownership] = Ownership({signing_request.KEY: ("status", "delete")})

    def expand(self, state: State, origin: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
        found = state.list(signing_request.KEY, after=cursor_after(after), limit=limit)
        return page([request.ref for request in found], limit=limit)

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[SigningRequestSnapshot | None]:
        found = state.get([*refs, AUTHORITY])
        waiting = {ref: found[ref] for ref in refs if _waits(found.get(ref))}
        asked = {ref: (csr, agent) for ref, csr in waiting.items() if (agent := signing_requests.agent_of(csr))}
        allowed = _allowed(state, asked) if asked else frozenset()
        return [
            SigningRequestSnapshot(found[ref], found.get(AUTHORITY), ref in allowed) if ref in found else None
            for ref in refs
        ]

    def ask(self, snapshots: Sequence[SigningRequestSnapshot], settings: Settings, *, now: datetime) -> Inquiry:
        """Ask for the certificates of the requests that are to be signed."""
        placed: list[SigningRequestSnapshot] = []
        requests: list[signing_requests.ToSign] = []
        authority = next((snapshot.authority for snapshot in snapshots if snapshot.authority is not None), None)
        for snapshot in snapshots:
            csr = snapshot.subject
            signs = authority is not None and signing_requests.is_to_sign(csr) and not signing_requests.refusal(csr)
            if signs and not _is_over(snapshot, now):
                placed.append(replace(snapshot, place=len(requests)))
                requests.append(signing_requests.to_sign(csr))
            else:
                placed.append(snapshot)
        if authority is None or not requests:
            return Inquiry(placed)
        pair = (secret_data.text(authority, "tls.crt"), secret_data.text(authority, "tls.key"))
        return Inquiry(placed, signing_requests.Sign(*pair, tuple(requests)))

    def decide(
        self, snapshot: SigningRequestSnapshot, settings: Settings, *, now: datetime, answer: Any = None
    ) -> Decision:
        csr = snapshot.subject
        if csr.metadata.deletion_timestamp is not None:
            return NOTHING
        if _is_over(snapshot, now):
            return Decision(changes=(deleting(csr, now=now),), reason="SigningRequestOld")
        if snapshot.is_approved_by_roles:
            message = "Auto approving the certificate of an agent, because roles allow it to the requester."
            return _with_conditions(csr, APPROVED, "AutoApproved", message, now=now)
        removed_at = signing_requests.removed_at(csr, expires=_expiry(csr))
        if not signing_requests.is_to_sign(csr):
            return Decision(wake_at=removed_at)
        if why := signing_requests.refusal(csr):
            return _with_conditions(csr, FAILED, "SignerValidationFailure", why, now=now)
        if snapshot.place < 0:
            return Decision(wake_at=now + WITHOUT_AUTHORITY)
        certificate = secret_data.encoded(answer[snapshot.place])
        signed = replace(csr, status={**csr.status, "certificate": certificate})
        return Decision(changes=(Put(signed, csr),), reason="CertificateSigned", wake_at=now)


def _waits(csr: Template | None) -> bool:
    return csr is not None and csr.metadata.deletion_timestamp is None and signing_requests.is_undecided(csr)


def _allowed(state: State, asked: dict[Ref, tuple[Template, str]]) -> frozenset[Ref]:
    """Return the requests that roles allow to be approved by themselves.

    An agent may renew its own certificate. The holder of a bootstrap token may ask for a certificate in two cases: for
    Karmada's agent, if the cluster has not joined yet; for Lifeboat's agent, if its Pull cluster never had an agent.
    """
    policy = Policy({kind: [item.document() for item in state.list(kind)] for kind in KINDS})
    names = {agent: signing_requests.cluster_of(agent) for _, agent in asked.values()}
    joined = state.get({Ref(CLUSTER, "", name) for name in names.values()})
    allowed = set()
    for ref, (csr, agent) in asked.items():
        spec = csr.spec
        is_own = spec.get("username") == agent
        if not is_own and not _is_new(agent, joined.get(Ref(CLUSTER, "", names[agent]))):
            continue
        extra = {key: tuple(values) for key, values in (spec.get("extra") or {}).items()}
        requester = Caller(
            str(spec.get("username", "")), tuple(spec.get("groups") or ()), str(spec.get("uid", "")), extra
        )
        subresource = "selfclusteragent" if is_own else "clusteragent"
        request = Request("create", signing_requests.GROUP, signing_requests.PLURAL, subresource)
        if policy.authorize(requester, request).allowed:
            allowed.add(ref)
    return frozenset(allowed)


def _is_new(agent: str, cluster: Cluster | None) -> bool:
    """Test whether a cluster waits for its first agent. `cluster` None: it has not joined."""
    if not agent.startswith(signing_requests.OWN_AGENT_PREFIX):
        return cluster is None
    if cluster is None or cluster.spec.sync_mode != PULL or cluster.terminating:
        return False
    return condition(cluster.status.conditions, ESTABLISHED) is None


def _is_over(snapshot: SigningRequestSnapshot, now: datetime) -> bool:
    removed_at = signing_requests.removed_at(snapshot.subject, expires=_expiry(snapshot.subject))
    return removed_at is not None and removed_at <= now


def _expiry(csr: Template) -> datetime | None:
    """Return when the certificate of a request expires; None: it has none that can be read."""
    try:
        pem = secret_data.decoded(csr.status.get("certificate"))
        return x509.load_pem_x509_certificate(pem.encode()).not_valid_after_utc if pem else None
    except ValueError:
        return None


def _with_conditions(csr: Template, type_: str, reason: str, message: str, *, now: datetime) -> Decision:
    conditions = signing_requests.conditions_with(csr, type_, reason, message, now=now)
    decided = replace(csr, status={**csr.status, "conditions": conditions})
    return Decision(changes=(Put(decided, csr),), reason=reason, wake_at=now)
