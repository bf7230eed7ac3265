"""Forms for new objects begin with a valid example of their kind."""

from __future__ import annotations

import re
from html import unescape

import pytest
import yaml
from django.test import Client
from msgspec.structs import replace

from apps.objects.examples import IN_TWO_HOURS, example_of
from controlplane.apimachinery.meta import Condition
from controlplane.kind import KINDS, Kind
from controlplane.kinds import WORK
from controlplane.wire.schema import Schema
from tests.apps.pages import stored
from tests.builders.bare import START, cluster
from tests.builders.templates import namespace

CREATABLE = [kind.key for kind in KINDS if "create" in kind.resource.verbs]


def collection(kind: Kind) -> str:
    resource = kind.resource
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    place = "/namespaces/shop" if resource.namespaced else ""
    place = "/namespaces/karmada-es-member1" if kind.key == WORK else place
    return f"{root}{place}/{resource.plural}"


def begun(client: Client, url: str, *, status: int = 200) -> str:
    """Return the text that the form of a page begins with."""
    page = client.get(url, HTTP_ACCEPT="text/html")
    assert page.status_code == status
    found = re.search(r"<textarea[^>]*>\r?\n?(.*?)</textarea>", page.content.decode(), re.DOTALL)
    assert found is not None, f"{url} offers no form"
    return unescape(found[1])


def test_every_form_begins_with_an_example_that_is_accepted_as_it_is(root: Client) -> None:
    ready = cluster("member1").with_status(conditions=(Condition("Ready", "True", last_transition_time=START),))
    stored(ready, namespace("shop"), namespace("karmada-es-member1"))
    refused = []

    for key in CREATABLE:
        url = collection(KINDS[key])
        text = begun(root, url)
        answer = root.post(f"{url}?dryRun=All&fieldValidation=Strict", text, content_type="application/yaml")
        if answer.status_code != 201:
            refused.append((key, answer.status_code, answer.content.decode()[:300]))

    assert refused == [], "mend the examples of these kinds in apps/objects/examples"


@pytest.mark.parametrize("key", CREATABLE)
def test_every_kind_has_an_example_of_its_own(key: str) -> None:
    text = example_of(KINDS[key], now=START)

    assert yaml.safe_load(text)["kind"] == KINDS[key].resource.kind
    assert IN_TWO_HOURS not in text
    bare = len(yaml.safe_load(text)) <= 3 and KINDS[key].resource.kind not in ("Node", "Namespace", "ServiceAccount")
    assert not bare, f"add an example of {key} to apps/objects/examples"


def test_an_example_of_a_kind_of_users_has_the_fields_that_its_schema_requires() -> None:
    schema = {
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": {
                "type": "object",
                "required": ["size", "colour"],
                "properties": {
                    "size": {"type": "integer", "minimum": 3},
                    "colour": {"type": "string", "enum": ["red", "blue"]},
                    "note": {"type": "string"},
                },
            }
        },
    }
    tank = replace(KINDS["ConfigMap"].resource, kind="Tank", plural="tanks", group="example.com")
    kind = Kind(resource=tank, schema=lambda: Schema(schema), type=KINDS["ConfigMap"].type)

    assert yaml.safe_load(example_of(kind, now=START))["spec"] == {"size": 3, "colour": "red"}


def test_the_pages_of_actions_and_reviews_begin_with_what_they_take(root: Client) -> None:
    stored(cluster("member1"))
    fence = begun(root, "/apis/cluster.karmada.io/v1alpha1/clusters/member1/fence", status=405)
    review = begun(root, "/apis/failover.lifeboat.io/v1alpha1/placementreviews", status=405)

    assert yaml.safe_load(fence).keys() == {"reason", "expiresInSeconds"}
    answer = root.post("/apis/failover.lifeboat.io/v1alpha1/placementreviews", review, content_type="application/yaml")
    assert answer.status_code == 201, answer.content
