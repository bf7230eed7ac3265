"""The one place where tests make clusters, bindings, templates, policies and documents."""
