"""Names that tmux takes as they are."""

import pytest

from jobwire.coordination.sessions.names import check_session_name
from jobwire.core.errors import InvalidInputError
from jobwire.runner.tmux import PANE_VARIABLES, check_socket_name, for_pane


@pytest.mark.parametrize("name", ["work", "a b", "büro", "feature/x", "x-1_2", "9"])
def test_plain_names_are_taken(name: str) -> None:
    """Letters, digits, blanks and slashes are no matter for tmux."""
    assert check_session_name(name) == name


@pytest.mark.parametrize("name", ["", "a:b", "v1.2", "-x", "=x", "$1", "@1", "%1", "a\nb", "x" * 65])
def test_names_that_tmux_would_read_otherwise_are_refused(name: str) -> None:
    """What separates windows and panes, or begins an id or an option, is refused with the reason."""
    with pytest.raises(InvalidInputError, match="tmux session"):
        check_session_name(name)


def test_a_socket_is_a_file_name() -> None:
    """A socket's name may have dots and no slash."""
    assert check_socket_name("v1.2") == "v1.2"
    with pytest.raises(InvalidInputError, match="tmux socket"):
        check_socket_name("a/b")


def test_a_pane_does_not_inherit_the_callers_terminal() -> None:
    """Size, type and pane of the caller's terminal stay behind; everything else goes with the job."""
    environ = dict.fromkeys([*PANE_VARIABLES, "COLUMNS", "LINES"], "x")
    assert for_pane({**environ, "PATH": "/bin"}) == {"PATH": "/bin"}
