"""Preloads, and hooks that open and close resources, around the jobs of a process."""
