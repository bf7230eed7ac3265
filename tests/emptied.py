"""Empties the test database. Tables without rows are left alone, and what Django itself writes once is kept."""

from __future__ import annotations

# The flush of Django truncates every table and then writes all content types and permissions again: 150 ms for each
# test, most of them on empty tables.
_EMPTY = """
DO $$
DECLARE
    candidate regclass;
    filled text[] := '{}';
    has_rows boolean;
BEGIN
    FOR candidate IN
        SELECT oid FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
            AND relname NOT IN ('django_migrations', 'django_content_type', 'auth_permission')
    LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM %s)', candidate) INTO has_rows;
        IF has_rows THEN
            filled := filled || candidate::text;
        END IF;
    END LOOP;
    IF filled <> '{}' THEN
        EXECUTE format('TRUNCATE %s CASCADE', array_to_string(filled, ', '));
    END IF;
END
$$
"""


def empty_database() -> None:
    """Remove all rows that tests have written to the database of this process.

    A test that ends sessions of the database closes the connections of this process, too (`tests/browser/conftest.py`).
    """
    from django.db import connection  # here: pure tests run without Django

    with connection.cursor() as cursor:
        cursor.execute(_EMPTY)
