"""When tokens of ServiceAccounts and sessions of browsers were last used."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("api", "0005_service_account_tokens"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField("serviceaccounttoken", "last_used", models.DateTimeField(blank=True, null=True)),
        migrations.CreateModel(
            name="LoginSession",
            fields=[
                ("session_key", models.CharField(max_length=40, primary_key=True, serialize=False)),
                ("created", models.DateTimeField()),
                ("last_used", models.DateTimeField()),
                ("address", models.TextField()),
                ("agent", models.TextField()),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="login_sessions",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
    ]
