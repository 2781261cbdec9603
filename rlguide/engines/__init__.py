"""Training frameworks behind one small interface; `ENGINES` is the list."""
