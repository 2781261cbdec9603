"""Which test modules are left out where only the light core is installed."""

NEEDS_LOCAL = (
    "accounts", "checks", "cli", "console", "display", "environment", "environment_yml", "evaluation", "fitted",
    "form", "glossary", "gpus", "headless", "hostile_machines", "import_cost", "import_trial", "links", "live",
    "pictures", "plots", "progress", "proxies", "reporting", "secrets", "server", "tokenizer", "trl_engine",
    "verified_runs", "warm_start", "words", "workflows",
)  # fmt: skip
"""Test modules, beside those that train, that need the packages of the extras `local` and `notebooks`."""
ONCE = ("installing", "makefile", "prime_rl_runs", "prime_rl_stand_in", "wheel")
"""Test modules that take long and say the same on every Python."""
