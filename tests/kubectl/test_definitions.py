"""The real kubectl on kinds that users bring."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.api.controllers import work
from tests.api.server import Server
from tests.api.test_definitions import STRICT, definition
from tests.kubectl.test_kubectl import Kubectl

pytestmark = pytest.mark.kubectl


@pytest.fixture
def k(kubectl: Path, server: Server, namespace: str, tmp_path: Path) -> Kubectl:
    return Kubectl(kubectl, server, namespace, tmp_path)


@pytest.fixture
def group(k: Kubectl) -> str:
    """The group of a kind that is defined, and that kubectl has waited for."""
    group = f"ships-{k.namespace}.example.io"
    k("apply", "-f", k.file(definition(group, STRICT)))
    said = k("wait", "--for=condition=Established", f"crd/boats.{group}", "--timeout=300s")
    assert "condition met" in said
    return group


def boat(group: str, name: str, **spec: object) -> dict[str, object]:
    return {"apiVersion": f"{group}/v1", "kind": "Boat", "metadata": {"name": name}, "spec": spec}


def test_a_brought_kind_is_applied_printed_and_explained(k: Kubectl, group: str) -> None:
    ferry = k.file(boat(group, "ferry", seats=12))

    assert k("apply", "-f", ferry) == f"boat.{group}/ferry created\n"
    assert k("apply", "-f", ferry) == f"boat.{group}/ferry unchanged\n"
    assert k("apply", "--server-side", "--force-conflicts", "-f", ferry).endswith("serverside-applied\n")
    assert k("get", f"boats.{group}").split() == ["NAME", "SEATS", "ferry", "12"]
    assert k("get", f"boats.{group}", "ferry", "-o", "jsonpath={.spec.colour}") == "red"
    explained = k("explain", f"boats.{group}.spec.seats")
    assert "FIELD: seats <integer>" in explained
    assert "How many may sit." in explained
    assert "green" in k("explain", f"boats.{group}.spec.colour")


def test_what_breaks_the_schema_is_reported_in_kubectl_s_words(k: Kubectl, group: str) -> None:
    said = k("apply", "-f", k.file(boat(group, "ferry", seats=0, colour="blue")), code=1)

    assert 'The Boat "ferry" is invalid' in said or f'Boat.{group} "ferry" is invalid' in said
    assert "spec.seats: Invalid value: 0: must be greater than or equal to 1" in said
    assert 'spec.colour: Unsupported value: "blue": supported values: "red", "green"' in said
    unknown = k("create", "-f", k.file(boat(group, "ferry", seats=1, sails=2)), code=1)
    assert 'unknown field "spec.sails"' in unknown


def test_a_field_that_may_be_selected_by_is(k: Kubectl) -> None:
    group = f"crafts-{k.namespace}.example.io"
    k("apply", "-f", k.file(definition(group, STRICT, selectableFields=[{"jsonPath": ".spec.colour"}])))
    for name, colour in (("one", "red"), ("two", "green")):
        k("apply", "-f", k.file(boat(group, name, seats=1, colour=colour)))

    assert k("get", f"boats.{group}", "--field-selector", "spec.colour=green", "-o", "name") == f"boat.{group}/two\n"
    assert "field label not supported: spec.seats" in k(
        "get", f"boats.{group}", "--field-selector", "spec.seats=1", code=1
    )


def test_a_deleted_definition_takes_everything_along(k: Kubectl, server: Server, group: str) -> None:
    k("apply", "-f", k.file(boat(group, "ferry", seats=1)))
    deleting = k.start("delete", f"crd/boats.{group}", "--timeout=300s")

    while deleting.poll() is None:
        work(server, "definitions")

    assert deleting.communicate()[0].startswith("customresourcedefinition")
    assert deleting.returncode == 0
    assert "NotFound" in k("get", f"crd/boats.{group}", code=1)
