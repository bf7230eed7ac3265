"""Django's registration of this app."""

from django.apps import AppConfig


class WorkerConfig(AppConfig):
    name = "apps.worker"
