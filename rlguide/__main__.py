"""`python -m rlguide` is `rlguide`."""

from rlguide.cli import main

if __name__ == "__main__":
    main()
