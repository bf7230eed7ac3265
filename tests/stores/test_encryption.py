"""What Secrets hold is in no table in plain, is served as ever, and survives a change of keys."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from time import thread_time

import psycopg
import pytest
from cryptography.fernet import Fernet
from django.core.management import CommandError, call_command
from django.db import connection
from pytest_django.fixtures import Settings

from apps.objects import encryption
from apps.objects.apply import binary_cursor
from apps.objects.encryption import SealError, keys, opened
from apps.objects.history import timeline
from apps.objects.listing import page, read_changes, text_of
from apps.objects.rotation import Rotated, rotate
from apps.objects.store import DjangoStore
from controlplane.apimachinery.meta import ObjectMeta, Ref
from controlplane.engine.decision import Put
from controlplane.kind import encode
from controlplane.kinds import WORK
from controlplane.kinds.template import Template
from controlplane.kinds.work import Work
from tests.builders.bare import START, template
from tests.builders.objects import work
from tests.processes import until
from tests.stores.grounds import create, stored, write

pytestmark = pytest.mark.django_db(transaction=True)

PLAIN = "correct-horse-battery-staple"
DATA = b64encode(PLAIN.encode()).decode()
LOOSE = f"lifeboat:sealed:1:{PLAIN}"  # looks sealed and is what the user wrote
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
SECRET = Ref("Secret", "default", "login")
CARRIER = Ref(WORK, "karmada-es-member1", "login-work")


def secret() -> Template:
    applied = json.dumps({"data": {"password": DATA}})
    return Template(
        "v1",
        "Secret",
        ObjectMeta(
            name="login",
            namespace="default",
            uid="uid-login",
            generation=1,
            creation_timestamp=START,
            annotations={APPLIED: applied, "note": "plain"},
        ),
        {"type": "Opaque", "data": {"password": DATA}, "stringData": {"token": LOOSE}},
    )


def carrier() -> Work:
    manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}, "data": {"password": DATA}}
    return work(CARRIER.name, manifest=manifest)


@pytest.fixture
def store() -> DjangoStore:
    return DjangoStore()


@pytest.fixture
def filled(store: DjangoStore) -> DjangoStore:
    """A store with a Secret that was created and labelled, and a Work that carries it."""
    create(store, secret(), carrier())
    first = stored(store, SECRET)
    write(store, Put(first.with_meta(labels={"changed": "yes"}), first))
    return store


def every_row() -> Iterator[tuple[str, str]]:
    """Yield every row of every table as PostgreSQL prints it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        for (table,) in cursor.fetchall():
            cursor.execute(f'SELECT t::text FROM "{table}" t')
            yield from ((table, text) for (text,) in cursor.fetchall())


def test_no_table_holds_a_secret_in_plain(filled: DjangoStore) -> None:
    rows = list(every_row())

    sealed = [table for table, text in rows if "lifeboat:sealed:1:" in text]
    assert {"objects_object", "resources_work", "objects_changelog"} <= set(sealed)
    assert not [(table, text) for table, text in rows if PLAIN in text or DATA in text]


def test_everybody_who_reads_gets_what_was_written(filled: DjangoStore) -> None:
    current = stored(filled, SECRET)
    version = int(current.metadata.resource_version)
    with binary_cursor() as cursor:
        watched = read_changes(cursor, ["Secret"], 0, version, limit=10)

    served = [
        filled.get([SECRET])[SECRET].content,
        filled.list("Secret")[0].content,
        *(json.loads(one.text) for one in filled.documents("Secret")),
        *(json.loads(one.text) for one in filled.list_at("Secret", version=version - 1)),
        *(json.loads(one.text) for one in page("Secret").found),
        json.loads(text_of(*SECRET) or b"{}"),
        *(json.loads(one.document) for one in filled.changes(0) if one.ref == SECRET),
        *(json.loads(one.old_document) for one in filled.changes(0) if one.ref == SECRET and one.old_document),
        *(json.loads(one.document) for one in watched),
    ]

    assert [one["data"] for one in served] == [{"password": DATA}] * 11
    assert [one["stringData"] for one in served] == [{"token": LOOSE}] * 11
    assert current.metadata.annotations == secret().metadata.annotations
    assert stored(filled, CARRIER).manifest["data"] == {"password": DATA}


def test_the_text_served_is_the_text_that_was_encoded(filled: DjangoStore) -> None:
    current = stored(filled, SECRET)

    assert text_of(*SECRET) == encode(current).at(int(current.metadata.resource_version))


def test_a_write_that_changes_nothing_keeps_its_version(filled: DjangoStore) -> None:
    current = stored(filled, SECRET)
    before = filled.current_version()

    write(filled, Put(current, current))

    assert filled.current_version() == before


def test_the_history_names_only_fields_that_changed(filled: DjangoStore) -> None:
    newest = timeline([SECRET], limit=1)[0]

    assert newest.fields == ["metadata.labels.changed"] or newest.fields == ["metadata.labels"]


def test_the_keys_can_be_changed_without_any_watch_event(filled: DjangoStore, settings: Settings) -> None:
    old, new = settings.ENCRYPTION_KEYS, Fernet.generate_key().decode()
    before = (filled.current_version(), text_of(*SECRET), stored(filled, CARRIER))

    settings.ENCRYPTION_KEYS = f"{new},{old}"
    call_command("rotate-encryption")

    settings.ENCRYPTION_KEYS = new
    assert (filled.current_version(), text_of(*SECRET), stored(filled, CARRIER)) == before
    assert len([one for one in filled.changes(0) if one.ref == SECRET]) == 2
    settings.ENCRYPTION_KEYS = old
    with pytest.raises(SealError, match=r"Secret default/login: .* LIFEBOAT_ENCRYPTION_KEYS"):
        filled.get([SECRET])
    with pytest.raises(SealError, match=r"Work karmada-es-member1/login-work: .* LIFEBOAT_ENCRYPTION_KEYS"):
        text_of(*CARRIER)


def test_rotating_twice_changes_nothing_the_second_time(
    filled: DjangoStore, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.ENCRYPTION_KEYS = f"{Fernet.generate_key().decode()},{settings.ENCRYPTION_KEYS}"
    call_command("rotate-encryption")
    rows = dict.fromkeys(every_row())
    capsys.readouterr()

    call_command("rotate-encryption")

    assert capsys.readouterr().out == "0 documents were encrypted with the first key\n"
    assert dict.fromkeys(every_row()) == rows


WITHIN = 30.0
WAITS = "SELECT 1 FROM pg_locks WHERE relation = 'objects_changelog'::regclass AND NOT granted"


def test_rotating_lets_others_write_while_it_looks_for_secrets_in_the_log(
    filled: DjangoStore, settings: Settings
) -> None:
    """Between two changes of Secrets the log may have millions of others. Here another session delays the reading."""
    settings.ENCRYPTION_KEYS = f"{Fernet.generate_key().decode()},{settings.ENCRYPTION_KEYS}"

    def rotated() -> Rotated:
        try:
            return rotate()
        finally:
            connection.close()

    with psycopg.connect(**connection.get_connection_params()) as holder, ThreadPoolExecutor(1) as executor:
        holder.execute("LOCK TABLE objects_changelog IN ACCESS EXCLUSIVE MODE")
        rotating = executor.submit(rotated)
        until(lambda: holder.execute(WAITS).fetchone() is not None, within=WITHIN)

        holder.execute("SELECT 1 FROM objects_counter WHERE id = 1 FOR UPDATE NOWAIT")

        holder.rollback()
        assert rotating.result(WITHIN).changed


def test_rotating_with_a_key_missing_encrypts_the_others_and_fails(filled: DjangoStore, settings: Settings) -> None:
    between, new = (Fernet.generate_key().decode() for _ in range(2))
    settings.ENCRYPTION_KEYS = between
    create(filled, secret().with_meta(name="other", uid="uid-other"))
    settings.ENCRYPTION_KEYS = f"{new},{between}"

    with pytest.raises(CommandError, match=r"6 documents stay as they are, the first is Secret default/login: .*key"):
        call_command("rotate-encryption")

    settings.ENCRYPTION_KEYS = new
    assert json.loads(text_of("Secret", "default", "other") or b"{}")["data"] == {"password": DATA}


def test_a_secret_is_not_stored_without_a_key(store: DjangoStore, settings: Settings) -> None:
    settings.ENCRYPTION_KEYS = ""

    with pytest.raises(SealError, match="LIFEBOAT_ENCRYPTION_KEYS is not set"):
        create(store, secret())

    create(store, template("web"))  # what is no Secret needs none
    assert store.list("Secret") == []


@pytest.mark.parametrize("text", ["", " , ", "short", "!" * 44])
def test_keys_that_cannot_be_are_refused_with_the_way_out(text: str) -> None:
    with pytest.raises(SealError, match="openssl rand"):
        keys(text)


def test_other_kinds_cost_nothing() -> None:
    text = '{"apiVersion":"apps/v1","kind":"Deployment"}' * 50
    copy, other = work(), template("web")

    started = thread_time()
    for _ in range(1000):
        assert opened("apps/Deployment", text) is text
        assert opened(WORK, text) is text
        assert encryption.sealed(other) is other
        assert encryption.sealed(copy) is copy
    spent = thread_time() - started

    assert spent < 0.1, f"{spent * 1000:.1f} µs for each object that holds no Secret"
