"""What `apply` assumes of the stored state, checked by the database under the write lock: refuses the transaction if
something has changed."""

from django.db import migrations

_ENTER = """
    CREATE FUNCTION objects_assumed(what text, changed bigint) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE AS $$
    BEGIN
        IF changed = 0 THEN
            RETURN 0;
        END IF;
        RAISE EXCEPTION '%: % have changed; nothing of the transaction is kept', what, changed
        USING ERRCODE = 'serialization_failure',
            HINT = 'No harm is done: what was decided is compared with what is stored now. What still holds is stored.';
    END $$"""


class Migration(migrations.Migration):
    dependencies = [("objects", "0021_confirmed_restore")]

    operations = [
        migrations.RunSQL([(_ENTER, None)], "DROP FUNCTION objects_assumed(text, bigint)"),
    ]
