"""Execution of jobs: everything between the dispatcher and the handlers.

- `engine`: owns the threads; `worker`: worker thread; `loop_thread`, `host_loop`: event loops with `async_job_runner`
- `job_parts`: all parts below that need no thread
- `hook_runner`: calls hooks of instances; `failures`, `dead_letters`: what happens to failed jobs
- `running_jobs`, `blocked_loop`: reports with stacks; `run_control`: interfaces to the run
"""
