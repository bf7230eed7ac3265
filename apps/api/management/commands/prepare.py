"""`manage.py prepare`: prepares the database before the first process starts. It is safe to run it again."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand

from apps.api.certificates import certificates
from apps.api.client_authority import make_authority
from apps.api.cluster_info import write_cluster_info
from apps.api.management.commands.serve import tls_folder
from apps.api.models import Token
from apps.objects.default_roles import make_roles
from apps.objects.namespaces import make_namespaces
from apps.objects.store import store
from apps.worker import restored
from apps.worker.credentials import authority
from config import env
from controlplane.authorization import registration_roles


class Command(BaseCommand):
    help = (
        "Apply migrations, create the namespaces that every installation needs, create the user LIFEBOAT_ADMIN_NAME "
        "with LIFEBOAT_ADMIN_PASSWORD if it is missing, and write its kubeconfig for LIFEBOAT_API_URL to LIFEBOAT_HOME."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        call_command("migrate", verbosity=1, interactive=False, stdout=self.stdout)
        if (held := restored.detector().check()) is not None:
            self.stdout.write(held.message)
        for made in make_namespaces(store()):
            self.stdout.write(f"namespace {made} created")
        for made in (*make_roles(store()), *make_roles(store(), registration_roles.documents)):
            self.stdout.write(f"{made} written")
        if endless := Token.objects.filter(expires=None).count():
            self.stdout.write(
                f"{endless} tokens never expire: see manage.py token list; manage.py token renew sets a lifetime"
            )
        name, password = env.text("LIFEBOAT_ADMIN_NAME", ""), env.text("LIFEBOAT_ADMIN_PASSWORD", "")
        users = get_user_model()
        if name and password and not users.objects.filter(username=name).exists():
            users.objects.create_superuser(name, password=password)
            self.stdout.write(f"user {name} created")
        server, home = env.text("LIFEBOAT_API_URL", ""), env.text("LIFEBOAT_HOME", "")
        if make_authority(store()):
            self.stdout.write("authority of client certificates created")
        if settings.DEVELOPMENT:
            certificates(tls_folder())
        if server and write_cluster_info(store(), server=server, authority=authority()):
            self.stdout.write(f"ConfigMap kube-public/cluster-info written for {server}")
        if name and server and home:
            trusted, file = certificates(tls_folder()).authority, Path(home) / "kubeconfig"
            words = ["--server", server, "--user", name, "--authority", str(trusted), "--out", str(file)]
            call_command("kubeconfig", *words, stdout=self.stdout)
