"""A page for every row-native table that has none of its own: nothing that is kept stays out of sight."""

from django.apps import apps
from django.contrib import admin

from apps.objects.rows_admin import RowAdmin
from apps.objects.tables import ROW_TABLES

for _label in ROW_TABLES.values():
    _model = apps.get_model(_label)
    if not admin.site.is_registered(_model):
        admin.site.register(_model, RowAdmin)
