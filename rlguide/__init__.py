"""rlguide: reinforcement learning of language models, step by step in notebooks.

The public names below are loaded on first use, so that `import rlguide` stays light.
"""

__version__ = "0.1.0"
