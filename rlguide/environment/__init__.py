"""The reverse-text task: its texts, its reward, and the verifiers environment made of them."""
