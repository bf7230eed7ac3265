from django.db import migrations, models
from django.db.models.functions import Lower


class Migration(migrations.Migration):
    dependencies = [("objects", "0004_sweep")]

    operations = [
        migrations.RemoveIndex("due", "due_next"),
        migrations.AddIndex("due", models.Index(Lower("controller"), "due_at", name="due_next")),
    ]
