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
from tests.apps.pages import stored, work
from tests.stores.grounds import binding, cluster, meta

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
        found = re.findall(r"^    name: (c\d+)$", shown, re.MULTILINE)
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


def test_a_page_of_large_objects_says_how_many_it_leaves_out(root: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MAX_TEXT", 2000)
    stored(*(config(f"large{number}", 1500) for number in range(5)))

    assert "3 large objects of this page are not shown; ask for fewer: limit=2." in page(root, CONFIGS)


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
