from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0005_no_pattern_indexes")]

    operations = [
        migrations.AddIndex("promise", models.Index(fields=["made_at"], name="promise_made_at")),
        migrations.AddIndex("placementnote", models.Index(fields=["fleet"], name="placementnote_fleet")),
    ]
