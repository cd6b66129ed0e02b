"""Member ids of nodes: unique, and known to the next process alone."""

from grete._swarm.member_ids import MemberIds


def test_the_first_process_of_a_node_has_no_predecessor() -> None:
    ids = MemberIds()
    own, before = ids.for_process(0, 100)
    assert before is None
    ids.on_forked(1, 101)
    assert ids.for_process(0, 100) == (own, None)


def test_the_next_process_knows_the_one_before_alone() -> None:
    ids = MemberIds()
    own: list[str] = []
    for pid in (100, 101, 102):
        member_id, before = ids.for_process(2, pid)
        assert before == (own[-1] if own else None)
        own.append(member_id)
        ids.on_forked(2, pid)
    assert len(set(own)) == 3


def test_swarms_and_nodes_have_ids_of_their_own() -> None:
    ids = MemberIds()
    assert len({ids.for_process(0, 100)[0], ids.for_process(1, 100)[0], MemberIds().for_process(0, 100)[0]}) == 3
