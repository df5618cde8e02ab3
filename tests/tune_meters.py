"""What measures candidates in tests of the tuner, where there is no GPU.

A candidate of such a test is a module whose function says how it behaves. Workers import
a meter by its name; everything else is the real machinery.
"""

import os
import time
from pathlib import Path

from kgen.errors import UsageError
from kgen.tune.meter import Times, WrongResultError

MACHINE = {"device": "stand-in", "jax": "0.0"}


class Meter:
    """Does what the candidate's function says, in `prepare` and in `measure`."""

    def __init__(self, request):
        self.request = request
        self.is_ready = False
        # The environment of a worker is not the user's.
        self.log = Path(os.environ["HOME"]) / "measured.log"

    def connect(self):
        return MACHINE

    def setup(self, reference):
        assert (reference is None) == (not self.request.source)

    def compute(self):
        self.is_ready = True

    def prepare(self, function):
        assert self.is_ready
        said = function()
        behave(said.get("prepare"))
        return said

    def measure(self, prepared, rounds):
        with self.log.open("a") as log:
            log.write(f"begin {prepared['name']}\n")
        behave(prepared.get("measure"))
        if prepared.get("measure") == "wrong":
            raise WrongResultError("it is off")
        time.sleep(prepared.get("seconds", 0.0))
        us, noise = prepared["us"], prepared.get("noise", 0.0)
        with self.log.open("a") as log:
            log.write(f"end {prepared['name']} {rounds}\n")
        times = tuple(us * (1 + noise * (turn % 3 - 1)) for turn in range(rounds))
        return Times(us=times, peer_us=(100.0,) * rounds)


class NoGpu(Meter):
    """Finds nothing to measure on."""

    def connect(self):
        raise UsageError("nothing to measure on")


class Broken(Meter):
    """Ends the process before it is ready."""

    def setup(self, reference):
        os._exit(7)


class Rendered(Meter):
    """Takes real modules, whose name of the tile decides how long they take."""

    def prepare(self, function):
        constants = function.__wrapped__.__globals__
        tile = constants["TILE_M"] * constants["TILE_N"]
        return {"name": f"{tile}", "us": 1e6 / tile}


def behave(how):
    match how:
        case "hang":
            time.sleep(1000)
        case "abort":
            os.abort()
        case "raise":
            raise RuntimeError("planted")
        case "exit":
            raise SystemExit(3)


class NeverRight(Rendered):
    """Finds every result wrong."""

    def measure(self, prepared, rounds):
        raise WrongResultError("never <b>right")
