"""Keep how long a token is valid, for renewals. Tokens that never expire stay valid until they are revoked."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("api", "0003_clusters_of_tokens")]

    operations = [
        migrations.AddField("token", "lifetime", models.DurationField(blank=True, null=True)),
        migrations.RunSQL(
            "UPDATE api_token SET lifetime = expires - created WHERE expires IS NOT NULL", migrations.RunSQL.noop
        ),
    ]
