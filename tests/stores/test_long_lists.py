"""A list whose selectors have to be tried object by object is given in pages, and none of it is left out."""

import pytest

from apps.api import reading
from apps.api.query import listing_of
from apps.api.target import target_of
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
