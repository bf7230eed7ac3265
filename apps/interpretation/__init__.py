"""Interpretation by scripts and webhooks of users: processes for Lua, calls of webhooks, the rules in force."""
