"""What Kubernetes makes of a document of a built-in kind: its defaults, the rules for its values, its fixed fields.

Tables say it for each type of the API (`*_types`), under the name that the type has in the schemas of
`controlplane.wire.builtin`. `walk` compiles them for a kind.
"""
