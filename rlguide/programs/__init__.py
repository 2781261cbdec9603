"""Programs that run as child processes (`python -m rlguide.programs.NAME`). The package never imports them."""
