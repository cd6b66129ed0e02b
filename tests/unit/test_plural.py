"""Numbers with their nouns."""

from grete._plural import counted, plural


def test_only_one_is_singular() -> None:
    assert [counted(count, "node") for count in (0, 1, 2, 11)] == ["0 nodes", "1 node", "2 nodes", "11 nodes"]
    assert [plural(count, "is", "are") for count in (0, 1, 2)] == ["are", "is", "are"]
