"""README.md: its commands can be run one after the other."""

import re
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_a_command_of_the_first_consumer_that_reads_a_topic_ends() -> None:
    section = README.read_text().partition("## The first consumer\n")[2].partition("\n## ")[0]
    reading = re.findall(r"^    (grete consume .*)$", section, re.MULTILINE)
    assert reading
    assert [line for line in reading if "--until-end" not in line] == []
