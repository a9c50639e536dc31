"""Find the packages of the wheel: all below `capplan`, and the GPU database and the documentation beside it."""

from setuptools import find_packages, setup

setup(packages=[*find_packages(include=["capplan", "capplan.*"]), "capplan.gpu_specs", "capplan.docs"])
