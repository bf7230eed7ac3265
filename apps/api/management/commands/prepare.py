"""`manage.py prepare`: what has to be there before the first process starts; safe to run again."""

from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand

from apps.api.certificates import certificates
from apps.api.management.commands.serve import tls_folder
from apps.api.models import Token
from apps.objects.namespaces import make_namespaces
from apps.objects.store import store
from apps.worker import restored
from config import env


class Command(BaseCommand):
    help = (
        "Migrate; make the namespaces every installation has, and the login LIFEBOAT_ADMIN_NAME with "
        "LIFEBOAT_ADMIN_PASSWORD where it is missing; write its kubeconfig to LIFEBOAT_HOME for LIFEBOAT_API_URL."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        call_command("migrate", verbosity=1, interactive=False, stdout=self.stdout)
        if (held := restored.detector().check()) is not None:
            self.stdout.write(held.message)
        for made in make_namespaces(store()):
            self.stdout.write(f"namespace {made} made")
        if endless := Token.objects.filter(expires=None).count():
            self.stdout.write(f"{endless} tokens never expire (manage.py token list; token renew gives one a lifetime)")
        name, password = env.text("LIFEBOAT_ADMIN_NAME", ""), env.text("LIFEBOAT_ADMIN_PASSWORD", "")
        users = get_user_model()
        if name and password and not users.objects.filter(username=name).exists():
            users.objects.create_superuser(name, password=password)
            self.stdout.write(f"login {name} made")
        server, home = env.text("LIFEBOAT_API_URL", ""), env.text("LIFEBOAT_HOME", "")
        if name and server and home:
            trusted, file = certificates(tls_folder()).authority, Path(home) / "kubeconfig"
            words = ["--server", server, "--user", name, "--authority", str(trusted), "--out", str(file)]
            call_command("kubeconfig", *words, stdout=self.stdout)
