"""Pages of the browsable API: bounded, and nothing is deleted that the page does not name."""

from __future__ import annotations

import re
import tracemalloc
from html import unescape

import pytest
import yaml
from django.test import Client

from apps.api import pages
from controlplane.kinds.template import Template
from tests.apps.batches.stored import policy
from tests.apps.pages import stored
from tests.apps.statements import statements
from tests.builders.bare import binding, cluster, meta
from tests.builders.objects import work

BINDINGS = "/apis/work.karmada.io/v1alpha2/resourcebindings"
CONFIGS = "/api/v1/namespaces/shop/configmaps"
DELETES, PUTS = 'data-method="DELETE"', 'title="Make a PUT request'


def page(root: Client, url: str) -> str:
    answer = root.get(url, HTTP_ACCEPT="text/html")
    assert answer.status_code == 200
    return unescape(answer.content.decode())


def config(name: str, size: int = 10) -> Template:
    return Template("v1", "ConfigMap", meta(name), content={"data": {"text": "x" * size}})


@pytest.mark.parametrize("url", [BINDINGS, CONFIGS, "/api/v1/namespaces"])
def test_the_page_of_a_list_offers_no_deletion(root: Client, url: str) -> None:
    stored(cluster("member1"), binding("web", "member1"), config("one"))

    shown = page(root, url)

    assert DELETES not in shown
    assert ">DELETE<" not in shown


def test_a_page_offers_forms_only_to_users_who_may_use_them(root: Client, clerk: Client) -> None:
    stored(config("one"))

    for_root, for_clerk = page(root, f"{CONFIGS}/one"), page(clerk, f"{CONFIGS}/one")

    assert PUTS in for_root
    assert DELETES in for_root
    assert PUTS not in for_clerk
    assert DELETES not in for_clerk


def test_a_deletion_names_the_object_and_what_goes_with_it(root: Client) -> None:
    web = binding("web", "member1", "member2")
    stored(cluster("member1"), cluster("member2"), web, work("web", "member1", of=web), work("web", "member2", of=web))
    name = web.metadata.name

    shown = page(root, f"{BINDINGS.replace('/resource', '/namespaces/shop/resource')}/{name}")
    assert f"Delete ResourceBinding {name} of namespace shop?" in shown
    assert "2 Works, and with them the copies on member1, member2" in shown
    assert shown.count(DELETES) == 1

    shown = page(root, "/apis/cluster.karmada.io/v1alpha1/clusters/member1")
    assert "Delete Cluster member1?" in shown
    assert "1 binding placed on this cluster: the deletion is refused" in shown


def test_a_list_is_pages_of_a_hundred_objects_with_links_to_the_next(root: Client) -> None:
    stored(*(config(f"c{number:03}") for number in range(250)))

    url, seen, sizes = f"{CONFIGS}?labelSelector=", list[str](), list[int]()
    while url:
        shown = page(root, url)
        found = re.findall(r">(c\d+)</a></td>", shown)
        seen, sizes = seen + found, [*sizes, len(found)]
        following = re.search(r'href="([^"]*)" rel="next"', shown)
        url = following[1] if following else ""

    assert sizes == [100, 100, 50]
    assert seen == [f"c{number:03}" for number in range(250)]


def test_a_large_object_is_shown_in_part_and_cannot_be_saved_in_part(
    root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "MAX_TEXT", 2000)
    stored(config("small"), config("large", 5000))

    small, large = page(root, f"{CONFIGS}/small"), page(root, f"{CONFIGS}/large")

    assert PUTS in small
    assert "characters are shown" not in small
    assert PUTS not in large
    assert "The first 2000 of" in large
    assert "x" * 3000 not in large


def test_a_list_is_the_rows_of_kubectl_with_links_to_the_objects(root: Client) -> None:
    web = binding("web", "member1")
    elsewhere = binding("web", "member1").with_meta(namespace="lab", uid="uid-of-lab")
    stored(cluster("member1"), web, elsewhere)

    one, all_ = page(root, BINDINGS.replace("/resource", "/namespaces/shop/resource")), page(root, BINDINGS)

    heads = [re.findall(r'<th scope="col">([^<]+)</th>', text) for text in (one, all_)]
    assert heads[0][0] == "Name"
    assert heads[1] == ["Namespace", *heads[0]]
    assert '<a href="/apis/work.karmada.io/v1alpha2/namespaces/shop/resourcebindings/web">web</a>' in one
    assert '<a href="/apis/work.karmada.io/v1alpha2/namespaces/lab/resourcebindings/web">web</a>' in all_
    assert "apiVersion" not in one.partition('aria-label="response info"')[2].partition("</pre>")[0]


def test_a_page_of_large_objects_is_as_small_as_one_of_small_objects(root: Client) -> None:
    stored(*(config(f"large{number}", 500_000) for number in range(5)))

    assert len(page(root, CONFIGS)) < 50_000


def test_the_page_of_a_list_costs_as_many_statements_for_90_objects_as_for_one(root: Client) -> None:
    def cost() -> int:
        page(root, BINDINGS)  # reads the settings
        with statements() as sent:
            page(root, BINDINGS)
        return len(sent)

    stored(cluster("member1"), binding("web", "member1"))
    few = cost()
    stored(*(binding(f"b{number}", "member1") for number in range(90)))

    assert abs(cost() - few) <= 3  # settings that a process reads twice a second at most


TITLES = {
    "/apis": "apis",
    "/apis/apps/v1": "v1",
    "/api/v1/namespaces": "core / Namespace",
    f"{CONFIGS}": "core / ConfigMap",
    f"{CONFIGS}/one": "core / ConfigMap / one",
    "/apis/failover.lifeboat.io/v1alpha1/fleetreadinesses/fleet": "failover.lifeboat.io / FleetReadiness / fleet",
}


@pytest.mark.parametrize("url", TITLES)
def test_titles_and_breadcrumbs_say_group_kind_and_name(root: Client, url: str) -> None:
    stored(config("one"))

    shown = page(root, url)

    assert f"<title>{TITLES[url]} · Lifeboat</title>" in shown
    assert "Django REST" not in shown
    links = re.findall(r'<li(?: class="active")?><a href="([^"]*)">([^<]*)</a>', shown)
    assert links[0] == ("/", "Lifeboat")
    assert links[-1][0] == url
    for target, _ in links[1:]:
        assert root.get(target, HTTP_ACCEPT="application/json").status_code in (200, 404), target


def test_a_page_links_policy_bindings_works_and_cluster(root: Client) -> None:
    label = "resourcebinding.karmada.io/permanent-id"
    web = binding("web", "member1", labels={label: "id-1"}, annotations=CLAIMED)
    identity = {"clusterpropagationpolicy.karmada.io/permanent-id": "id-2"}
    stored(cluster("member1"), web, work("web", "member1", of=web), policy("all", labels=identity))

    of_policy = page(root, "/apis/policy.karmada.io/v1alpha1/clusterpropagationpolicies/all")
    of_binding = page(root, f"{BINDINGS.replace('/resource', '/namespaces/shop/resource')}/web")
    of_work = page(root, "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-member1/works/web")
    of_cluster = page(root, "/apis/cluster.karmada.io/v1alpha1/clusters/member1")

    assert "resourcebindings?labelSelector=clusterpropagationpolicy.karmada.io%2Fpermanent-id%3D" in of_policy
    assert f"/works?labelSelector={label.replace('/', '%2F')}%3Did-1" in of_binding
    assert 'href="/apis/policy.karmada.io/v1alpha1/clusterpropagationpolicies/all"' in of_binding
    assert 'href="/apis/cluster.karmada.io/v1alpha1/clusters/member1"' in of_binding
    assert 'href="/apis/work.karmada.io/v1alpha2/namespaces/shop/resourcebindings/web"' in of_work
    assert 'href="/apis/cluster.karmada.io/v1alpha1/clusters/member1"' in of_work
    assert 'href="/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-member1/works"' in of_cluster


CLAIMED = {"clusterpropagationpolicy.karmada.io/name": "all"}

ALLOWED = {
    CONFIGS: "GET, POST, DELETE, HEAD, OPTIONS",
    f"{CONFIGS}/one": "GET, PUT, PATCH, DELETE, HEAD, OPTIONS",
    "/apis/cluster.karmada.io/v1alpha1/clusters/member1/status": "GET, PUT, PATCH, HEAD, OPTIONS",
    "/apis/cluster.karmada.io/v1alpha1/clusters/member1/fence": "POST, OPTIONS",
    "/apis/failover.lifeboat.io/v1alpha1/evictions": "GET, HEAD, OPTIONS",
    "/apis/failover.lifeboat.io/v1alpha1/fleetreadinesses": "GET, HEAD, OPTIONS",
}


@pytest.mark.parametrize("url", ALLOWED)
def test_the_header_allow_names_the_methods_of_the_url(root: Client, url: str) -> None:
    stored(config("one"), cluster("member1"))

    answer = root.options(url)

    assert set(answer["Allow"].split(", ")) == set(ALLOWED[url].split(", "))


def test_a_list_as_yaml_is_encoded_object_by_object(root: Client) -> None:
    stored(*(config(f"c{number:03}") for number in range(30)))
    as_json = root.get(CONFIGS, HTTP_ACCEPT="application/json").json()

    assert yaml.safe_load(root.get(CONFIGS, HTTP_ACCEPT="application/yaml").content) == as_json
    empty = root.get("/api/v1/namespaces/none/configmaps", HTTP_ACCEPT="application/yaml")
    assert yaml.safe_load(empty.content)["items"] == []


def test_a_list_as_yaml_takes_not_much_more_memory_than_its_text(root: Client) -> None:
    """10,000 bindings as YAML once took 600 MB: all of them were decoded, and then encoded at once."""
    stored(*(config(f"c{number:04}", 2000) for number in range(600)))
    root.get(CONFIGS, HTTP_ACCEPT="application/yaml")

    tracemalloc.start()
    answer = root.get(CONFIGS, HTTP_ACCEPT="application/yaml")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert most < 6 * len(answer.content)


def test_a_page_that_a_user_may_not_read_says_so_as_a_page(clerk: Client) -> None:
    answer = clerk.get("/api/v1/namespaces/shop/secrets", HTTP_ACCEPT="text/html")

    assert answer.status_code == 403
    assert "cannot list resource" in unescape(answer.content.decode())
    assert "<textarea" not in answer.content.decode()


def test_a_page_fits_on_a_phone_and_has_an_icon(root: Client) -> None:
    shown = page(root, CONFIGS)

    assert 'name="viewport" content="width=device-width' in shown
    assert 'rel="icon"' in shown
