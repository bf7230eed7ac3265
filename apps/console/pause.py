"""Pause and Resume: an EvictionHold over the whole fleet is created, or deleted."""

from __future__ import annotations

from typing import Any, Final

from rest_framework.request import Request

from apps.api import fleet_status
from apps.api.authorization import Attributes
from apps.console.guard import Act, ActPage, Already, Effects
from apps.objects.store import store
from controlplane.apimachinery.errors import AlreadyExists, BadRequest, NotFound
from controlplane.apimachinery.meta import Ref
from controlplane.insight.situation import pauses_fleet
from controlplane.kinds import EVICTION_HOLD, KINDS
from controlplane.kinds.eviction_hold import EvictionHold
from controlplane.kinds.rows import ON_HOLD

RESOURCE: Final = KINDS[EVICTION_HOLD].resource
NAME: Final = "pause"  # as the command `lifeboat pause` names it
NO_LIMIT: Final = 10**9  # a pause moves nothing: it needs no typed name, however many evictions wait


class PausePage(ActPage):
    """Holds all evictions of the fleet."""

    def asked(self, request: Request) -> Attributes:
        return Attributes(request.user, "create", RESOURCE.group, RESOURCE.plural)

    def act(self, request: Request, values: dict[str, Any]) -> Act:
        user = request.user.get_username()

        def effects() -> Effects:
            held, reason = _pause_without_end(), request._request.POST.get("reason", "").strip()
            if held is None or (held.spec.who, held.spec.reason) == (user, reason):  # this form is sent twice
                return _effects_of_pause()
            who = held.spec.who or f"EvictionHold {held.metadata.name}"
            return Effects(
                "Nothing would change.", refused=f"{who} has paused all evictions already: {held.spec.reason}"
            )

        def apply(reason: str) -> str:
            document = {
                "apiVersion": RESOURCE.api_version,
                "kind": RESOURCE.kind,
                "metadata": {"name": NAME},
                "spec": {"reason": reason, "who": user},
            }
            writer = self.writer(request, reason, act="Pause")
            try:
                writer.create(KINDS[EVICTION_HOLD], document)
            except AlreadyExists:
                held = _pause_without_end()
                if held is None:  # a hold of this name has expired, ends by itself, or holds a part of the fleet
                    self.created_once(
                        writer, KINDS[EVICTION_HOLD], {**document, "metadata": {"generateName": f"{NAME}-"}}
                    )
                elif (held.spec.who, held.spec.reason) != (user, reason):  # else this form was sent twice
                    raise
            return "/"

        return Act(
            name="Pause all evictions",
            subject="pause",
            effects=effects,
            apply=apply,
            kubectl="kubectl lifeboat pause",
            threshold=NO_LIMIT,
            explanation="Failures are still detected, and clusters still get taints. Copies that are moving already "
            "finish their move. Resume lets the queue go on from its first item.",
            is_destructive=False,
        )


def _pause_without_end() -> EvictionHold | None:
    """Return a hold over the whole fleet that lasts until it is deleted, the oldest; None: there is none."""
    reading = store()
    now, holds = reading.now(), reading.list(EVICTION_HOLD)
    found = [one for one in holds if pauses_fleet(one) and one.spec.expires_at is None and one.open(now=now)]
    return min(found, key=lambda one: (one.metadata.creation_timestamp or now, one.metadata.name), default=None)


def _effects_of_pause() -> Effects:
    queue = fleet_status.read().status.queue
    if not queue.queued and not queue.held:
        return Effects("Nothing is queued now. Later evictions are held until you resume.")
    return Effects(
        f"Holds {queue.queued} queued evictions, and all later ones, until you resume.",
        queue.queued,
        (f"{queue.moving} copies that are moving finish their move.",) if queue.moving else (),
    )


class ResumePage(ActPage):
    """Ends a hold over the whole fleet."""

    def asked(self, request: Request) -> Attributes:
        return Attributes(request.user, "delete", RESOURCE.group, RESOURCE.plural, name=self.kwargs["name"])

    def basis(self) -> str:
        return self._hold().metadata.uid  # every pause has the same name

    def already(self, values: dict[str, Any]) -> Already:
        return Already("Resume evictions", f"the pause {self.kwargs['name']} has ended already", self.back)

    def _hold(self) -> EvictionHold:
        """Return the hold of the URL. Raises NotFound."""
        ref = Ref(EVICTION_HOLD, "", self.kwargs["name"])
        found: EvictionHold | None = store().get([ref]).get(ref)
        if found is None:
            raise NotFound.of(RESOURCE.plural, ref.name, group=RESOURCE.group)
        return found

    def act(self, request: Request, values: dict[str, Any]) -> Act:
        hold = self._hold()
        ref = hold.ref
        if not pauses_fleet(hold):
            raise BadRequest(
                f"EvictionHold {ref.name} holds a part of the fleet; delete it with kubectl or in the admin"
            )

        def apply(reason: str) -> str:
            self.writer(request, reason, act="Resume").delete([ref])
            return "/"

        return Act(
            name="Resume evictions",
            subject="resume",
            effects=lambda: _effects_of_resume(hold),
            apply=apply,
            kubectl=f"kubectl lifeboat resume {ref.name}",
        )


def _effects_of_resume(hold: EvictionHold) -> Effects:
    status = fleet_status.read().status
    queue, name = status.queue, hold.metadata.name
    held = sum(one.evictions for one in queue.held_by if one.reason == ON_HOLD)
    waiting = held + queue.queued
    rate = f"at {queue.rate:g}/s" if queue.rate > 0 else f"once evictions run again ({queue.why})"
    lines = [f"Paused by {hold.spec.who or name}: {hold.spec.reason}"]
    if others := [one for one in status.pauses if one.name != name]:
        lines += (f"Still paused by {one.who or one.name}: {one.reason}" for one in others)
        return Effects("No eviction goes on, because the fleet is paused by other holds as well.", lines=tuple(lines))
    if queue.rate > 0 and waiting:
        lines.append(f"The last of them leaves after about {max(1, round(waiting / queue.rate))} s.")
    sentence = (
        f"{waiting} evictions go on {rate}." if waiting else "Nothing waits now. Later evictions take place again."
    )
    return Effects(sentence, waiting, tuple(lines))
