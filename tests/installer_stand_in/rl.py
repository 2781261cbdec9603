"""The stand-in for `rl --help`."""

from installer_stand_in import note_call, told


def main() -> int:
    note_call("rl")
    print("usage: rl [@ FILE] [OPTIONS]" if told()["help_code"] == 0 else "ImportError: undefined symbol")
    return told()["help_code"]
