"""A database that was restored: noticed by what is remembered outside of it, and what becomes of versions then."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
import redis
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection
from msgspec.structs import replace
from redis.backoff import NoBackoff
from redis.retry import Retry

from apps.objects import change_log, configuration, origin
from apps.objects.apply import binary_cursor
from apps.objects.refusal import cause
from apps.objects.store import DjangoStore
from apps.worker import restored
from controlplane.apimachinery.meta import Ref
from controlplane.engine.decision import Decision
from controlplane.engine.restored import GAP, VersionMark
from controlplane.settings import Settings
from tests.builders.bare import template
from tests.processes import until
from tests.stores.grounds import USER, controllers, create

pytestmark = pytest.mark.django_db(transaction=True)

WITHIN = 30.0


@pytest.fixture
def store() -> Iterator[DjangoStore]:
    yield DjangoStore(controllers=controllers())
    with binary_cursor() as cursor:  # partitions are not emptied with the tables
        for _, _, name in change_log.partitions(cursor)[1:]:
            cursor.execute(f"DROP TABLE {name}")  # type: ignore[arg-type]  # a name of ours
    change_log.forget()


def sql(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def events(store: DjangoStore) -> list[str]:
    return [one.reason for one in store.list("Event")]


def test_a_version_that_redis_remembers_and_the_database_does_not_is_a_restore(
    store: DjangoStore, redis_client: redis.Redis
) -> None:
    create(store, *(template(f"t{number}") for number in range(20)))
    assert restored.RestoreDetector(redis_client).check() is None
    sql("UPDATE objects_counter SET version = 12")

    held = restored.RestoreDetector(redis_client).check()  # of a process that has just started

    assert held is not None
    assert "is at resourceVersion 12, but was at 20" in held.why
    assert store.current_version() > 20 + GAP
    assert store.oldest_version() > 20 + GAP - 1
    assert events(store) == ["DatabaseRestored"]


def test_a_process_notices_what_it_has_seen_itself_while_redis_is_away(store: DjangoStore) -> None:
    detector = restored.RestoreDetector(redis.Redis(port=1, retry=Retry(NoBackoff(), 0)))
    create(store, template("a"), template("b"))
    assert detector.check() is None
    sql("UPDATE objects_counter SET version = 1")

    assert detector.check() is not None


def test_a_database_on_another_server_without_a_mark_is_a_restore(
    store: DjangoStore, redis_client: redis.Redis
) -> None:
    create(store, template("a"))
    restored.RestoreDetector(redis_client).check()
    sql("UPDATE objects_origin SET system = 'another', timeline = timeline + 1")
    redis_client.flushdb()

    held = restored.RestoreDetector(redis_client).check()

    assert held is not None
    assert "created again or copied" in held.why
    again = restored.RestoreDetector(redis_client).check()
    assert again == held, "the origin was noted: the second look finds the same database"
    assert events(store) == ["DatabaseRestored"]


def test_a_standby_that_took_over_without_a_loss_serves_members_and_ends_watches(
    store: DjangoStore, redis_client: redis.Redis
) -> None:
    create(store, template("a"))
    restored.RestoreDetector(redis_client).check()
    sql("UPDATE objects_origin SET timeline = timeline + 1")

    assert restored.RestoreDetector(redis_client).check() is None
    assert store.oldest_version() == store.current_version() > GAP
    assert events(store) == []


def test_a_standby_that_took_over_while_redis_is_away_pauses_nothing(
    store: DjangoStore, redis_client: redis.Redis
) -> None:
    create(store, template("a"))
    api = restored.RestoreDetector(redis_client)
    api.check()
    sql("UPDATE objects_origin SET timeline = timeline + 1")
    worker = restored.RestoreDetector(redis.Redis(port=1, retry=Retry(NoBackoff(), 0)))

    with pytest.raises(OperationalError) as raised:
        worker.check()

    assert "Start Redis again" in cause(raised.value)
    assert origin.held() is None
    assert api.check() is None
    assert worker.check() is None, "a process that knows has noted it in the database"


def test_a_person_declares_a_restore_while_redis_is_away(
    store: DjangoStore, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(store, template("a"))
    restored.RestoreDetector(redis_client).check()
    sql("UPDATE objects_origin SET timeline = timeline + 1")
    away = restored.RestoreDetector(redis.Redis(port=1, retry=Retry(NoBackoff(), 0)))
    monkeypatch.setattr(restored, "detector", lambda: away)

    call_command("restored", stdout=StringIO())

    assert (held := origin.held()) is not None
    assert "a person ran" in held.why


class Copies:
    """Databases of one dump: their rows about the origin take turns in the database of the test."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[object, ...]] = {}
        self._shown = ""

    def show(self, name: str, *, restored_from: str = "") -> None:
        """Be this database from now on. `restored_from`: make it from a dump of another one, on another server."""
        self._keep()
        version, *row = self._kept[restored_from or name]
        self._shown = name
        with connection.cursor() as cursor:
            cursor.execute("UPDATE objects_counter SET version = %s", [version])
            cursor.execute("DELETE FROM objects_origin")
            cursor.execute(f"INSERT INTO objects_origin (id, {_ORIGIN_COLUMNS}) VALUES (1, {_PLACES})", row)
        if restored_from:
            sql("UPDATE objects_origin SET system = 'of ' || system, held_since = NULL, held_for = ''")

    def begin(self, name: str) -> None:
        """Call the database as it is now by this name."""
        self._shown = name
        self._keep()

    def _keep(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT (SELECT version FROM objects_counter), {_ORIGIN_COLUMNS} FROM objects_origin")
            self._kept[self._shown] = cursor.fetchone()


_ORIGIN_COLUMNS = "installation, system, timeline, database, floor, held_since, held_for, confirmed"
_PLACES = ", ".join(["%s"] * 8)


def test_a_copy_that_is_started_beside_the_live_installation_stops_only_itself(
    store: DjangoStore, redis_client: redis.Redis
) -> None:
    create(store, *(template(f"t{number}") for number in range(20)))
    live, copies = restored.RestoreDetector(redis_client), Copies()
    assert live.check() is None
    copies.begin("live")
    copies.show("copy", restored_from="live")
    sql("UPDATE objects_counter SET version = 12")

    copy = restored.RestoreDetector(redis_client)
    assert copy.check() is not None
    raised = store.current_version()
    copies.show("live")

    assert live.check() is None
    assert restored.RestoreDetector(redis_client).check() is None, "nor does a process stop that starts now"
    assert store.current_version() == 20
    copies.show("copy")
    assert copy.check() is not None
    assert store.current_version() == raised, "the two do not go beyond each other again and again"


def test_a_copy_that_is_confirmed_stops_the_installation_that_it_replaces(
    store: DjangoStore, redis_client: redis.Redis
) -> None:
    create(store, template("a"), template("b"))
    live, copies = restored.RestoreDetector(redis_client), Copies()
    live.check()
    copies.begin("live")
    copies.show("copy", restored_from="live")
    sql("UPDATE objects_counter SET version = 1")
    copy = restored.RestoreDetector(redis_client)
    held = copy.check()
    assert held is not None
    origin.confirm()
    assert origin.release(held)
    assert copy.check() is None
    raised = store.current_version()

    copies.show("live")

    assert live.check() is not None
    assert store.current_version() > raised


def test_a_second_restore_goes_beyond_the_versions_of_one_that_was_never_confirmed(
    store: DjangoStore, redis_client: redis.Redis
) -> None:
    create(store, template("a"), template("b"))
    copies = Copies()
    restored.RestoreDetector(redis_client).check()
    copies.begin("live")
    copies.show("first", restored_from="live")
    sql("UPDATE objects_counter SET version = 1")
    restored.RestoreDetector(redis_client).check()
    first = store.current_version()

    copies.show("second", restored_from="live")
    sql("UPDATE objects_counter SET version = 1")
    restored.RestoreDetector(redis_client).check()

    assert store.current_version() > first


def test_a_held_database_that_lost_versions_is_restored_once_more(
    store: DjangoStore, redis_client: redis.Redis
) -> None:
    create(store, template("a"))
    restored.RestoreDetector(redis_client).check()
    origin.declare_restored("a test")
    restored.RestoreDetector(redis_client).check()
    before = store.current_version()
    create(store, template("b"))
    restored.RestoreDetector(redis_client).check()
    sql(f"UPDATE objects_counter SET version = {before}")

    held = restored.RestoreDetector(redis_client).check()

    assert held is not None
    assert f"was at {before + 1}" in held.why


def test_of_several_processes_that_notice_one_raises(store: DjangoStore) -> None:
    create(store, template("a"))
    origin.look(lambda installation: origin.Remembered(None))
    seen = origin.Remembered(VersionMark(50, datetime.now(UTC)))

    first, second = (origin.look(lambda installation: seen) for _ in range(2))

    assert (first.finding.verdict, second.finding.verdict) == ("Restored", "Same")
    assert second.state.version == first.state.version


def test_writing_goes_on_beyond_the_raise_and_old_history_is_kept(store: DjangoStore) -> None:
    create(store, *(template(f"t{number}") for number in range(5)))
    state = origin.declare_restored("a test")

    (new,) = create(store, template("new"))

    assert int(new.metadata.resource_version) == state.version + 1
    assert [change.version for change in store.changes(0)] == [1, 2, 3, 4, 5, state.version + 1]
    assert store.trim_log(store.now()) == 0, "versions that were left out are not versions that were written"


def test_a_lease_from_before_the_raise_writes_nothing(store: DjangoStore) -> None:
    fence = store.take_lease("group", 0, holder="me", seconds=60)
    assert fence is not None

    origin.declare_restored("a test")

    again = store.take_lease("group", 0, holder="me", seconds=60)
    assert again is not None
    assert again.epoch > fence.epoch + 1000


def test_only_a_person_ends_the_hold(store: DjangoStore) -> None:
    origin.declare_restored("a test")
    assert origin.held() is not None

    assert origin.confirm()
    held = origin.held()
    assert held is not None
    assert held.confirmed
    assert origin.confirm(), "a command that was interrupted is given again"

    assert origin.release(held)
    assert origin.held() is None
    assert not origin.confirm()


def test_only_the_pause_that_was_confirmed_is_ended(store: DjangoStore) -> None:
    origin.declare_restored("a restore")
    first = origin.held()
    assert first is not None
    assert not origin.release(first), "it is not confirmed"
    origin.confirm()
    origin.declare_restored("another restore")

    assert not origin.release(first)
    origin.confirm()  # a person who has looked at the state of the second one
    assert not origin.release(first)

    held = origin.held()
    assert held is not None
    assert (held.why, held.confirmed) == ("another restore", True)


def test_rows_of_controllers_that_make_works_count_while_they_are_worked_on(store: DjangoStore) -> None:
    refs = [Ref("ConfigMap", "shop", name) for name in ("a", "b", "later")]
    store.mark("works", refs[:2])
    store.mark("works", refs[2:], due_at=store.now() + timedelta(hours=1))
    store.mark("execution", refs[:1])
    assert origin.unprepared(Settings()) == 2

    store.claim("works", limit=1, shards=1, shard=0, lease_seconds=60)

    assert origin.unprepared(Settings()) == 2


def test_a_disabled_controller_does_not_delay_the_confirmation(
    store: DjangoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(configuration.base(), controllers=("*", "-dependencies"))
    monkeypatch.setattr(configuration, "base", lambda: settings)
    store.mark("dependencies", [Ref("ConfigMap", "shop", "a")])
    origin.declare_restored("a test")

    call_command("restored", "--confirm", "--wait", "0", stdout=StringIO())

    assert origin.held() is None


def test_objects_keep_their_versions(store: DjangoStore) -> None:
    create(store, template("a"))
    before = store.get([Ref("ConfigMap", "shop", "a")])

    origin.declare_restored("a test", beyond=7 * GAP)

    assert store.get([Ref("ConfigMap", "shop", "a")]) == before
    assert store.current_version() >= 8 * GAP


def test_a_confirmation_does_not_hold_for_a_restore_that_is_found_while_it_waits(store: DjangoStore) -> None:
    """A standby took over for example, and the connections of the command were made again."""
    origin.declare_restored("a restore")
    store.mark("works", [Ref("ConfigMap", "shop", "a")])

    def confirm() -> None:
        try:
            call_command("restored", "--confirm", "--wait", str(WITHIN), stdout=StringIO())
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as executor:
        confirming = executor.submit(confirm)
        until(lambda: (found := origin.held()) is not None and found.confirmed, within=WITHIN)
        origin.declare_restored("another restore")
        claims = store.claim("works", limit=1, shards=1, shard=0, lease_seconds=60).claims
        store.apply([(one, Decision()) for one in claims], by=USER)
        with pytest.raises(CommandError, match="restored again"):
            confirming.result(WITHIN)

    held = origin.held()
    assert held is not None
    assert (held.why, held.confirmed) == ("another restore", False)
