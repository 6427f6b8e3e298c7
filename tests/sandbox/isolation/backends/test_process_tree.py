"""The descent of processes."""

from affiant.sandbox.isolation.backends.process_tree import descendants


def test_all_that_descend_are_found_the_older_first():
    assert descendants(2, [(1, 0), (2, 1), (3, 1), (4, 2), (5, 2), (6, 4)]) == [2, 4, 5, 6]


def test_what_is_not_there_has_no_descendants():
    assert descendants(9, [(1, 0), (2, 9)]) == []


def test_a_list_that_was_read_while_pids_were_used_again_ends_too():
    assert descendants(1, [(1, 2), (2, 1), (3, 2), (3, 1)]) == [1, 2, 3]
