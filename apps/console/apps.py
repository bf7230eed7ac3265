"""Django's registration of this app."""

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    name = "apps.console"
