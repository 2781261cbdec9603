"""Makes the tiny policy's warm start: supervised fine-tuning from random weights on a mixture of behaviours.

    python -m rlguide.programs.warm_start --output FOLDER [--steps N --hidden N …]
    python -m rlguide.programs.warm_start --measure-only FOLDER

The same on a CPU and on a GPU, in float32. Writes the checkpoint, `trained.json` (what was asked, on what hardware, how
long it took) and `measured.json` (what the policy does on held-out texts). Does no reinforcement learning.
"""

import os
import sys
from collections.abc import Sequence

from rlguide.engines import require_installed
from rlguide.errors import RlguideError
from rlguide.programs.warm_start_options import parse
from rlguide.slot import cpu_slot


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments, __doc__)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is loaded from the Hub, so never ask it
    try:
        require_installed("trl")
        with cpu_slot("rlguide warm-start"):
            from rlguide.programs.warm_start_training import make  # torch is loaded once it may be used

            make(options)
    except RlguideError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
