"""What runs an App: workers, hooks, the stop."""
