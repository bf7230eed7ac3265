"""The index of policies: what a template is compared with is all that may select it, and little else."""

from __future__ import annotations

import pytest

from controlplane.kinds.policy import ResourceSelector
from controlplane.propagation.candidates import NO_CANDIDATES, Candidates
from tests.builders.objects import policy
from tests.builders.templates import deployment, namespace

WEB, API = ResourceSelector("apps/v1", "Deployment", name="web"), ResourceSelector("apps/v1", "Deployment", name="api")
ANY = ResourceSelector("apps/v1", "Deployment")


def possible(*selectors: ResourceSelector, of: str, name: str = "web", inside: str = "default") -> bool:
    """Return whether a policy of the namespace `of` with these selectors is compared with the Deployment."""
    found = Candidates.of([policy("one", *selectors, namespace=of)], "apps/v1", "Deployment")
    return bool(found.possible(deployment(name, namespace=inside)))


@pytest.mark.parametrize("of", ["default", ""])
def test_a_policy_that_names_its_objects_is_compared_with_these(of: str) -> None:
    assert possible(WEB, API, of=of)
    assert possible(WEB, API, of=of, name="api")
    assert not possible(WEB, API, of=of, name="other")


@pytest.mark.parametrize("of", ["default", ""])
def test_a_selector_without_a_name_compares_the_policy_with_every_object(of: str) -> None:
    assert possible(ANY, of=of)
    assert possible(WEB, ANY, of=of, name="other")


@pytest.mark.parametrize("other", ["apps/v0", "apps/v2"])
def test_selectors_of_other_kinds_and_versions_do_not_count(other: str) -> None:
    more = [ResourceSelector(other, "Deployment"), *(ResourceSelector("apps/v1", kind) for kind in ("Cron", "Set"))]

    assert possible(WEB, *more, of="default")
    assert not possible(WEB, *more, of="default", name="other")


def test_a_policy_of_another_namespace_is_not_compared() -> None:
    assert not possible(WEB, of="shop")
    assert not possible(ANY, of="shop")
    shop = [policy("named", WEB, namespace=""), policy("any", ANY, namespace="")]
    assert NO_CANDIDATES.possible(deployment()) == ()
    assert len(Candidates.of(shop, "apps/v1", "Deployment").possible(namespace("web"))) == 2, "each of them once"
