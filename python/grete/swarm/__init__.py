"""One supervisor that never polls, and the processes that it forks, watches and replaces."""
