"""The environment `reverse-text`, under the top-level name by which verifiers finds it."""
