"""The database backend of this project (`ENGINE`): Django's for PostgreSQL with the counts of django-prometheus."""
