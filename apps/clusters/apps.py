"""Django's registration of this app."""

from django.apps import AppConfig


class ClustersConfig(AppConfig):
    name = "apps.clusters"
