"""Events of a run: of jobs, of single records, statistics, and log events of native threads."""
