"""Where the work of a sweep runs: child processes of this machine, tasks of a Ray cluster, devices that measure."""
