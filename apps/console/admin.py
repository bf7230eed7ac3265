"""A list page for every table of row-native values that has no page of its own."""

from django.contrib import admin

from apps.objects.row_model import row_models
from apps.objects.rows_admin import RowAdmin

for _model in row_models().values():
    if not admin.site.is_registered(_model):
        admin.site.register(_model, RowAdmin)
