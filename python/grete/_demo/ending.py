"""Summary after the demo: what was seen, or what did not come true, and what to type next."""

from pathlib import Path

from grete._demo.picture import Picture

NEXT = """\
What to type next, here and in a second terminal:
  grete demo --app > shop.py
  grete dev shop:app --topic orders:4 --topic invoices --topic orders.dlq
  echo '{"id": 1, "amount": 5, "currency": "CHF"}' | grete produce orders
  grete dlq list orders.dlq
  echo '{"CHF": 1.07}' > rates.json && grete dlq replay orders.dlq
"""


def summary(picture: Picture, log: Path) -> str:
    """Returns the text. `log`: the log of the App, which exists if a claim failed."""
    failed = picture.failed()
    if not failed:
        return f"All {len(picture.claims)} claims came true, within {picture.elapsed:.0f} s.\n{NEXT}"
    lines = [f"{len(failed)} of {len(picture.claims)} claims did not come true:"]
    for claim in failed:
        lines += [f'  "{claim.title}": {claim.detail}', f"      read {claim.where}"]
    lines.append(f"The log of the App is {log}")
    return "\n".join(lines) + "\n"
