"""Attention: what needs an operator now, each with its remedy and a command that helps."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from controlplane.apimachinery.times import in_words
from controlplane.clusters import eviction_tier
from controlplane.kinds.fleet_status import BAD, WARN, Attention, MemberStatus, Pause, QueueStatus
from controlplane.kinds.rows import HELD_BY_HAND, MAINTENANCE, NO_REFUGE, ON_HOLD, STATE_MISSING, UNREADABLE, UNSTEADY

EXPIRES_WITHIN: Final = timedelta(days=14)  # credentials that expire sooner need an operator
# Applied and not edited, because the object does not exist before it is written first. With a field manager of its own,
# so that nothing else that was applied is removed.
_GATE_ON: Final = (
    '{"apiVersion": "failover.lifeboat.io/v1alpha1", "kind": "FailoverConfiguration", '
    '"metadata": {"name": "default"}, "spec": {"featureGates": {"Failover": true}}}'
)
_HELD_REMEDIES: Final = {
    NO_REFUGE: "add nodes, relax the policy, or join a cluster; held evictions are checked again by themselves",
    STATE_MISSING: "bring the cluster back, or set statePreservationOnMissing to Proceed",
    ON_HOLD: "delete the EvictionHold when evictions may go on",
    MAINTENANCE: "wait until the MaintenanceWindow is over, or end it",
    UNSTEADY: "repair what makes the cluster flap, or add a taint by hand to empty it all the same",
    HELD_BY_HAND: "release the evictions",
    UNREADABLE: "repair the bindings that manage.py verify names, or start the release that wrote them",
}


def needs(
    members: Sequence[MemberStatus],
    queue: QueueStatus,
    pauses: Sequence[Pause],
    *,
    waiting_directly: Mapping[str, int],
    unhealthy: int,
    expiries: Sequence[tuple[str, str, datetime]],
    gate_is_on: bool,
    pulled: Collection[str] = (),
    now: datetime,
) -> tuple[Attention, ...]:
    """Return what needs an operator, the worst first. What concerns the whole fleet comes before single clusters, of
    which there may be hundreds.

    `waiting_directly`: the number of Directly evictions by cluster that cannot be reached. `unhealthy`: the number of
    stuck copies whose replacement does not become healthy. `expiries`: cluster, "token" or "certificate", and when it
    expires. `pulled`: the clusters with an agent, which have no credentials here.
    """
    found = [
        *_of_fleet(queue, pauses, gate_is_on=gate_is_on),
        *_of_queue(queue, unhealthy, paused=bool(pauses)),
        *_of_members(members, waiting_directly, pulled),
        *_of_credentials(expiries, pulled, now=now),
    ]
    return tuple(sorted(found, key=lambda one: one.severity != BAD))


def _of_fleet(queue: QueueStatus, pauses: Sequence[Pause], *, gate_is_on: bool) -> Iterator[Attention]:
    if queue.tier == eviction_tier.BLIND:
        yield Attention(
            *("Blind", BAD, queue.why[:1].upper() + queue.why[1:] + "."),
            "check from another network whether the clusters are down; evictions go on once a cluster is Ready",
            "kubectl get clusters",
        )
    elif queue.tier == eviction_tier.STOPPED:
        yield Attention(
            *("Stopped", BAD, f"Nothing is evicted: {queue.why}."),
            "repair clusters, or raise unhealthyClusterThreshold in FailoverConfiguration/default",
            "kubectl get clusters",
        )
    elif queue.why.startswith(eviction_tier.NO_TOKENS):
        yield Attention(
            *("NoTokens", BAD, f"Nothing is evicted: {queue.why}."),
            "bring Redis back: each eviction needs a token from it (runbook LifeboatEvictionTokensUnavailable)",
            "kubectl get events -A --field-selector reason=EvictionTokensUnavailable",
        )
    elif queue.why.startswith(eviction_tier.NOT_OBSERVED):
        yield Attention(
            *("NotObserved", BAD, f"Nothing is evicted: {queue.why}."),
            "start the members process; evictions go on once the clusters that are still down have been heard",
            "kubectl get clusters",
        )
    if not gate_is_on:
        yield Attention(
            *("GateOff", WARN, "The feature gate Failover is off: no cluster failure evicts anything."),
            "switch the feature gate Failover on in FailoverConfiguration/default",
            f"kubectl apply --server-side --force-conflicts --field-manager=lifeboat-gate -f - <<< '{_GATE_ON}'",
        )
    for pause in pauses:
        yield Attention(
            *("Paused", WARN, f"All evictions are paused by {pause.who or pause.name}: {pause.reason}"),
            "resume when evictions may go on",
            f"lifeboat resume {pause.name}",
            since=pause.since,
        )


def _of_members(
    members: Sequence[MemberStatus], waiting_directly: Mapping[str, int], pulled: Collection[str]
) -> Iterator[Attention]:
    for one in members:
        about: dict[str, Any] = {"cluster": one.name, "since": one.since}
        describe = f"kubectl describe cluster {one.name}"
        if one.state == "AccessLost":
            message = f"{one.name} refuses access: {one.message or 'its credentials are not accepted'}"
            remedy, command = "renew the credentials in its Secret", renewal(one.name)
            if one.name in pulled:
                remedy, command = "see in the cluster which rights its agent lacks, or which token it has", describe
            yield Attention("AccessLost", BAD, message, remedy, command, **about)
        elif one.state == "Flapping":
            message = f"{one.name} flaps: {one.message}"
            yield Attention("Flapping", WARN, message, "repair the network or the API server", describe, **about)
        elif one.state == "Joining":
            message = f"{one.name} was never Ready{f': {one.message}' if one.message else ''}"
            remedy, command = "check its endpoint and credentials", describe
            if one.name in pulled:
                remedy, command = "register its agent, and start it", renewal(one.name, is_pulled=True)
            yield Attention("NeverReady", WARN, message, remedy, command, **about)
        if number := waiting_directly.get(one.name, 0):
            message = (
                f"{number} new {'copy waits' if number == 1 else 'copies wait'} for old copies on {one.name}, which "
                "may still run: the cluster "
                "cannot be reached"
            )
            remedy = "fence the cluster if you know that it is down"
            fence = f"lifeboat fence {one.name} --reason …"
            yield Attention("DirectlyWaiting", BAD, message, remedy, fence, **about)


def _of_queue(queue: QueueStatus, unhealthy: int, *, paused: bool) -> Iterator[Attention]:
    """Yield what the queue needs. What a pause holds is left out: the pause itself is listed, with its end."""
    if unhealthy:
        number = f"{unhealthy}{' or more' if queue.stuck_is_more else ''}"
        yield Attention(
            *("Stuck", BAD, f"{number} moving {_copies(unhealthy)} stuck: the replacement does not become healthy"),
            "look at the events of the new copies; their bindings have Stuck in the column EVICTION",
            "kubectl get resourcebindings -A",
        )
    for one in queue.held_by:
        if paused and one.reason == ON_HOLD:
            continue
        severity = BAD if one.reason in (NO_REFUGE, STATE_MISSING) else WARN
        yield Attention(
            *(
                "Held",
                severity,
                f"{one.evictions} {'eviction' if one.evictions == 1 else 'evictions'} held: {one.message}",
            ),
            _HELD_REMEDIES.get(one.reason, "read the message of each held eviction"),
            "lifeboat queue -o wide",
        )


def _of_credentials(
    expiries: Sequence[tuple[str, str, datetime]], pulled: Collection[str], *, now: datetime
) -> Iterator[Attention]:
    for cluster, what, at in sorted(expiries, key=lambda one: one[2]):
        if at - now > EXPIRES_WITHIN:
            continue
        expired = at <= now
        left = "has expired" if expired else f"expires in {in_words((at - now).total_seconds())}"
        message = f"The {what} for {cluster} {left}, at {at:%Y-%m-%d %H:%M} UTC"
        remedy, is_pulled = f"renew the {what} of the cluster", cluster in pulled
        if is_pulled:  # the use of it would renew it
            remedy = "see whether its agent runs, and register it again if it does not get in"
        command = renewal(cluster, is_pulled=is_pulled)
        yield Attention("CredentialExpires", BAD if expired else WARN, message, remedy, command, cluster, at)


def renewal(cluster: str, *, is_pulled: bool = False) -> str:
    """Return the command that gives a joined cluster other credentials, or registers its agent again."""
    return f"lifeboat join {cluster} {'--pull' if is_pulled else '--cluster-kubeconfig FILE'}"


def _copies(number: int) -> str:
    return "copy" if number == 1 else "copies"
