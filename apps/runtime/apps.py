"""Django's registration of this app."""

from django.apps import AppConfig


class RuntimeConfig(AppConfig):
    name = "apps.runtime"
