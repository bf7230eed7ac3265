"""Django's registration of this app."""

from django.apps import AppConfig


class SimulatorConfig(AppConfig):
    name = "apps.simulator"
