"""The ASGI application: Django in threads, and watches on the event loop (`apps.api.shell`)."""

import os

from django.conf import settings
from django.core.wsgi import get_wsgi_application

from config import env

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
env.required("LIFEBOAT_SECRET_KEY", example="$(openssl rand -base64 48)")
env.keys("LIFEBOAT_ENCRYPTION_KEYS", env.text("LIFEBOAT_ENCRYPTION_KEYS", default=""))

_django = get_wsgi_application()

from apps.api.shell import Shell  # noqa: E402  # after the apps have been loaded

application = Shell(
    _django,
    threads=settings.API_THREADS,
    buffer=settings.API_BUFFER,
    waiting=settings.API_WAITING,
    per_second=settings.API_PER_SECOND,
)
