from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0006_indexes")]

    operations = [
        migrations.AddField(model_name="promise", name="reserved", field=models.BooleanField(db_default=False)),
    ]
