"""What `apply` calls at the end of each statement that writes objects: refuses it, and the transaction with it, where
other rows were written than were sent."""

from django.db import migrations

_ENTER = """
    CREATE FUNCTION objects_written(what text, sent bigint, written bigint, logged bigint) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE AS $$
    BEGIN
        IF written = sent AND logged = sent THEN
            RETURN sent;
        END IF;
        RAISE EXCEPTION '%: % rows of % were written and % logged; nothing of the transaction is kept',
            what, written, sent, logged
        USING ERRCODE = 'data_corrupted',
            HINT = 'Something else writes this table: look for triggers, rules and sessions that are not Lifeboat''s, '
                'then run "manage.py verify".';
    END $$"""


class Migration(migrations.Migration):
    dependencies = [("objects", "0009_companions")]

    operations = [
        migrations.RunSQL([(_ENTER, None)], "DROP FUNCTION objects_written(text, bigint, bigint, bigint)"),
    ]
