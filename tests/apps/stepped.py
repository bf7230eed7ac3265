"""A program for `test_migrations`: every migration of ours is taken back, made again and taken back, the newest first.

The database has rows meanwhile. What a migration computes from documents has to be the same when it is made again.
"""

from __future__ import annotations

from typing import Any

import django
from django.apps import apps
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder

KEYED = ("objects_object", "resources_binding", "policies_policy", "clusters_cluster", "resources_work")


def main() -> None:
    """Print what is wrong, then what is left when all migrations are taken back, then who may do what afterwards."""
    django.setup()
    ours = [app.label for app in apps.get_app_configs() if app.name.startswith("apps.")]
    call_command("migrate", verbosity=0)
    fill()
    step(ours)
    left = [name for name in MigrationRecorder(connection).applied_migrations() if name[0] in ours]
    tables = [name for name in connection.introspection.table_names() if name.split("_")[0] in ours]
    print("left", len(left), *tables)
    call_command("migrate", verbosity=0)
    show_rights()


def fill() -> None:
    """Store users, and something of each kind from which migrations compute index keys, tallies and sums."""
    from django.contrib.auth import get_user_model

    from apps.objects.store import store
    from controlplane.apimachinery.meta import OwnerReference
    from controlplane.engine.decision import Decision, Save
    from controlplane.engine.state import Actor
    from controlplane.kinds.binding import ReplicaRequirements
    from tests.builders import objects, templates
    from tests.builders.bare import binding, cluster
    from tests.stores.grounds import create

    get_user_model().objects.create_superuser("before", password="before-roles")
    get_user_model().objects.create_user("plain", password="before-roles")
    owner = OwnerReference("apps/v1", "Deployment", "web", "uid-web")
    account = {"kubernetes.io/service-account.name": "robot"}
    scaled = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}
    asked = ReplicaRequirements(resource_request={"cpu": "500m"})
    create(
        store(),
        templates.deployment("web"),
        templates.config_map("settings", owner_references=(owner,)),
        templates.template("Service", "web", spec={"ports": [{"port": 80, "nodePort": 30080}]}),
        templates.template("HorizontalPodAutoscaler", "web", version="autoscaling/v2", spec=scaled),
        templates.secret("robot", {"a": "b"}, type_="kubernetes.io/service-account-token", annotations=account),
        binding("web", "member1").with_spec(replica_requirements=asked),
        binding("db", "member1", "member2"),
        cluster("member1"),
        objects.work("web"),
    )
    rows = (objects.eviction("web", "member1"), objects.eviction("db", "member2"))
    store().apply([(None, Decision(changes=tuple(map(Save, rows))))], by=Actor("test"))


def step(ours: list[str]) -> None:
    """Take every migration back, make it again and take it back, the newest first."""
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes(), clean_start=True)
    state = executor._create_project_state(with_applied_migrations=False)  # type: ignore[attr-defined]
    before = []
    for migration, _ in plan:
        before.append(state)
        state = migration.mutate_state(state, preserve=True)
    for (migration, _), state in reversed(list(zip(plan, before, strict=True))):
        if migration.app_label not in ours:
            continue
        known = derived()
        executor.unapply_migration(state.clone(), migration)
        executor.apply_migration(state.clone(), migration)
        for name, rows in derived().items():
            if not migration.initial and rows != known[name]:
                print(migration, name, known[name], rows)
        executor.unapply_migration(state.clone(), migration)


def derived() -> dict[str, Any]:
    """Return what migrations compute from documents, as far as its tables exist."""
    existing = set(connection.introspection.table_names())
    found: dict[str, Any] = {}
    for table in KEYED:
        if table in existing:
            rows = query(f"SELECT kind, namespace, name, keys, labels FROM {table}")
            found[table] = sorted((*row[:3], sorted(row[3]), sorted(row[4])) for row in rows)
    if "objects_tally" in existing:
        found["tallies"] = sorted(query("SELECT counted, cluster, state, reason, number FROM objects_tally"))
    if "objects_quotause" in existing:
        found["quotas"] = sorted(query("SELECT namespace, resource, amount FROM objects_quotause WHERE amount <> 0"))
    return found


def query(text: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(text)
        return cursor.fetchall()


def show_rights() -> None:
    """Print whether the users of before may do everything."""
    from django.contrib.auth import get_user_model

    from apps.objects.access import authorize
    from controlplane.authorization.attributes import Request

    may = Request(verb="delete", api_group="cluster.karmada.io", resource="clusters", name="member1")
    for name in ("before", "plain"):
        print(name, authorize(get_user_model().objects.get(username=name), may).allowed)


if __name__ == "__main__":
    main()
