"""The WSGI application."""

import os

from django.core.wsgi import get_wsgi_application

from config import env

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
env.required("LIFEBOAT_SECRET_KEY", example="$(openssl rand -base64 48)")
env.keys("LIFEBOAT_ENCRYPTION_KEYS", env.text("LIFEBOAT_ENCRYPTION_KEYS", default=""))

application = get_wsgi_application()
