"""Story of the demo: its claims in their order, and how each is shown and checked."""

import functools
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable

from grete._demo import orders
from grete._demo.children import NODES, Failure, spawn
from grete._demo.claims import Claim, ClaimFailedError, Result
from grete._demo.stage import DEAD_LETTERS, GROUP, TOPICS, Stage
from grete._dlq import header_names
from grete._plural import counted, plural
from grete.errors import GreteError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from grete._swarm.status.snapshot import NodeStatus

ATTEMPTS = 3
"""Attempts of the App's retry policy."""
_RATE_OF_POISON = {orders.POISON_CURRENCY: 1.07}
# Time between two steps, so that one can see the flow as it usually is.
_PAUSE_SECONDS = 2.5
_KILLED_NODE = NODES - 1


class Story:
    """Steps of the demo. Each returns its evidence, or raises ClaimFailedError."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._poison = (-1, -1, -1)  # number, partition, offset
        self.steps: list[Callable[[], str]] = [
            self._share,
            self._retry,
            self._dead_letter,
            self._kill,
            self._replay,
            self._lose_nothing,
            self._stop,
        ]

    def run(self) -> None:
        """Runs all steps. After the first one fails, a step is tried if the swarm still runs."""
        claims = self._stage.picture.claims
        for claim, step in zip(claims, self.steps, strict=True):
            if step == self._lose_nothing and self._stage.has_web:
                self._stage.picture.note("the App goes on until Ctrl-C; see its page")
                self._stage.wait_for_signal()
            claim.result = Result.RUNNING
            try:
                self._require(claim, claims)
                detail = step()
            except (ClaimFailedError, GreteError, TimeoutError) as error:
                claim.decide(Result.FALSE, str(error), self._stage.picture.elapsed)
            else:
                claim.decide(Result.TRUE, detail, self._stage.picture.elapsed)
            self._stage.draw()
            self._stage.raise_if_interrupted()

    def _require(self, claim: Claim, claims: list[Claim]) -> None:
        """Raises ClaimFailedError if nothing can be tried for the claim."""
        if claims[0].result is Result.FALSE and claim is not claims[-1]:
            raise ClaimFailedError("not tried: no swarm was ready")
        if self._stage.swarm.exit_status() is not None:
            raise ClaimFailedError("not tried: the swarm has ended")

    # Steps

    def _share(self) -> str:
        self._stage.picture.note(f"grete swarm --nodes {NODES} starts")
        self._stage.producer.start()
        self._stage.wait_for(self._all_ready, 20.0, f"{NODES} nodes that are ready and have partitions")
        pids = " and ".join(str(node["pid"]) for node in self._stage.picture.nodes)
        return f"processes {pids}, {orders.RATE:,} orders/s"

    def _retry(self) -> str:
        self._flow()
        self._poison = self._stage.producer.write_poison()
        picture = self._stage.picture
        picture.note(f"order {self._poison[0]:,} is in {orders.POISON_CURRENCY}, which has no rate")
        seen: list[tuple[Failure, int]] = []
        for number in range(1, ATTEMPTS + 1):
            failure = self._stage.wait_for(functools.partial(self._attempt, number), 10.0, f"attempt {number}")
            picture.note(f"attempt {number} of {ATTEMPTS} fails: {failure['error']}")
            seen.append((failure, picture.handled.count))
        (first, before), (last, after) = seen[0], seen[-1]
        others = after - before
        if not others:
            raise ClaimFailedError("no other order was handled between the attempts")
        attempts = sum(self._is_poison(failure) for failure in self._stage.swarm.failures)
        if attempts != ATTEMPTS:
            raise ClaimFailedError(f"{counted(attempts, 'attempt')} instead of {ATTEMPTS}")
        return f"{attempts} attempts in {last['at'] - first['at']:.1f} s, {others:,} others meanwhile"

    def _dead_letter(self) -> str:
        broker = self._stage.broker
        (letter,) = self._stage.wait_for(
            lambda: broker.records(DEAD_LETTERS) or None, 10.0, f"a record in {DEAD_LETTERS}"
        )
        headers = {name: (value or b"").decode() for name, value in letter.headers}
        order = json.loads(letter.value or b"")["id"]
        attempts = headers.get(header_names.ATTEMPTS)
        if (order, attempts) != (self._poison[0], str(ATTEMPTS)):
            raise ClaimFailedError(f"order {order} after {attempts} attempts, instead of order {self._poison[0]}")
        error = headers[header_names.ERROR_CLASS].rpartition(".")[2]
        return f"{letter.topic}[{letter.partition}]:{letter.offset}, {error}"

    def _kill(self) -> str:
        self._flow()
        before = self._killed_node()
        neighbor = self._generations()
        pid = before["pid"]
        if pid is None:
            raise ClaimFailedError(f"node {_KILLED_NODE} has no process")
        killed = time.monotonic()
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            raise ClaimFailedError(f"process {pid} of node {_KILLED_NODE} had ended by itself") from None
        self._stage.picture.note(f"SIGKILL to node {_KILLED_NODE}, process {pid}")

        def is_forked() -> bool:
            return self._killed_node()["pid"] not in (None, pid)

        def is_back() -> bool:
            node = self._killed_node()
            return is_forked() and node["state"] == "ready" and bool(node["records"])

        self._stage.wait_for(is_forked, 10.0, f"a new process of node {_KILLED_NODE}")
        self._stage.picture.note(f"node {_KILLED_NODE} starts again as process {self._killed_node()['pid']}")
        self._stage.wait_for(is_back, 20.0, f"node {_KILLED_NODE} to be ready and to handle orders")
        after = self._killed_node()
        if after["last_death"] != "killed by SIGKILL":
            raise ClaimFailedError(f"node {_KILLED_NODE} ended otherwise: {after['last_death']}")
        seconds = time.monotonic() - killed
        self._flow()  # by its end, both nodes have reported again
        if self._generations() != neighbor:
            raise ClaimFailedError("the group has rebalanced")
        return f"{pid} is now {after['pid']}, {seconds:.1f} s, no rebalance"

    def _replay(self) -> str:
        (self._stage.directory / "rates.json").write_text(json.dumps(_RATE_OF_POISON))
        self._stage.picture.note(f"rates.json has {orders.POISON_CURRENCY}; grete dlq replay {DEAD_LETTERS}")
        words = ["dlq", "replay", DEAD_LETTERS, "--yes", "--bootstrap", self._stage.broker.bootstrap_servers]
        with spawn(words, self._stage.directory, subprocess.PIPE, subprocess.STDOUT) as command:
            try:
                status = self._stage.wait_for(command.poll, 20.0, "grete dlq replay")
            finally:
                command.kill()
            assert command.stdout is not None
            output = command.stdout.read().decode(errors="replace").strip()
        if status:
            raise ClaimFailedError(f"grete dlq replay: status {status}: {output}")
        self._stage.picture.note(output.splitlines()[-1] if output else "it printed nothing")
        number = self._poison[0]
        self._stage.wait_for(lambda: self._stage.invoices.has(number), 5.0, f"the invoice of order {number}")
        return f"order {number:,} has its invoice"

    def _lose_nothing(self) -> str:
        self._stage.producer.stop()
        written = self._stage.producer.written
        invoiced = self._stage.invoices
        self._stage.wait_for(lambda: invoiced.orders >= written, 10.0, "the last invoices")
        broker = self._stage.broker

        def is_committed() -> bool:
            committed = broker.committed(GROUP)
            ends = [end for _, end in broker.offsets(orders.TOPIC)]
            return all(committed.get((orders.TOPIC, at), 0) == end for at, end in enumerate(ends))

        self._stage.wait_for(is_committed, 10.0, "the commit of the last offsets")
        if letters := len(broker.records(DEAD_LETTERS)) - 1:
            raise ClaimFailedError(f"{letters} more dead letters")
        return f"{written:,} written, all handled, {invoiced.repeated:,} twice"

    def _stop(self) -> str:
        status = self._stage.stop_swarm()
        if status != 0:
            raise ClaimFailedError("it did not end in time" if status is None else f"exit status {status}")
        if members := self._stage.broker.members(GROUP):
            raise ClaimFailedError(
                f"{len(members)} {plural(len(members), 'member has', 'members have')} not left the group"
            )
        return "exit status 0, the group is empty"

    # Conditions of the steps

    def _flow(self) -> None:
        """Waits for a while, for further orders to be handled, and for a small lag."""
        self._stage.picture.note("some more orders, until the flow is steady")
        picture = self._stage.picture
        before, begun = picture.handled.count, time.monotonic()

        def flows() -> bool:
            is_steady = picture.handled.count > before and picture.lag < orders.RATE
            return is_steady and time.monotonic() - begun >= _PAUSE_SECONDS

        self._stage.wait_for(flows, 15.0, "further orders to be handled, with a small lag")

    def _all_ready(self) -> bool:
        nodes = self._stage.picture.nodes
        partitions = TOPICS[orders.TOPIC] // NODES
        return len(nodes) == NODES and all(
            node["state"] == "ready" and node["records"] and sum(node["lanes"].values()) == partitions for node in nodes
        )

    def _is_poison(self, failure: Failure) -> bool:
        _, partition, offset = self._poison
        return failure["partition"] == partition and failure["first_offset"] <= offset <= failure["last_offset"]

    def _attempt(self, number: int) -> Failure | None:
        failures = [failure for failure in self._stage.swarm.failures if self._is_poison(failure)]
        return failures[number - 1] if len(failures) >= number else None

    def _killed_node(self) -> "NodeStatus":
        nodes = self._stage.picture.nodes
        if len(nodes) <= _KILLED_NODE:
            raise ClaimFailedError("the supervisor does not respond")
        return nodes[_KILLED_NODE]

    def _generations(self) -> list[int | None]:
        """Returns the generations of the node that is not killed: a rebalance would give a new one."""
        return [group["generation"] for group in self._stage.picture.nodes[0]["groups"]]
