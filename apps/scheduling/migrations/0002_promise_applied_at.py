from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0001_tables")]

    operations = [
        migrations.AddField(model_name="promise", name="applied_at", field=models.DateTimeField(null=True)),
    ]
