"""Run capplan as `python -m capplan`."""

from capplan.cli.main import main

main()
