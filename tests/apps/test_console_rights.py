"""Every act behind the guard rail, with the right and without: who is offered it, who is refused it, and why."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from html import unescape
from typing import Any, NamedTuple

import pytest
from django.contrib.auth import get_user_model
from django.http import QueryDict
from django.test import Client
from django.urls import resolve
from msgspec.structs import replace

from apps.api.health import HEALTH
from apps.console.guard import ActPage
from apps.console.order_acts import VERBS
from apps.console.urls import urlpatterns
from apps.objects.access import access
from apps.objects.models import ChangeLog
from apps.objects.store import store
from apps.objects.writer import Author, Writer
from controlplane.authorization.policy import CLUSTER_ROLE_BINDING
from controlplane.eviction import operator_orders
from controlplane.kinds import CLUSTER_TAINT_POLICY, EVICTION_HOLD, FAILOVER_CONFIGURATION, KINDS, MAINTENANCE_WINDOW
from controlplane.kinds.cluster import Taint
from controlplane.kinds.drain import DRAIN
from controlplane.kinds.drill import DRILL
from controlplane.kinds.failback import FAILBACK
from controlplane.settings import Settings
from tests.apps.batches.stored import policy
from tests.apps.conftest import _bound
from tests.apps.credentials import PASSWORD
from tests.apps.pages import in_queue, stored
from tests.apps.test_console_cluster import ready
from tests.apps.test_console_pages import HTML
from tests.apps.test_records import evicted
from tests.builders.bare import START, binding, cluster, meta

NEEDED = "you need the role <code>lifeboat:operator</code>"
LIFEBOAT = "/apis/failover.lifeboat.io/v1alpha1"


class Offer(NamedTuple):
    """An act: the page that offers it, its URL, and a part of the URL by which the page's link or button is known."""

    page: str
    url: str
    link: str = ""

    def is_in(self, text: str) -> bool:
        return f'"{self.link or self.url}' in text


def on(page: str, *names: str) -> list[Offer]:
    return [Offer(page, f"{page}/{name}", f"{page}/{name.partition('?')[0]}") for name in names]


def order(verb: str, chosen: str) -> Offer:
    return Offer("/queue", f"/queue/order?verb={verb}&{chosen}", verb)


CRITERIA = "seconds=60&without_place=0&healthy=1"
LOST, READY = "/clusters/member1", "/clusters/member2"
OFFERS = [
    *[order(verb, "item=shop/web.member1") for verb in ("Hold", "Release", "Expedite", "Skip")],
    order("Hold", "everything=yes&cluster=member1"),
    Offer("/bindings/shop/web", "/queue/order?verb=Hold&item=shop/web.member1", "/queue/order?verb=Hold"),
    Offer("/queue", "/queue/rates?rate=2&secondary=1", "/queue/rates"),
    Offer("/queue", "/queue/gate/on"),
    Offer("/bindings/shop/moved", "/bindings/shop/moved/revert"),
    Offer("/bindings/shop/api", "/bindings/shop/api/rebalance"),
    Offer("/", "/resume/earlier"),
    Offer("/", "/pause"),
    *on(LOST, "taint?key=a.io/b&effect=NoSchedule", "untaint?key=example.io/failed&effect=NoExecute", "cordon"),
    *on(LOST, "fence?minutes=5", "unfence", "maintenance?minutes=5"),
    Offer(LOST, "/orders/drains/going/stop"),
    Offer(LOST, "/orders/drains/stopped/resume"),
    Offer(LOST, "/orders/maintenancewindows/disks/end"),
    *on(READY, "uncordon", "drain?rate=1", "failback?rate=1&at_once=1"),
    Offer(READY, "/orders/failbacks/going/stop"),
    Offer(READY, "/orders/failbacks/stopped/resume"),
    Offer("/drills", f"/drills/start?clusters=member2&mode=Simulated&{CRITERIA}", "/drills/start"),
    Offer("/drills/october", "/drills/october/stop"),
]
ONLY_ADMINISTRATORS = on(LOST, "unjoin?copies=keep")


API = (
    ("DELETE", "/apis/cluster.karmada.io/v1alpha1/clusters/member2", None, False),
    ("PATCH", "/apis/policy.karmada.io/v1alpha1/clustertaintpolicies/mine", {"spec": {"taintsToAdd": []}}, True),
    ("PATCH", "/apis/policy.karmada.io/v1alpha1/clusterpropagationpolicies/all", {"spec": {"priority": 1}}, False),
    ("PATCH", f"{LIFEBOAT}/failoverconfigurations/default", {"spec": {"featureGates": {"Failover": False}}}, True),
    ("DELETE", f"{LIFEBOAT}/evictionholds/earlier", None, True),
)
"""Acts that the console leaves to the API and the admin: method, path, body, and whether an operator may do it."""


@pytest.fixture
def fleet(root: Client, clerk: Client) -> Iterator[None]:
    """A fleet in which each act of OFFERS is possible. `clerk` has made the roles."""
    lost = cluster("member1", "NoExecute")
    down = tuple(replace(one, status="False") for one in ready("member1").status.conditions[:1])
    cordon = Taint("cluster.karmada.io/unschedulable", "NoSchedule", time_added=START)
    alive = ready("member2")
    stored(
        lost.with_status(conditions=down),
        alive.with_spec(taints=(cordon,)),
        binding("api", "member2"),
        policy("all"),
        made(CLUSTER_TAINT_POLICY, "mine"),
        made(FAILOVER_CONFIGURATION, "default"),
        made(EVICTION_HOLD, "earlier", expires_at=store().now() + timedelta(hours=1)),  # another pause may follow
        made(MAINTENANCE_WINDOW, "disks", clusters=("member1",), until=store().now() + timedelta(hours=1)),
        *(made(DRAIN, name, cluster="member1", stop=name == "stopped") for name in ("going", "stopped")),
        *(made(FAILBACK, name, cluster="member2", stop=name == "stopped") for name in ("going", "stopped")),
        made(DRILL, "october", clusters=("member2",)),
    )
    (moved,) = stored(binding("moved", "member2"))
    evicted(moved.ref, "member2")
    in_queue("web", "db")
    yield
    HEALTH.close()  # before the database is dropped


def made(kind: str, name: str, **spec: Any) -> Any:
    resource = KINDS[kind].resource
    smallest = KINDS[kind].type(resource.api_version, resource.kind, meta(name, ""))
    return smallest.with_spec(**spec) if spec else smallest


def operator() -> Client:
    """Return a browser of a user with the role lifeboat:operator and no other right."""
    user = get_user_model().objects.create_user("olga", password=PASSWORD)
    Writer(store(), Settings(), Author("test", "Test")).create(
        KINDS[CLUSTER_ROLE_BINDING], _bound("lifeboat:operator", to="olga")
    )
    access().policy(reread=True)
    client = Client()
    client.force_login(user)
    return client


def shown(client: Client, url: str) -> str:
    answer = client.get(url, HTTP_ACCEPT=HTML)
    assert answer.status_code == 200, (url, answer.content.decode()[-2000:])
    return answer.content.decode()


def confirmed(client: Client, url: str, *, reason: str = "a test") -> Any:
    """Read the dry run of an act and confirm it as its page asks, with this reason."""
    text = shown(client, url).rpartition("<h2>Confirm</h2>")[2]
    fields = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', text))
    typed = re.search(r"Type <code>([^<]+)</code>", text)
    given = {**fields, "reason": reason, "typed": unescape(typed[1]) if typed else ""}
    return client.post(url.partition("?")[0], {**given, "csrfmiddlewaretoken": ""}, HTTP_ACCEPT=HTML)


def test_an_operator_is_offered_every_act_and_does_it(fleet: None) -> None:
    client = operator()

    for offer in OFFERS:
        assert offer.is_in(shown(client, offer.page)), offer
        before = store().current_version()
        answer = confirmed(client, offer.url)
        assert answer.status_code == 303, (offer, re.findall(r"(?:notice|error)[^>]*>([^<]*)", answer.content.decode()))
        lines = ChangeLog.objects.filter(version__gt=before, actor="olga").values_list("reason", flat=True)
        repeated = offer.page == "/bindings/shop/web"  # the order of an offer before, with the same reason
        assert any("a test" in reason for reason in lines) or (lines and repeated), (offer, lines)
        assert answer["Location"].startswith("/"), offer  # where the act can be watched
    for offer in ONLY_ADMINISTRATORS:
        assert not offer.is_in(shown(client, offer.page)), offer
        assert client.post(offer.url.partition("?")[0], {"reason": "x"}, HTTP_ACCEPT=HTML).status_code == 403


def test_every_act_shows_its_dry_run_and_its_kubectl_line_and_refuses_without_a_reason(
    fleet: None, root: Client
) -> None:
    assert confirmed(root, f"{LOST}/fence?minutes=5").status_code == 303  # so that it can be taken back
    before = ChangeLog.objects.count()

    for offer in [*OFFERS, *ONLY_ADMINISTRATORS]:
        text = shown(root, offer.url)
        assert re.search(r"nothing has happened yet</span></header>\s*<p class=\"strong\">.{10,}</p>", text), offer
        assert re.search(r"kubectl (?:lifeboat|create|apply|patch|delete) |for e in ", text), offer
        refused = confirmed(root, offer.url, reason=" ")
        assert refused.status_code == 422, offer
        assert "Write the reason. The change log keeps it with your name." in refused.content.decode(), offer
    assert ChangeLog.objects.count() == before


def test_every_act_of_the_console_is_offered_in_these_tests() -> None:
    """A new act fails here until it is in OFFERS, and by that in the tests of its guard rail."""
    tested = {resolve(f"/{one.url.lstrip('/').partition('?')[0]}").url_name for one in [*OFFERS, *ONLY_ADMINISTRATORS]}
    acts = {
        pattern.name
        for pattern in urlpatterns
        if issubclass(pattern.callback.view_class, ActPage)  # type: ignore[attr-defined]
    }
    orders = {one.url for one in OFFERS if one.url.startswith("/orders/")}

    assert acts - tested == {"development"}  # test_console_development
    assert {(url.split("/")[2], url.split("/")[4]) for url in orders} == set(VERBS)
    verbs = {QueryDict(one.url.partition("?")[2])["verb"] for one in OFFERS if "/queue/order" in one.url}
    assert verbs == set(operator_orders.VERBS.values())


def test_a_viewer_reads_why_an_act_is_not_offered_and_cannot_do_it(fleet: None, clerk: Client) -> None:
    before = ChangeLog.objects.count()

    for offer in [*OFFERS, *ONLY_ADMINISTRATORS]:
        text = shown(clerk, offer.page)
        assert not offer.is_in(text), offer
        assert NEEDED in text, offer
        path, _, query = offer.url.partition("?")
        sent = {**QueryDict(query).dict(), "reason": "a test", "typed": "member1"}
        answers = (clerk.get(offer.url, HTTP_ACCEPT=HTML), clerk.post(path, sent, HTTP_ACCEPT=HTML))
        assert [answer.status_code for answer in answers] == [403, 403], offer
        assert b"may not" in answers[1].content or b"cannot" in answers[1].content, answers[1].content.decode()
    assert ChangeLog.objects.count() == before


def test_acts_of_the_api_ask_for_the_same_rights(fleet: None, clerk: Client, root: Client) -> None:
    client = operator()

    for method, path, body, may_operate in API:
        send = {"content_type": "application/merge-patch+json"} | ({"data": json.dumps(body)} if body else {})
        codes = [
            one.generic(method, f"{path}?dryRun=All", HTTP_ACCEPT="application/json", **send).status_code
            for one in (root, client, clerk)
        ]
        assert codes[1:] == [codes[0] if may_operate else 403, 403], (path, codes)
        assert codes[0] != 403, path
