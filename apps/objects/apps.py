"""Django's registration of this app."""

from django.apps import AppConfig


class ObjectsConfig(AppConfig):
    name = "apps.objects"
