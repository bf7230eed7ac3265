"""Between its confirmation and the first write to a member a restored database is confirmed, and still held."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("objects", "0020_row_changes")]

    operations = [
        migrations.AddField(model_name="origin", name="confirmed", field=models.BooleanField(db_default=False)),
    ]
