"""Result of one step of `grete doctor`."""

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

# Days before the end of a certificate from which on the doctor warns.
_WARNING_DAYS = 30
_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class CertificateEnd:
    """End of a certificate's life. `at`: seconds since 1970; `now`: the same clock, when the doctor looked."""

    at: float
    now: float

    @property
    def days_left(self) -> int:
        """Whole days until the end; negative: it has passed."""
        return math.floor((self.at - self.now) / _DAY)

    @property
    def warning(self) -> str | None:
        """Warning with the date; None: enough time is left."""
        if self.days_left >= _WARNING_DAYS:
            return None
        return f"renew it before it expires on {self._date}" if self.at > self.now else f"it expired on {self._date}"

    @property
    def text(self) -> str:
        """Days that are left, with the warning."""
        left = f"{self.days_left} days left of the certificate" if self.at > self.now else "the certificate"
        return f"{left}, until {self._date}" if self.warning is None else f"{left}: WARNING: {self.warning}"

    @property
    def _date(self) -> str:
        try:
            return f"{datetime.fromtimestamp(self.at, UTC):%Y-%m-%d}"
        except (ValueError, OverflowError, OSError):
            return "a day beyond the year 9999"


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one step. `problem`: what is wrong, then the cure; None: the step is ok. `certificate`: end of the
    certificate that the step has seen.
    """

    step: str
    subject: str
    problem: str | None = None
    seconds: float = 0.0
    certificate: CertificateEnd | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return self.problem is None

    def fields(self) -> dict[str, Any]:
        """Returns the finding as an object of JSON."""
        fields: dict[str, Any] = {"step": self.step, "subject": self.subject, "ok": self.ok, "problem": self.problem}
        fields["seconds"] = round(self.seconds, 3)
        if self.certificate is not None:
            fields |= {"days_left": self.certificate.days_left, "warning": self.certificate.warning}
        return fields

    def line(self) -> str:
        """Returns the finding as a line of text."""
        text = self.problem or "ok"
        if self.certificate is not None:
            text += f" ({self.certificate.text})"
        return f"{self.step:<12} {self.subject}: {text}"
