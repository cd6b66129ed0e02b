"""Claims of the demo: what the story says that happens, and whether it did."""

import enum
from dataclasses import dataclass


class Result(enum.Enum):
    """State of a claim."""

    OPEN = "open"
    RUNNING = "running"
    TRUE = "true"
    FALSE = "false"


@dataclass(slots=True)
class Claim:
    """One claim. `where`: the page of the documents for a claim that does not come true."""

    title: str
    where: str
    result: Result = Result.OPEN
    detail: str = ""
    """Evidence of a claim that is true, cause of one that is false, the latest happening for one that is running."""
    seconds: float = 0.0
    """Time at which the result was known, since the start of the demo."""

    def decide(self, result: Result, detail: str, seconds: float) -> None:
        """Sets the result."""
        self.result, self.detail, self.seconds = result, detail, seconds


class ClaimFailedError(Exception):
    """A claim did not come true, or cannot any more. The text is the cause."""


class InterruptedDemoError(Exception):
    """A signal ends the demo. `number`: the signal."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by signal {number}")
        self.number = number


def new_claims() -> list[Claim]:
    """Returns the claims of the story, in the order of its steps."""
    return [
        Claim("Two nodes share the orders", "docs/swarm.md"),
        Claim("A poison order is retried", "docs/processing.md#when-a-handler-raises"),
        Claim("It becomes a dead letter", "docs/dead-letters.md"),
        Claim("A killed node comes back", "docs/static-membership.md"),
        Claim("The dead letter is replayed", "docs/dead-letters.md#replay"),
        Claim("No order is lost", "docs/processing.md#offsets"),
        Claim("The swarm stops cleanly", "docs/stopping.md"),
    ]
