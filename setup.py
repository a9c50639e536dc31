"""Find the packages of the wheel: all below `capplan`, and the GPU database, a folder beside it that becomes one."""

from setuptools import find_packages, setup

setup(packages=[*find_packages(include=["capplan", "capplan.*"]), "capplan.gpu_specs"])
