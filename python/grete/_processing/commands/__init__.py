"""Commands that `grete web` sends to a process through a topic: their form, their check and their execution."""
