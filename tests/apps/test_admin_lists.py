"""List pages cost the same however many rows there are."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.contrib.admin import AdminSite
from django.contrib.admin.templatetags.admin_list import results
from django.db import connection
from django.template.loader import render_to_string
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.api.pagination import PAGE_SIZE
from apps.objects import changelist
from apps.objects.models import ChangeLog, Due, Event, Object
from apps.objects.store import store
from apps.objects.tables import object_table
from apps.objects.templatetags.object_lists import object_rows
from apps.objects.templatetags.sidebar import sidebar
from apps.resources.models import Work
from controlplane.apimachinery.meta import Condition
from controlplane.engine.decision import Decision, Save
from controlplane.engine.decision import Event as Reported
from controlplane.engine.state import Actor
from controlplane.kinds import CLUSTER, RESOURCE_BINDING, WORK
from controlplane.kinds.binding import AggregatedStatusItem
from controlplane.kinds.rows import Observation, PlacementHint
from tests.apps.pages import list_of, stored
from tests.apps.statements import statements
from tests.builders.bare import binding, cluster, template
from tests.builders.objects import eviction, work

FEW, MANY = 10, 500
API_LISTS = (
    "/apis/cluster.karmada.io/v1alpha1/clusters",
    "/apis/failover.lifeboat.io/v1alpha1/evictions",
    "/apis/failover.lifeboat.io/v1alpha1/namespaces/shop/evictions",
    "/apis/failover.lifeboat.io/v1alpha1/failoverrecords",
    "/apis/work.karmada.io/v1alpha1/works",
    "/apis/work.karmada.io/v1alpha2/resourcebindings",
    "/api/v1/configmaps",
)


def _fill(start: int, stop: int) -> None:
    """Store that many of everything: objects with child rows, Events, row-native values, due rows."""
    numbers = range(start, stop)
    made = stored(
        *(cluster(f"member{n}", "NoExecute", "NoSchedule") for n in numbers),
        *(binding(f"web{n}", "member1", "member2") for n in numbers),
        *(work(f"web{n}", "member1") for n in numbers),
        *(template(f"settings{n}", labels={"app": "web"}) for n in numbers),
    )
    reported = [Decision(events=(Reported(one, "Moved", "it moved"),)) for one in made[: len(numbers)]]
    rows: list[Any] = [Observation(f"member{n}") for n in numbers]
    rows += [eviction(f"web{n}", "member1") for n in numbers]
    rows += [PlacementHint(f"{RESOURCE_BINDING}:shop/web{n}", 1, {"member1": 1}) for n in numbers]
    kept = [Decision(changes=tuple(Save(row) for row in rows))]
    store().apply([(None, one) for one in (*reported, *kept)], by=Actor("jane"))


def _pages() -> list[str]:
    models = [model for model in admin.site._registry if model.__module__.startswith("apps.")]
    lists = [reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist") for model in models]
    searched = [f"{list_of(key)}?q=web" for key in (CLUSTER, RESOURCE_BINDING, WORK, "ConfigMap")]
    return [*lists, *searched, f"{list_of(RESOURCE_BINDING)}?cluster=member1", f"{list_of(CLUSTER)}?taint=NoExecute"]


def _queries(browser: Client, url: str) -> list[str]:
    with CaptureQueriesContext(connection) as asked:
        assert browser.get(url).status_code == 200
    return [query["sql"] for query in asked.captured_queries]


def test_a_list_costs_as_many_queries_for_five_hundred_rows_as_for_ten(root: Client) -> None:
    _fill(0, FEW)
    few = {url: len(_queries(root, url)) for url in _pages()}
    _fill(FEW, MANY)

    many = {url: len(_queries(root, url)) for url in _pages()}

    assert many == few
    assert max(few.values()) <= 10
    assert Due.objects.count() >= MANY
    assert Event.objects.count() >= MANY


def test_a_list_page_of_the_api_costs_the_same_statements_for_any_number_of_objects(
    root: Client,
) -> None:
    def cost() -> dict[str, int]:
        found = {}
        for path in API_LISTS:
            assert root.get(path, HTTP_ACCEPT="text/html").status_code == 200
            with statements() as asked:
                root.get(path, HTTP_ACCEPT="text/html")
            found[path] = len(asked)
        return found

    _fill(0, PAGE_SIZE + 1)  # more pages follow: their number is one statement
    few = cost()
    _fill(PAGE_SIZE + 1, MANY)

    assert cost() == few
    assert max(few.values()) <= 20


def test_the_sidebar_is_that_of_django(root: Client, clerk: Client) -> None:
    for client, may_add in ((root, True), (clerk, False)):
        answer = client.get(list_of(RESOURCE_BINDING))
        headings, sent = answer.context["available_apps"], answer.wsgi_request
        shown = {"app_list": headings, "show_changelinks": False, "request": sent}

        own = sidebar(headings, sent.path)

        assert own in answer.content.decode()
        assert "".join(own.split()) == "".join(render_to_string("admin/app_list.html", shown).split())
        assert own.count('aria-current="page"') == 1
        assert ("Add</a>" in own) == may_add
    assert sidebar((), "/admin/").split() == render_to_string("admin/app_list.html", {"app_list": []}).split()


def test_the_tables_that_a_user_sees_are_those_that_django_finds(root: Client, clerk: Client) -> None:
    for client, least in ((root, 30), (clerk, 5)):
        answer = client.get(reverse("admin:index"))
        by_django = AdminSite.get_app_list(admin.site, answer.wsgi_request)
        wanted = {table["model"]: table for app in by_django for table in app["models"]}

        found = [table for heading in answer.context["available_apps"] for table in heading["models"]]

        own = [table for table in found if "model" in table]
        assert len(own) == len(wanted) >= least
        assert own == [{name: wanted[table["model"]][name] for name in table} for table in own]


def test_no_list_reads_the_documents_it_does_not_show(root: Client) -> None:
    _fill(0, FEW)

    for key in (CLUSTER, RESOURCE_BINDING, WORK, "ConfigMap"):
        table = object_table(key).name
        asked = [sql for sql in _queries(root, list_of(key)) if f'FROM "{table}"' in sql]
        assert asked
        reading = [sql for sql in asked if f'"{table}"."doc"' in sql]
        assert not [sql for sql in reading if f'"{table}"."id" IN (' not in sql]
        assert bool(reading) == (key == RESOURCE_BINDING)  # its health, of the rows of the page only


def test_lists_count_no_further_than_they_can_be_turned(root: Client, monkeypatch: Any) -> None:
    _fill(0, FEW)
    monkeypatch.setattr(changelist, "COUNTED", 7)

    asked = _queries(root, list_of("ConfigMap"))

    counted = [sql for sql in asked if "COUNT(*)" in sql]
    assert counted
    assert all("LIMIT 8" in sql for sql in counted)
    shown = root.get(list_of("ConfigMap")).content.decode()
    assert "The list shows the first 7 rows" in shown
    assert "more than 7 objects" in shown
    monkeypatch.setattr(changelist, "COUNTED", FEW)
    assert "more than" not in root.get(list_of("ConfigMap"), {"q": "settings"}).content.decode()


def test_the_log_is_searched_for_one_object_through_its_index(root: Client) -> None:
    made = stored(template("settings"), template("other"))
    changes = ChangeLog.objects.filter(kind="ConfigMap", namespace="shop", name="settings")

    said = root.get(reverse("admin:objects_changelog_changelist"), {"q": str(made[0].ref)}).content.decode()

    assert ">settings<" in said
    assert ">other<" not in said
    with connection.cursor() as cursor:
        cursor.execute("SET enable_seqscan = off")
        plan = changes.order_by("-version").explain()
        cursor.execute("RESET enable_seqscan")
    assert "Seq Scan" not in plan


def test_labels_are_searched_through_their_index(transactional_db: None) -> None:
    _fill(0, FEW)

    with connection.cursor() as cursor:
        cursor.execute("SET enable_seqscan = off")
        plan = changelist.search_objects(Object.objects.all(), "app=web").explain()
        cursor.execute("RESET enable_seqscan")

    assert "object_labels" in plan


def test_lists_of_bindings_and_works_say_what_is_only_last_known(root: Client) -> None:
    since = store().now() - timedelta(minutes=15)
    ready = Condition("Ready", "False", "ClusterNotReachable", "connection refused", since)
    item = AggregatedStatusItem(
        "member1", applied=True, health="Unknown", last_known_health="Healthy", out_of_reach_since=since
    )
    lost, web = cluster("member1"), binding("web", "member1")
    stored(
        lost.with_status(conditions=(ready,)),
        web.with_status(aggregated_status=(item,)),
        work("web", "member1", of=web).with_status(conditions=(Condition("Applied", "True", "AppliedSuccessful"),)),
    )

    bindings, works = (root.get(list_of(key)).content.decode() for key in (RESOURCE_BINDING, WORK))

    assert '<td class="field-healthy">0/1</td>' in bindings
    assert "member1: out of reach for 15m, last known Healthy" in bindings
    assert '<td class="field-applied_now">Unknown</td>' in works
    assert '<td class="field-last_known">True, 15m ago</td>' in works
    page = root.get(f"{list_of(WORK)}{Work.objects.get(name='web').pk}/change/").content.decode()
    assert '<th scope="row">Applied</th><td>Unknown</td>' in page
    assert '<th scope="row">Last-Known</th><td>True, 15m ago</td>' in page


def test_rows_are_the_ones_that_djangos_own_list_would_show(root: Client) -> None:
    _fill(0, FEW)
    stored(template("quoted", labels={"app": "<b>\"&'</b>"}))
    pages = [*_pages(), f"{list_of(RESOURCE_BINDING)}?o=-2.1&q=web", f"{list_of('ConfigMap')}?q=quoted"]

    lists = [root.get(url).context_data["cl"] for url in pages]  # type: ignore[attr-defined]  # of the test client
    own = [page for page in lists if page.model_admin.change_list_template == "admin/objects/list.html"]

    for page in own:
        usual = [f"<tr>{''.join(row)}</tr>" for row in results(page)]
        assert object_rows(page) == "\n".join(usual), page.model
    assert len([page for page in own if page.result_list]) > 10
