"""Propagation: from a template and its policy to a binding, and from a binding to the Works for its clusters."""
