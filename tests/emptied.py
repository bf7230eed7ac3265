"""Empties the test database. Tables without rows are left alone, and what Django itself writes once is kept."""

from __future__ import annotations

# The flush of Django truncates every table and then writes all content types and permissions again: 150 ms for each
# test, most of them on empty tables. TRUNCATE makes new files for a table and its indexes, and each session plans its
# statements again, so a superuser deletes the rows of small tables, without triggers and constraints.
_EMPTY = """
DO $$
DECLARE
    candidate regclass;
    size bigint;
    large text[] := '{}';
    has_rows boolean;
    deletes boolean := current_setting('is_superuser') = 'on';
BEGIN
    IF deletes THEN
        SET LOCAL session_replication_role = replica;
    END IF;
    FOR candidate, size IN
        SELECT oid, CASE relkind WHEN 'r' THEN pg_relation_size(oid)
            ELSE (SELECT sum(pg_relation_size(inhrelid)) FROM pg_inherits WHERE inhparent = oid) END
        FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
            AND relname NOT IN ('django_migrations', 'django_content_type', 'auth_permission')
    LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM %s)', candidate) INTO has_rows;
        IF has_rows AND deletes AND size <= 65536 THEN
            EXECUTE format('DELETE FROM %s', candidate);
        ELSIF has_rows THEN
            large := large || candidate::text;
        END IF;
    END LOOP;
    IF large <> '{}' THEN
        EXECUTE format('TRUNCATE %s CASCADE', array_to_string(large, ', '));
    END IF;
END
$$
"""


def empty_database() -> None:
    """Remove all rows that tests have written to the database of this process.

    A test that ends sessions of the database closes the connections of this process, too (`tests/browser/conftest.py`).
    """
    from django.db import connection  # here: pure tests run without Django

    from apps.objects import counts

    with connection.cursor() as cursor:
        cursor.execute(_EMPTY)
    counts.forget()
