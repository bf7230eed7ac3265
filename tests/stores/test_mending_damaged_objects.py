"""`manage.py damaged` restores or deletes objects whose stored document cannot be read."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from apps.objects import store as stores
from apps.objects.damaged import delete
from apps.objects.models import ChangeLog
from apps.objects.store import DjangoStore
from apps.objects.verification import verify
from controlplane.apimachinery.meta import Object, OwnerReference, Ref
from controlplane.engine.decision import Put
from controlplane.engine.state import Unreadable
from controlplane.kinds.binding import TargetCluster
from controlplane.settings import Settings
from tests.builders.bare import binding, cluster
from tests.builders.templates import config_map
from tests.stores.grounds import create, due_refs, stored, write
from tests.stores.test_damaged_documents import BY_NAME, damage

pytestmark = pytest.mark.django_db(transaction=True)

WEB = binding("web", "member1").with_meta(finalizers=("karmada.io/binding-controller",))


def ran(*words: str) -> str:
    out = StringIO()
    call_command("damaged", *words, stdout=out)
    return out.getvalue()


def execute(statement: str, *parameters: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)


def log_lines(ref: Ref) -> list[tuple[int, str]]:
    lines = ChangeLog.objects.filter(kind=ref.kind, namespace=ref.namespace, name=ref.name)
    return list(lines.order_by("version").values_list("version", "type"))


@pytest.fixture
def web() -> Object:
    """A stored binding, before its row is damaged."""
    (made,) = create(stores.store(), WEB)
    assert isinstance(made, Object)
    damage(made.ref)
    with pytest.raises(Unreadable):
        stored(stores.store(), made)
    return made


def test_all_damaged_objects_are_listed_with_what_can_be_restored(web: Object) -> None:
    create(stores.store(), config_map())
    out = StringIO()

    with pytest.raises(CommandError, match="1 objects are damaged"):
        call_command("damaged", stdout=out)
    ran("--restore", str(web.ref))

    (line,) = out.getvalue().splitlines()
    assert line.startswith(f"{web.ref}: the stored ")
    assert line.endswith(f"--restore puts version {web.metadata.resource_version} in its place")
    assert ran() == "no object is damaged\n"


def test_the_newest_state_takes_its_place_without_a_new_version(web: Object) -> None:
    execute("UPDATE resources_binding SET keys = '{}', scheduled = 'x'")

    ran("--restore", str(web.ref))

    assert stored(stores.store(), web) == web
    assert len(log_lines(web.ref)) == 1
    assert verify(stores.store()) == []


def test_an_earlier_state_is_a_new_version_of_which_watchers_hear(web: Object) -> None:
    """A later release wrote the newest one."""
    ran("--restore", str(web.ref))
    more = web.with_spec(clusters=(TargetCluster("member1", 2), TargetCluster("member2", 1)))
    (newer,) = write(stores.store(), Put(more, web)).objects
    damage(web.ref)
    execute("UPDATE objects_changelog SET doc = '{}' WHERE version = %s", int(newer.metadata.resource_version))

    ran("--restore", str(web.ref))

    now = stored(stores.store(), web)
    assert now.spec == web.spec
    assert now.metadata.generation > newer.metadata.generation
    assert int(now.metadata.resource_version) > int(newer.metadata.resource_version)
    assert log_lines(web.ref)[-1] == (int(now.metadata.resource_version), "MODIFIED")
    assert verify(stores.store()) == []


def test_nothing_of_another_object_of_the_name_is_restored(web: Object) -> None:
    execute("UPDATE resources_binding SET uid = 'ba5e0000-0000-4000-8000-000000000000'")

    with pytest.raises(CommandError, match=r"no state of .* that can be read"):
        ran("--restore", str(web.ref))


def test_it_is_deleted_and_its_finalizers_are_waited_for(web: Object) -> None:
    assert "finalizers are waited for" in ran("--delete", str(web.ref))

    now = stored(stores.store(), web)
    assert (now.spec, now.metadata.finalizers) == (web.spec, WEB.metadata.finalizers)
    assert now.metadata.deletion_timestamp is not None
    assert log_lines(web.ref)[-1] == (int(now.metadata.resource_version), "MODIFIED")
    write(stores.store(), Put(now.with_meta(finalizers=()), now))
    assert stored(stores.store(), web) is None
    assert verify(stores.store()) == []


def test_a_binding_of_which_nothing_earlier_can_be_read_names_its_template() -> None:
    """Its template had no binding any more, and ran nowhere."""
    store = DjangoStore(controllers=[BY_NAME["policies"]])
    owner = OwnerReference("apps/v1", "Deployment", "web", "uid-web", controller=True)
    (made,) = create(store, WEB.with_meta(owner_references=(owner,)))
    damage(made.ref)
    execute("UPDATE objects_changelog SET doc = '{}'")
    execute("DELETE FROM objects_due")

    assert delete(store, made.ref, Settings()) is False
    (now,) = store.get([made.ref]).values()
    write(store, Put(now.with_meta(finalizers=()), now))

    assert Ref("apps/Deployment", "shop", "web") in due_refs(store, "policies")


@pytest.mark.parametrize("document", ["", "7", "{}", '{"metadata": []}', '{"metadata": {"finalizers": 7}}'])
def test_it_is_deleted_at_once_if_no_finalizers_can_be_read(document: str) -> None:
    (made,) = create(stores.store(), WEB)
    for table in ("resources_binding", "objects_changelog"):
        execute(f"UPDATE {table} SET doc = %s", document)

    assert "is deleted" in ran("--delete", str(made.ref))

    assert stored(stores.store(), made) is None
    assert [type_ for _, type_ in log_lines(made.ref)] == ["ADDED", "DELETED"]
    assert verify(stores.store()) == []


def test_a_cluster_with_bindings_stays() -> None:
    bad, _ = create(stores.store(), cluster("member1"), binding("web", "member1"))
    damage(bad.ref)

    with pytest.raises(CommandError, match="shop/web"):
        ran("--delete", str(bad.ref))

    with pytest.raises(CommandError, match="1 objects are damaged"):
        ran()


@pytest.mark.parametrize("action", ["--restore", "--delete"])
def test_an_object_that_can_be_read_is_left_to_the_api(action: str) -> None:
    (made,) = create(stores.store(), config_map())

    with pytest.raises(CommandError, match="is not damaged"):
        ran(action, str(made.ref))
    with pytest.raises(CommandError, match="does not exist"):
        ran(action, "ConfigMap:default/other")
    with pytest.raises(CommandError, match="is not a reference"):
        ran(action, "settings")

    assert stored(stores.store(), made) == made
