"""The WSGI application."""

import os

from django.core.wsgi import get_wsgi_application

from config import env

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
env.required("LIFEBOAT_SECRET_KEY", example="$(openssl rand -base64 48)")
env.required("LIFEBOAT_ENCRYPTION_KEYS", example="$(openssl rand -base64 32 | tr +/ -_)")

application = get_wsgi_application()
