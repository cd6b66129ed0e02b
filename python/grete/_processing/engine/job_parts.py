"""Parts that run jobs, without the threads that call them."""

from collections.abc import Callable, Mapping, Sequence

from grete import _native
from grete._processing.engine.dead_letter_writer import DeadLetters
from grete._processing.engine.failures import FailedJob, Failures
from grete._processing.engine.hook_runner import HookRunner, RunBlocking, run_inline
from grete._processing.engine.run_control import RunControl
from grete._processing.instances.context import GroupClient
from grete._processing.instances.registry import InstanceRegistry
from grete._processing.instances.teardown import InstanceTeardown
from grete._processing.instances.thread_leaks import ThreadLeakDetector
from grete._routing.provider_scopes import ProcessProviders
from grete._routing.routes import Route
from grete.client import Producer
from grete.instrumentation.monitor import Monitor


class JobParts:
    """Instances, hooks, failures and dead letters of one run.

    The threads of an App and the driver of `grete.testing` take jobs from a dispatcher, run them with a hook runner,
    and pass exceptions to `failures`.
    """

    def __init__(
        self,
        routes: Sequence[Route],
        dispatcher: _native.Dispatcher,
        clients: Mapping[int, GroupClient],
        producer: Callable[[], Producer],
        groups: Mapping[int, str],
        control: RunControl,
        monitor: Monitor | None = None,
        *,
        leak_report: bool = False,
        on_failed: Callable[[FailedJob], None] | None = None,
    ) -> None:
        """`clients` and `groups` (the consumer groups' names) go by `Route.id`. `leak_report`: the setting.

        `on_failed`: called for each job that was returned as failed.
        """
        self.routes = {route.id: route for route in routes}
        self.providers = ProcessProviders(monitor)
        self.instances = InstanceRegistry(dispatcher, clients, producer, monitor, self.providers)
        self.leak_detector = ThreadLeakDetector(leak_report, monitor)
        self.teardown = InstanceTeardown(self.leak_detector, monitor)
        self.failures = Failures(self.routes, dispatcher, control, monitor, on_failed, groups)
        self._dead_letters = DeadLetters(producer, groups, monitor)
        self._clients = clients
        self._groups = groups
        self._monitor = monitor

    def new_hook_runner(self, run_blocking: RunBlocking = run_inline) -> HookRunner:
        """Returns a hook runner, for worker threads or for one event loop. `run_blocking`: see `HookRunner`."""
        return HookRunner(
            self.routes,
            self.instances,
            self.teardown,
            self._dead_letters,
            self._clients,
            self._groups,
            run_blocking,
            self._monitor,
            self.providers,
        )
