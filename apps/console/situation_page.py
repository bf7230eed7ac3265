"""GET /: Situation, the first page of the console: what fails, what is queued, when it is done, and how to stop it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, ClassVar, NamedTuple

from rest_framework.request import Request

from apps.api import fleet_status as figures
from apps.api.authorization import Attributes
from apps.api.discovery import RootView
from apps.api.health import HEALTH
from apps.api.permissions import Scope, resource_attributes
from apps.console import development
from apps.console.changes import latest_changes
from apps.console.first_steps import first_steps
from apps.console.page import Page
from apps.console.shared import SharedPart
from apps.console.troubles import troubles
from controlplane.kinds import CLUSTER, EVENT, EVICTION_HOLD, FAILOVER_CONFIGURATION, KINDS, MAINTENANCE_WINDOW
from controlplane.kinds.configuration import NAME as CONFIGURATION
from controlplane.kinds.drill import DRILL
from controlplane.kinds.fleet_status import NAME, RESOURCE, Attention, FleetStatusStatus, MemberStatus, QueueStatus

NEEDS = 20  # things to do that are listed, the worst first
TILES = 40  # a larger fleet is a strip for each region and provider


class Rights(NamedTuple):
    """What the reader may do from this page, as the API would allow it."""

    pause: bool
    resume: bool
    change_clusters: bool
    steer: bool  # the gate and the rates


class SituationPart:
    """The live part of the page, the same for all readers with equal rights."""

    name = "situation"

    def __init__(self, rights: Rights) -> None:
        self.rights = rights

    @property
    def key(self) -> Hashable:
        return self.name, self.rights

    def variables(self) -> dict[str, Any]:
        status = figures.read().status
        down = troubles(HEALTH.report())
        changes = latest_changes()
        steps = first_steps(status)
        needs = [one for one in status.attention if one.what != "Paused"]
        simulated = development.members() if self.rights.change_clusters else {}
        shown = {
            "status": status,
            "now": status.as_of,
            "queue": status.queue,
            "sections": sections(status.queue),
            "active": is_active(status.queue),
            "needs": [(one, remedy_link(one, self.rights)) for one in needs[:NEEDS]],
            "all_needs": len(needs),
            "tiles": status.members if len(status.members) <= TILES else [],
            "strips": strips(status) if len(status.members) > TILES else [],
            "worst": [one for one in status.members if one.severity == "Bad"][:12]
            if len(status.members) > TILES
            else [],
            "changes": changes,
            "troubles": down,
            "rights": self.rights,
            "may_pause": bool(status.clusters) and all(one.until is not None for one in status.pauses),
            "steps": steps,
            "simulated": [one for one in status.members if one.name in simulated],
        }
        stable = _without_age(status)
        return {**shown, "fingerprint": (stable, down, changes, steps, tuple(simulated))}


class SituationPage(Page):
    """The state of the fleet on one page.

    Clients that are no browsers get the paths of the API at this URL, as from any Kubernetes API server.
    """

    title = "Situation"
    template_name = "console/situation.html"
    topics: ClassVar = {
        "situation": (
            *(CLUSTER, EVENT, EVICTION_HOLD, MAINTENANCE_WINDOW, FAILOVER_CONFIGURATION, DRILL),
            *("Eviction", "FleetState", "ReadinessRound"),
            *("work.karmada.io/ResourceBinding", "work.karmada.io/ClusterResourceBinding"),
        )
    }

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        if not wants_page(request):
            return RootView.as_view()(request)
        return super().dispatch(request, *args, **kwargs)

    def attributes(self, request: Request) -> Attributes:
        return resource_attributes(request, RESOURCE, Scope(name=NAME))

    def kubectl(self) -> str:
        return f"kubectl get fleetstatus {NAME} -o yaml"

    def shared_part(self, request: Request) -> SharedPart:
        return SituationPart(self._rights(request))

    def context(self, request: Request) -> dict[str, Any]:
        return SituationPart(self._rights(request)).variables()

    def _rights(self, request: Request) -> Rights:
        hold, cluster, settings = (KINDS[kind].resource for kind in (EVICTION_HOLD, CLUSTER, FAILOVER_CONFIGURATION))
        return Rights(
            pause=self.may(request, "create", hold),
            resume=self.may(request, "delete", hold),
            change_clusters=self.may(request, "patch", cluster),
            steer=self.may(request, "patch", settings, name=CONFIGURATION),
        )


def wants_page(request: Any) -> bool:
    """Test whether the client is a browser: it accepts HTML, sends no token and asks for no other format."""
    if "format" in request.GET or "Authorization" in request.headers:
        return False
    return "text/html" in request.headers.get("Accept", "") or "HX-Request" in request.headers


def sections(queue: QueueStatus) -> list[tuple[str, int, str]]:
    """Return the sections of the bar of the queue: class, number, word. Stuck copies are not counted as moving."""
    return [
        ("moved", queue.moved, "moved"),
        ("moving", queue.moving - queue.stuck, "moving"),
        ("stuck", queue.stuck, "stuck"),
        ("queued", queue.queued, "queued"),
        ("off", queue.recovering, "recovering"),
        ("held", queue.held, "held"),
    ]


def is_active(queue: QueueStatus) -> bool:
    """Test whether anything is in the queue, or has moved because of a cluster that is not Ready now."""
    return any(number for _, number, _ in sections(queue))


class Strip(NamedTuple):
    """The clusters of a region and a provider."""

    region: str
    provider: str
    members: list[MemberStatus]
    ready: int


def strips(status: FleetStatusStatus) -> list[Strip]:
    """Return the clusters by region and provider, those with a cluster in trouble first."""
    found: dict[tuple[str, str], list[MemberStatus]] = {}
    for one in status.members:  # the worst first, and so are the strips
        found.setdefault((one.region or "no region", one.provider or "no provider"), []).append(one)
    return [
        Strip(region, provider, members, sum(one.state == "Ready" for one in members))
        for (region, provider), members in found.items()
    ]


class RemedyLink(NamedTuple):
    """A button of a thing to do."""

    url: str
    text: str


def remedy_link(one: Attention, rights: Rights) -> RemedyLink | None:
    """Return the link for a thing to do; None: there is no page for it.

    A reader who may not fence a cluster gets a link to the page of the cluster instead, and one who may not switch the
    gate the queue.
    """
    page = f"/clusters/{one.cluster}"
    match one.what:
        case "DirectlyWaiting":
            return RemedyLink(f"{page}/fence", "Fence …") if rights.change_clusters else RemedyLink(page, "Look")
        case "Held":
            return RemedyLink("/queue?state=Held", "Held evictions")
        case "Stuck":
            return RemedyLink("/records", "Failovers")
        case "Stopped" | "Blind":
            return RemedyLink("/clusters", "Clusters")
        case "GateOff":
            return RemedyLink("/queue/gate/on", "Switch on …") if rights.steer else RemedyLink("/queue", "Queue")
        case "AccessLost" | "CredentialExpires":
            return RemedyLink(f"{page}#facts", "Credentials")
    return RemedyLink(page, "Look") if one.cluster else None


def _without_age(status: FleetStatusStatus) -> tuple[Any, ...]:
    """Return what a reader sees of a status, without the time at which it was computed.

    The end of a queue moves with every second in which nothing is evicted, and so do ages in the sentence while
    clusters are down. Both count in steps of 10 s.
    """
    ends, now = status.queue.ends_at, status.as_of
    counts = int(now.timestamp()) // 10 if status.severity == "Bad" and now is not None else None
    queue = tuple(getattr(status.queue, name) for name in status.queue.__struct_fields__ if name != "ends_at")
    return (
        *(status.members, status.attention, status.pauses, status.readiness, status.last_drill, status.severity, queue),
        None if ends is None else int(ends.timestamp()) // 10,
        counts,
    )
