"""capplan: which GPU fits a model, how fast it runs there and what it costs, before anyone buys one."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("capplan")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"
