"""The sizes of the tiny policy. Loads no torch, so that they can be asked for before it may be used."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """Sizes of the network."""

    hidden: int = 128
    layers: int = 4
    heads: int = 2
    """Query heads of 64 numbers each."""
    kv_heads: int = 1
    intermediate: int = 384
