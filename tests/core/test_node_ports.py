"""Which node ports a Service gets, whatever others have [node-ports]."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.admission import node_ports
from controlplane.admission.node_ports import with_node_ports
from controlplane.apimachinery.errors import Invalid
from controlplane.engine.memory import MemoryStore
from controlplane.kinds.template import Template
from tests.builders.objects import START
from tests.builders.templates import template


def service(name: str, *numbers: int, **spec: Any) -> Template:
    ports = [{"port": 80 + index, **({"nodePort": number} if number else {})} for index, number in enumerate(numbers)]
    return template("Service", name, spec={"type": "NodePort", "ports": ports, **spec})


def stored(*services: Template) -> MemoryStore:
    store = MemoryStore(controllers=[], clock=lambda: START)
    store.create(*services)
    return store


def test_the_same_service_gets_the_same_port_unless_another_has_it() -> None:
    (first,) = with_node_ports(stored(), service("a", 0), None).spec["ports"]
    other = service("b", first["nodePort"])

    (second,) = with_node_ports(stored(other), service("a", 0), None).spec["ports"]

    assert second["nodePort"] == first["nodePort"] + 1


def test_when_all_are_taken_the_service_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_ports, "LAST", node_ports.FIRST + 1)
    full = stored(service("b", node_ports.FIRST, node_ports.FIRST + 1))

    with pytest.raises(Invalid):
        with_node_ports(full, service("a", 0), None)


def test_a_document_that_is_no_service_stays_as_it_is() -> None:
    broken = service("a", ports=["x"])

    assert with_node_ports(stored(), broken, None) is broken
