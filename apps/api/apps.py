"""Django's registration of this app."""

from django.apps import AppConfig


class ApiConfig(AppConfig):
    name = "apps.api"
