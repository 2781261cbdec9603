"""Draws records for people: plain text here, pictures and widgets beside it. Knows nothing of engines or processes."""
