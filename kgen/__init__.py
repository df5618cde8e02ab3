"""kgen: Pallas Mosaic GPU kernels from declarative specs."""

__version__ = "0.1.0"
