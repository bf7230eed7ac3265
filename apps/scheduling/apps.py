"""Django's registration of this app."""

from django.apps import AppConfig


class SchedulingConfig(AppConfig):
    name = "apps.scheduling"
