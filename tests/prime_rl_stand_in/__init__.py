"""Stand-in programs for prime-rl at the run guide's release: real processes, without GPUs, network or prime-rl.

`make_checkout` makes a folder that looks like a checkout of prime-rl, with a virtual environment whose programs are
the modules here. They do what the real ones do as far as another program can see it: process tree, files, log lines,
exit codes, HTTP. `behaviour.DEFAULTS` lists what they can be told to do otherwise, by `tell` or by variables.
"""

from prime_rl_stand_in.checkout import FAST as FAST
from prime_rl_stand_in.checkout import calls as calls
from prime_rl_stand_in.checkout import environment_of as environment_of
from prime_rl_stand_in.checkout import make_checkout as make_checkout
from prime_rl_stand_in.checkout import tell as tell
