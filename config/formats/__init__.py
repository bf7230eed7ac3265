"""Formats of dates and times on pages."""
