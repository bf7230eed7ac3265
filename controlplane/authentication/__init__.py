"""Credentials that the control plane issues or accepts: rules about them, as pure functions."""
