"""A list whose selectors have to be tried object by object is given in pages, and none of it is left out."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson
import pytest
from django.db import connection

from apps.api import reading
from apps.api.query import listing_of
from apps.api.target import target_of
from apps.objects import listing
from apps.objects.store import DjangoStore
from tests.builders.bare import template
from tests.stores.grounds import controllers, create

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("selector", ["rank>5", "tier=gold"], ids=["by number", "on later pages"])
@pytest.mark.parametrize("limit", [1, 2, 100])
def test_what_is_chosen_is_found_however_many_objects_lie_between(
    monkeypatch: pytest.MonkeyPatch, selector: str, limit: int
) -> None:
    monkeypatch.setattr(reading, "MAX_SCANNED", 4)
    monkeypatch.setattr(reading, "_CHUNK", 2)
    store = DjangoStore(controllers=controllers())
    chosen = {3: {"rank": "6", "tier": "gold"}, 14: {"rank": "7", "tier": "gold"}, 15: {"rank": "8", "tier": "gold"}}
    create(store, *(template(f"t{number:02}", labels=chosen.get(number, {"rank": "1"})) for number in range(20)))
    target = target_of("api/v1/namespaces/shop/configmaps")

    found: list[str] = []
    token = ""
    for _ in range(20):
        query = {"limit": str(limit), "labelSelector": selector, "continue": token}
        page = reading.listed(store, target, listing_of(query, target.resource, namespace=target.namespace))
        assert len(page.texts) <= limit
        found += [text.split(b'"name":"')[1][:3].decode() for text in page.texts]
        token = page.token
        if not token:
            break

    assert found == ["t03", "t14", "t15"]


def test_a_page_that_is_read_in_parts_shows_one_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_CHUNK", 2)
    store = DjangoStore(controllers=controllers())
    create(store, *(template(f"t{number}", labels={"rank": "6"}) for number in range(4)))
    target = target_of("api/v1/namespaces/shop/configmaps")
    read = listing.page

    def read_beside_a_write(*arguments: Any, **options: Any) -> listing.ObjectPage:
        page = read(*arguments, **options)
        if options["after"] == listing.START:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(write).result()
        return page

    def write() -> None:
        try:
            create(store, template("t4", labels={"rank": "6"}))
        finally:
            connection.close()

    monkeypatch.setattr(listing, "page", read_beside_a_write)
    query = {"limit": "100", "labelSelector": "rank>5"}
    page = reading.listed(store, target, listing_of(query, target.resource, namespace=target.namespace))

    assert [orjson.loads(text)["metadata"]["name"] for text in page.texts] == ["t0", "t1", "t2", "t3"]
