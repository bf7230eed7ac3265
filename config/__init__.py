"""The Django project: settings, URLs, the ASGI and WSGI applications, Celery."""
