"""Run of an App in one process: workers, hooks, the stop.

- `runner`: the run; `main_loop`, `signals`, `shutdown`: its main thread
- `background_run`, `running_app`: a run inside a host process
- `engine`: threads and event loop that run jobs; `instances`: consumer instances and their background work
- `events`: events of the run; `missing_topics`, `probes`: one concern each
"""
