"""The documents say what the code has."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane.admission.admit import admit_create
from controlplane.apimachinery.meta import kind_key
from controlplane.controllers import CONTROLLERS
from controlplane.engine.ownership import ownership
from controlplane.kinds import KINDS
from controlplane.settings import Settings

PROJECT = Path(__file__).parents[2]
DOCS = PROJECT / "docs"
METRICS = sorted((PROJECT / "apps" / "api").glob("*metrics.py"))  # where those without our prefix are declared
EXAMPLES = sorted((DOCS / "examples").glob("*.yaml"))
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _documents() -> list[Any]:
    found = [(path, doc) for path in EXAMPLES for doc in yaml.safe_load_all(path.read_text())]
    return [pytest.param(doc, id=f"{path.stem}-{doc['kind']}") for path, doc in found]


@pytest.mark.parametrize("doc", _documents())
def test_every_example_is_admitted(doc: dict[str, Any]) -> None:
    kind = KINDS[kind_key(doc["apiVersion"], doc["kind"])]

    admitted = admit_create(kind, doc, namespace="default", settings=Settings(), now=NOW, uid="uid")

    assert admitted.object.metadata.name == doc["metadata"]["name"]


def test_the_ownership_table_is_the_one_of_the_controllers() -> None:
    written = (DOCS / "ownership.md").read_text()

    assert written == ownership(CONTROLLERS), "run: make docs-only"


@pytest.mark.parametrize("path", sorted(DOCS.rglob("*.md")), ids=lambda path: path.stem)
def test_links_lead_somewhere(path: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text())

    assert [link for link in links if not (path.parent / link).exists()] == []


@pytest.mark.parametrize("name", ["failover", "operating", "glossary", "api"])
def test_documents_name_settings_and_files_that_exist(name: str) -> None:
    text = (DOCS / f"{name}.md").read_text()
    settings = set(re.findall(r"^\| `([a-z_.]+)`", (DOCS / "settings.md").read_text(), re.MULTILINE))
    files = re.findall(r"`((?:controlplane|apps|config|tests)/[\w/.]+)`", text)
    asked = re.findall(r"`((?:compat|eviction|estimator)\.[a-z_]+|[a-z]+(?:_[a-z]+){2,})`", text)
    controllers = {controller.name for controller in CONTROLLERS}
    metrics = set(re.findall(r'"([a-z_]+)"', "".join(one.read_text() for one in METRICS)))
    known = settings | controllers | metrics | {f"{name}_total" for name in metrics}  # as counters are exposed

    assert [file for file in files if not (PROJECT / file).exists()] == []
    assert [one for one in asked if one not in known and not one.startswith("lifeboat_")] == []
