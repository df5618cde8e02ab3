"""The spec: what the user said, as written."""
