"""Django's registration of this app."""

from django.apps import AppConfig


class ResourcesConfig(AppConfig):
    name = "apps.resources"
