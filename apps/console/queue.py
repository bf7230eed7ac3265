"""GET /queue: the eviction queue, with positions, reasons, destinations and estimated times."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from shlex import quote
from typing import Any, ClassVar, Final, NamedTuple
from urllib.parse import urlencode

from rest_framework.request import Request

from apps.api import fleet_status
from apps.api.authorization import Attributes
from apps.api.eviction_metrics import pace_of
from apps.api.eviction_watches import Paced, item_of
from apps.api.kept_queues import KeptQueue, KeptQueues
from apps.console.object_links import binding_url
from apps.console.page import Page, namespaced_attributes, offset_of, within
from apps.failover.destinations import destinations
from apps.failover.queue import stopped_by, tier_of
from apps.failover.queue_page import (
    EVERYTHING,
    PAGE,
    WAITING,
    Item,
    QueueChoice,
    QueueCounts,
    QueuePage,
    page_of,
    read_counts,
    read_order,
    read_page,
)
from apps.objects.configuration import configuration
from apps.objects.store import store
from controlplane import kinds
from controlplane.apimachinery.meta import Ref
from controlplane.controllers.reads.readiness_state import situation_of
from controlplane.eviction.operator_orders import VERBS
from controlplane.insight.failure_outlook import Situation
from controlplane.kind import KINDS
from controlplane.kinds.eviction import EVICTION, Stopped, eviction_name
from controlplane.kinds.rows import ABANDONED, ENDED, EVICTED, HELD, QUEUED, RECOVERING
from controlplane.settings import Settings
from controlplane.wire.resource import Resource

RESOURCE: Final = KINDS[EVICTION].resource
STATES: Final = (WAITING, QUEUED, HELD, RECOVERING, EVICTED, ABANDONED, EVERYTHING)
BADGES: Final = {QUEUED: "info", HELD: "warn", RECOVERING: "ok", EVICTED: "ok", ABANDONED: "off"}
LARGE: Final = 5_000  # waiting evictions; to sort these takes 0.1 s
RECENT: Final = KeptQueues(seconds=5.0, renewed=False)
FILTERS: Final = ("cluster", "namespace", "state", "reason")


class QueueLine(NamedTuple):
    """An item of the queue as the page shows it. `destination` "": it is not computed for this item."""

    value: str  # names the item in orders
    name: str
    namespace: str
    kind: str
    url: str
    cluster: str
    state: str
    badge: str
    why: str
    position: int | None
    due_at: datetime | None
    at: datetime | None
    unknown: str
    destination: str
    has_refuge: bool


class QueueView(Page):
    """The eviction queue."""

    title = "Queue"
    template_name = "console/queue.html"
    topics: ClassVar = {"queue": ("Eviction", "FleetState", kinds.FAILOVER_CONFIGURATION, kinds.EVICTION_HOLD)}
    resource = RESOURCE

    def attributes(self, request: Request) -> Attributes:
        return namespaced_attributes(self, request, RESOURCE)

    def kubectl(self) -> str:
        choice = choice_of(self.query)
        where = f"-n {quote(choice.namespace)}" if choice.namespace else "-A"
        return f"kubectl get evictions {where}" + (
            f" --field-selector spec.cluster={quote(choice.cluster)}" if choice.cluster else ""
        )

    def context(self, request: Request) -> dict[str, Any]:
        choice, offset = choice_of(request.query_params), offset_of(request.query_params, PAGE)
        settings, counts = configuration().settings(reread=True), read_counts()
        situation = situation_of(store())
        fleet, tier, now = tier_of(situation, settings, now=store().now())
        pace = pace_of(tier.rate, settings, counts.clusters)
        stopped = stopped_by(tier)
        current, is_large = Paced(pace, stopped, now), counts.waiting >= LARGE
        page = _page(current, choice, offset, is_large=is_large)
        if not page.items and offset:  # the queue has become shorter since the link was shown
            offset = within(offset, page.in_all, PAGE)
            page = _page(current, choice, offset, is_large=is_large)
        return {
            "now": now,
            "counts": counts,
            "sections": sections(counts),
            "tier": tier,
            "fleet": fleet,
            "rate": f"{tier.rate:g}",
            "rates": (f"{settings.resource_eviction_rate:g}", f"{settings.secondary_resource_eviction_rate:g}"),
            "gate": settings.gate("Failover"),
            "queued": counts.states[QUEUED],
            "ends_at": page.ends_at,
            "lines": _lines(page, situation, settings, stopped),
            "in_all": page.in_all,
            "first": offset + 1 if page.items else 0,
            "last": offset + len(page.items),
            "choice": choice,
            "states": STATES,
            "clusters": sorted({*counts.clusters, choice.cluster} - {""}),
            "reasons": sorted({*counts.held, choice.reason} - {""}),
            "verbs": allowed_orders(self, request, RESOURCE, choice.namespace),
            "may_set": self.may(request, "patch", KINDS[kinds.FAILOVER_CONFIGURATION].resource, name="default"),
            "filtered": choice != QueueChoice(),
            # Read only for an empty queue, because it costs as much as the rest of the page.
            "still_moving": 0 if counts.waiting else fleet_status.read().status.queue.moving,
            "earlier": _page_link(choice, offset - PAGE) if offset else "",
            "later": _page_link(choice, offset + PAGE) if offset + len(page.items) < page.in_all else "",
        }


def _page(current: Paced, choice: QueueChoice, offset: int, *, is_large: bool) -> QueuePage:
    """Return a page of the queue. The items of a large queue are shown as they are now, in an order of the last seconds
    that all readers share: to sort it takes seconds, and each change of the queue renews the page of each reader."""
    if not is_large:
        return read_page(store(), current.pace, choice, offset=offset, now=current.now)
    kept = RECENT.find(
        (choice, current.pace.rate, current.pace.settings),
        lambda: KeptQueue(read_order(current.pace, choice, now=current.now), current),
    )
    page = page_of(store(), kept.order, offset=offset, limit=PAGE)
    if choice.state != WAITING:
        return page
    return page._replace(items=[item for item in page.items if item.row.state not in ENDED])


def allowed_orders(page: Page, request: Request, resource: Resource, namespace: str) -> tuple[str, ...]:
    """Return the orders about evictions that the user may give in a namespace; "": in all."""
    return tuple(
        verb for verb in VERBS.values() if page.may(request, "create", resource, namespace=namespace, sub=verb.lower())
    )


def choice_of(values: Mapping[str, Any]) -> QueueChoice:
    """Return what the parameters of a query choose. A state that does not exist chooses the waiting items."""
    found = {name: str(values.get(name) or "").strip() for name in FILTERS}
    return QueueChoice(**{**found, "state": found["state"] if found["state"] in STATES else WAITING})


def sections(counts: QueueCounts) -> list[tuple[str, int, str]]:
    """Return the sections of the bar of the queue: class, number, word."""
    states = counts.states
    return [
        ("moved", states[EVICTED], "evicted"),  # also those whose copies are still moving
        ("queued", states[QUEUED], "queued"),
        ("moving", states[RECOVERING], "recovering"),
        ("held", states[HELD], "held"),
        ("off", states[ABANDONED], "abandoned"),
    ]


def order_value(row: Any) -> str:
    """Return the name of an item in orders: namespace/name of its Eviction; the namespace is "" for cluster-scoped
    ones."""
    return f"{Ref.parse(row.binding).namespace}/{eviction_name(row)}"


def query_of(choice: QueueChoice, **more: str) -> str:
    """Return the query of a link to what is chosen; the parts of a choice that are the default are left out."""
    chosen = {name: value for name, value in choice._asdict().items() if value and value != WAITING}
    return urlencode({**chosen, **more})


def _page_link(choice: QueueChoice, offset: int) -> str:
    return f"?{query_of(choice, **({'offset': str(offset)} if offset > 0 else {}))}"


def _lines(page: QueuePage, situation: Situation, settings: Settings, stopped: Stopped | None) -> list[QueueLine]:
    waiting = [item.row for item in page.items if item.row.state in (QUEUED, HELD)]
    refuges = destinations(store(), waiting, situation, settings)
    return [_line(item, stopped, refuges.get(item.row.key)) for item in page.items]


def _line(item: Item, stopped: Stopped | None, refuge: Any) -> QueueLine:
    row, forecast, ref = item.row, item.forecast, Ref.parse(item.row.binding)
    shown = item_of(row, forecast, None, stopped).status
    return QueueLine(
        value=order_value(row),
        name=ref.name,
        namespace=ref.namespace,
        kind=row.resource_kind.rpartition("/")[2],
        url=binding_url(ref),
        cluster=row.cluster,
        state=HELD if row.held else row.state,
        badge=BADGES.get(HELD if row.held else row.state, "off"),
        why=": ".join(filter(None, (shown.reason, shown.message))),
        position=shown.position,
        due_at=row.ended_at if row.state in (EVICTED, ABANDONED) else row.due_at,
        at=forecast.at,
        unknown=forecast.unknown_because,
        destination="" if refuge is None else refuge.why,
        has_refuge=refuge is not None and refuge.found,
    )
