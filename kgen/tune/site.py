"""What a default space is made for: a shape on a GPU."""

import dataclasses
import math

type Shape = tuple[int, int, int]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Site:
    """What a default space is made for.

    Attributes:
      shape: (m, n, k).
      num_sms: SMs of the GPU.
      matrices: Products of that shape that are computed at once.
    """

    shape: Shape
    num_sms: int
    matrices: int = 1

    def grid(self, tile_m: int, tile_n: int) -> tuple[int, int]:
        """Returns the tiles of one matrix along m and n."""
        m, n, _ = self.shape
        return math.ceil(m / tile_m), math.ceil(n / tile_n)

    def steps(self, depth: int) -> int:
        """Returns the steps of so much of k; what is left over is one, too."""
        return math.ceil(self.shape[2] / depth)
