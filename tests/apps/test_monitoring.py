"""The alert rules, dashboard and runbooks fit the product: every metric exists, every alert has a test and a page."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from typing import Any

import promql_parser
import pytest
import yaml
from prometheus_client import REGISTRY, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from apps.api.debug import FLEET
from apps.api.request_metrics import KeptMetrics
from apps.worker.groups import GROUPS, MEMBERS
from controlplane.kinds import KINDS
from tests.processes import PROJECT

MONITORING = PROJECT / "docker" / "monitoring"
RULES = [rule for group in yaml.safe_load((MONITORING / "rules.yaml").read_text())["groups"] for rule in group["rules"]]
PANELS = json.loads((MONITORING / "grafana" / "dashboards" / "lifeboat.json").read_text())["panels"]
OF_PROMETHEUS = {"up"}
NAMESPACED = {
    name for kind in KINDS for name in (kind.resource.plural, kind.resource.singular) if kind.resource.namespaced
}
ENDINGS = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}


def expressions() -> Iterator[tuple[str, str]]:
    """Yield where each expression stands, and the expression."""
    for rule in RULES:
        yield rule["alert"], rule["expr"]
    for panel in PANELS:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]


class Selectors(list[Any]):
    """Collects the selectors of an expression."""

    def add(self, node: Any) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            self.append(node)
        for name in ("expr", "lhs", "rhs", "args", "vector_selector", "param"):
            inner = getattr(node, name, None)
            for one in inner if isinstance(inner, list) else [inner]:
                if one is not None and type(one).__module__ == type(node).__module__:
                    self.add(one)


def selectors(expression: str) -> Selectors:
    found = Selectors()
    found.add(promql_parser.parse(expression))
    return found


@cache
def served() -> dict[str, str]:
    """Return the type of each metric that the product serves, by family: of a process, and of the fleet."""
    families: dict[str, str] = {}
    KeptMetrics.get_instance()  # as the middleware of a server does
    for registry in (REGISTRY, FLEET):
        for family in text_string_to_metric_families(generate_latest(registry).decode()):
            families[family.name] = family.type
    return families


@pytest.mark.django_db
def test_every_metric_of_a_rule_and_of_a_panel_is_served() -> None:
    series = {name + ending for name, kind in served().items() for ending in ENDINGS.get(kind, ("",))} | OF_PROMETHEUS

    unknown = {
        (where, selector.name)
        for where, expression in expressions()
        for selector in selectors(expression)
        if selector.name not in series
    }

    assert unknown == set()


@pytest.mark.django_db
def test_every_metric_of_the_fleet_has_a_row_in_the_manual() -> None:
    """`test_watched.py` asks the same of all processes, and is slow."""
    manual = (PROJECT / "docs" / "operating.md").read_text()
    families = text_string_to_metric_families(generate_latest(FLEET).decode())

    missing = [one.name for one in families if not re.search(rf"`{one.name}(_total)?[`{{]", manual)]

    assert not missing, "add a row to the table of metrics in docs/operating.md for each of these"


def test_the_reader_of_expressions_finds_a_misspelled_metric() -> None:
    """Otherwise the test above could not fail."""
    names = [one.name for one in selectors("sum by (a) (rate(x_total[5m])) / on() (y > bool 1) and absent(z)")]

    assert sorted(names) == ["x_total", "y", "z"]


def test_every_alert_has_a_runbook_and_links_to_it() -> None:
    pages = {path.stem for path in (PROJECT / "docs" / "runbooks").glob("*.md")} - {"README"}

    alerts = {rule["alert"] for rule in RULES}
    assert alerts <= pages, "write a page in docs/runbooks for each of these alerts"
    assert pages <= alerts, "rules.yaml has no alert for these pages of docs/runbooks"
    for rule in RULES:
        assert rule["annotations"]["runbook_url"] == f"docs/runbooks/{rule['alert']}.md"
        assert rule["labels"]["severity"] in ("warning", "critical")
        listed = rule["alert"] in (PROJECT / "docs" / "runbooks" / "README.md").read_text()
        assert listed, f"add a row for {rule['alert']} to docs/runbooks/README.md"


def test_a_runbook_names_only_metrics_that_are_served() -> None:
    for page in (PROJECT / "docs" / "runbooks").glob("*.md"):
        for name in re.findall(r"`(lifeboat_[a-z_]+)", page.read_text()):
            assert f"`{name}" in (PROJECT / "docs" / "operating.md").read_text(), (page.name, name)


def test_a_command_of_a_runbook_looks_into_all_namespaces() -> None:
    """Otherwise kubectl looks into `default` only: "No resources found", while thousands of evictions are held."""
    for page in (PROJECT / "docs" / "runbooks").glob("*.md"):
        for line in re.findall(r"`(kubectl [^`]+)`", page.read_text()):
            kind = line.split()[2]
            if kind in NAMESPACED:
                assert re.search(r" (-A\b|-n \S)", line), (page.name, line)


def test_every_alert_is_tested_to_fire() -> None:
    tests = yaml.safe_load((MONITORING / "rules.test.yaml").read_text())["tests"]
    fired = {one["alertname"] for test in tests for one in test["alert_rule_test"] if one["exp_alerts"]}

    alerts = {rule["alert"] for rule in RULES}
    assert alerts <= fired, "add a case that makes each of these alerts fire to docker/monitoring/rules.test.yaml"
    assert fired <= alerts, "rules.yaml has no alert of these names"


@pytest.fixture(scope="module")
def promtool() -> str:
    """The real promtool. Without it nothing evaluates the rules."""
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not installed (Debian: apt-get install prometheus): rules are parsed, not evaluated")
    return found


def run(promtool: str, *arguments: str) -> None:
    done = subprocess.run([promtool, *arguments], capture_output=True, text=True, check=False, cwd=MONITORING)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_accepts_the_rules_and_sees_every_alert_fire(promtool: str) -> None:
    run(promtool, "check", "rules", "rules.yaml")
    run(promtool, "test", "rules", "rules.test.yaml")


def test_promtool_accepts_the_configuration_of_prometheus(promtool: str) -> None:
    run(promtool, "check", "config", "prometheus.yaml")


def test_the_rules_and_panels_about_leases_name_all_groups_of_workers() -> None:
    """Other leases show only that a process runs, or who sends notices."""
    groups = "|".join(sorted(set(GROUPS) - {MEMBERS}))
    named = {
        matcher.value
        for _, expression in expressions()
        for selector in selectors(expression)
        for matcher in selector.matchers.matchers
        if (selector.name, matcher.name) == ("lifeboat_lease_held", "group") and matcher.value != MEMBERS
    }

    assert named == {groups}
