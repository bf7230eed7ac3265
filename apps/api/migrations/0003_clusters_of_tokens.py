"""Existing tokens of agents get the uid of the Cluster with their name. Without such a Cluster they are invalid."""

from django.conf import settings
from django.db import migrations

_ENTER = """
    UPDATE api_token t SET cluster_uid = coalesce(
        (SELECT c.uid FROM clusters_cluster c WHERE 'system:lifeboat:agent:' || c.name = u.username), '')
    FROM auth_user u WHERE u.id = t.user_id AND u.username LIKE 'system:lifeboat:agent:%%'"""


class Migration(migrations.Migration):
    dependencies = [
        ("api", "0002_tokens_of_agents"),
        ("clusters", "0005_resumed_at"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [migrations.RunSQL([(_ENTER, [])], migrations.RunSQL.noop)]
