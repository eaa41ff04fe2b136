"""Which home a command works on: named, or found as git finds its repository, and never a stranger's."""

import errno
import stat
from argparse import Namespace

import pytest

from jobwire.core.errors import InvalidInputError, JobwireError, NotFoundError, StorageError
from jobwire.core.override import override
from jobwire.storage.home import Directories, Need, PathStat, find_home, place_for_home, settle_home

ME = 1000
OTHER = 1001


class MemoryDirectories(Directories):
    """Directories in memory: path -> entry; `homes` are those with a home's marks in them."""

    user = ME

    def __init__(self, directory: str, entries: dict[str, PathStat], homes: set[str] | None = None) -> None:
        self._directory = directory
        self._entries = entries
        self._homes = set(entries) if homes is None else homes
        self.failures: dict[str, OSError] = {}

    @override
    def working_directory(self) -> str:
        """Return where we stand."""
        if not self._directory:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        return self._directory

    @override
    def entry(self, path: str) -> PathStat | None:
        """Return what stands there."""
        if path in self.failures:
            raise self.failures[path]
        return self._entries.get(path)

    @override
    def is_home(self, path: str) -> bool:
        """Tell whether it has the marks."""
        return path in self._homes


def folder(mode: int = 0o700, *owners: int) -> PathStat:
    """Return a directory."""
    return PathStat(frozenset(owners or (ME,)), stat.S_IFDIR | mode)


def test_the_option_goes_before_the_environment_and_that_before_what_is_found() -> None:
    """--home, else $JOBWIRE_HOME, else the nearest `.hermes`."""
    directories = MemoryDirectories("/work", {path: folder() for path in ("/work/.hermes", "named", "/env")})
    environ = {"JOBWIRE_HOME": "/env"}
    assert find_home("named", environ, directories) == "named"
    assert find_home(None, environ, directories) == "/env"
    assert find_home(None, {}, directories) == ".hermes"


@pytest.mark.parametrize("directory", ["/work/src/deep", "/work/src", "/work"])
def test_the_nearest_home_above_is_found(directory: str) -> None:
    """In a directory below a project, commands work on the project's home."""
    directories = MemoryDirectories(directory, {path: folder() for path in ("/.hermes", "/work/.hermes")})
    found = find_home(None, {}, directories)
    assert found == (".hermes" if directory == "/work" else "/work/.hermes")


def test_the_root_directory_is_looked_at_too() -> None:
    """The walk ends after `/`, not before it."""
    assert find_home(None, {}, MemoryDirectories("/a", {"/.hermes": folder()})) == "/.hermes"


def test_an_empty_option_is_invalid_and_an_empty_variable_is_unset() -> None:
    """`--home "$UNSET"` is a mistake of a script and must not become another home."""
    directories = MemoryDirectories("/work", {"/work/.hermes": folder()})
    for environ in ({}, {"JOBWIRE_HOME": "/env"}):
        with pytest.raises(InvalidInputError, match="--home is empty"):
            find_home("", environ, directories)
    assert find_home(None, {"JOBWIRE_HOME": ""}, directories) == ".hermes"


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
@pytest.mark.parametrize("by_option", [True, False])
def test_what_cannot_be_a_path_is_invalid(name: str, by_option: bool) -> None:
    """A name that no file can have is refused in words."""
    directories = MemoryDirectories("/work", {})
    with pytest.raises(InvalidInputError, match="cannot be a path"):
        find_home(name if by_option else None, {} if by_option else {"JOBWIRE_HOME": name}, directories)


def test_without_a_home_nothing_is_made_up() -> None:
    """No home at or above: exit 40, and how to make one."""
    with pytest.raises(NotFoundError, match="at or above /work/src") as caught:
        find_home(None, {}, MemoryDirectories("/work/src", {}))
    assert "jobwire init" in caught.value.hint
    assert "jobwire up" in caught.value.hint


@pytest.mark.parametrize("option", ["/gone", None])
def test_a_named_home_must_exist(option: str | None) -> None:
    """A mistyped name is not a new home."""
    with pytest.raises(NotFoundError, match="/gone does not exist") as caught:
        find_home(option, {"JOBWIRE_HOME": "/gone"}, MemoryDirectories("/work", {"/work/.hermes": folder()}))
    assert "jobwire --home /gone init" in caught.value.hint


def test_the_remedy_can_be_pasted() -> None:
    """Blanks in the name are quoted in the command that the hint gives."""
    with pytest.raises(NotFoundError) as caught:
        find_home("my home", {}, MemoryDirectories("/", {}))
    assert "jobwire --home 'my home' init" in caught.value.hint


def test_a_directory_of_something_else_is_no_home() -> None:
    """`--home ~/work` instead of `~/work/.hermes` is said, and never an empty fleet."""
    directories = MemoryDirectories("/work", {"/home": folder(), "/work/.hermes": folder()}, homes=set())
    with pytest.raises(NotFoundError, match="/home is not a jobwire home"):
        find_home("/home", {}, directories)
    # Nor is the next one above taken instead: what was here may be on a disk that is not mounted.
    above = MemoryDirectories(
        "/a/b", {"/a/b/.hermes": folder(), "/a/.hermes": folder()}, homes={"/a/.hermes"}
    )
    with pytest.raises(NotFoundError, match=r"/a/b/\.hermes is not a jobwire home"):
        find_home(None, {}, above)


def test_a_file_is_no_home() -> None:
    """A file of that name is refused, named or found."""
    file = PathStat(frozenset({ME}), stat.S_IFREG | 0o600)
    directories = MemoryDirectories("/work", {"/work/.hermes": file})
    for option in ("/work/.hermes", None):
        with pytest.raises(InvalidInputError, match="is not a directory"):
            find_home(option, {}, directories)
        with pytest.raises(InvalidInputError, match="is not a directory"):
            place_for_home(option, {}, directories)


@pytest.mark.parametrize("owners", [(OTHER,), (OTHER, ME), (0,)])
def test_a_found_home_must_be_ones_own(owners: tuple[int, ...]) -> None:
    """A home that somebody else put there (or a link of theirs to one's own) is not used silently."""
    directories = MemoryDirectories("/tmp/x", {"/tmp/.hermes": folder(0o700, *owners)})
    with pytest.raises(InvalidInputError, match="belongs to") as caught:
        find_home(None, {}, directories)
    assert "--home /tmp/.hermes" in caught.value.hint
    with pytest.raises(InvalidInputError, match="belongs to"):
        place_for_home(None, {}, directories)


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777, 0o1777])
def test_a_found_home_must_not_be_writable_by_others(mode: int) -> None:
    """Who can write into a home can give work to whoever works there."""
    directories = MemoryDirectories("/work", {"/work/.hermes": folder(mode)})
    with pytest.raises(InvalidInputError, match="writable by others") as caught:
        find_home(None, {}, directories)
    assert "chmod go-w /work/.hermes" in caught.value.hint


@pytest.mark.parametrize("named", ["--home", "JOBWIRE_HOME"])
def test_who_names_a_home_may_use_any(named: str) -> None:
    """Named, a home may be a service's or a shared one: the operating system says who may read it."""
    directories = MemoryDirectories("/work", {"/srv": folder(0o777, OTHER)})
    option, environ = ("/srv", {}) if named == "--home" else (None, {"JOBWIRE_HOME": "/srv"})
    assert find_home(option, environ, directories) == "/srv"
    assert place_for_home(option, environ, directories) == "/srv"


@pytest.mark.parametrize("option", ["/work/.hermes", None])
def test_what_cannot_be_examined_is_an_error_and_no_all_clear(option: str | None) -> None:
    """Permission denied is a failure of its own, never "no home" and never an empty one."""
    directories = MemoryDirectories("/work", {"/work/.hermes": folder()})
    directories.failures["/work/.hermes"] = PermissionError(errno.EACCES, "Permission denied")
    with pytest.raises(StorageError, match=r"cannot examine /work/\.hermes: Permission denied"):
        find_home(option, {}, directories)


@pytest.mark.parametrize("number", [errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR])
def test_a_name_that_leads_nowhere_is_the_callers_mistake(number: int) -> None:
    """A path through a file, in circles or too long is invalid input, not a broken disk."""
    directories = MemoryDirectories("/work", {})
    directories.failures["bad"] = OSError(number, "as the system says it")
    with pytest.raises(InvalidInputError, match="as the system says it"):
        find_home("bad", {}, directories)


def test_a_working_directory_that_is_gone() -> None:
    """In a directory that was removed, a home must be named."""
    with pytest.raises(NotFoundError, match="working directory"):
        find_home(None, {}, MemoryDirectories("", {}))


def test_where_a_home_is_made() -> None:
    """Makers use the home that is there, else make one here; what is named may be new."""
    assert place_for_home("/new", {}, MemoryDirectories("/work", {})) == "/new"
    assert place_for_home(None, {"JOBWIRE_HOME": "/new"}, MemoryDirectories("/work", {})) == "/new"
    assert place_for_home(None, {}, MemoryDirectories("/work", {})) == ".hermes"
    above = {"/work/.hermes": folder()}
    assert place_for_home(None, {}, MemoryDirectories("/work/src", above)) == "/work/.hermes"
    # A directory of another program above is not ours to fill; one that was made here for us is.
    assert place_for_home(None, {}, MemoryDirectories("/work/src", above, homes=set())) == ".hermes"
    assert place_for_home(None, {}, MemoryDirectories("/work", above, homes=set())) == ".hermes"
    assert place_for_home(None, {}, MemoryDirectories("/work/src", above), above=False) == ".hermes"
    assert place_for_home(
        None, {}, MemoryDirectories("/work", {"/.hermes": folder(0o700, OTHER)}), above=False
    )


def test_each_command_says_what_it_needs() -> None:
    """A command needs a home unless its parser says that it makes one or needs none."""
    directories = MemoryDirectories("/work", {})

    def settled(**defaults: object) -> object:
        args = Namespace(home=None, **defaults)
        settle_home(args, {}, directories)
        return args.home

    with pytest.raises(NotFoundError):
        settled()
    assert settled(home_need=Need.PLACE) == ".hermes"
    assert settled(home_need=Need.NOTHING) is None
    assert settled(home_need=Need.ANY) is None
    with pytest.raises(NotFoundError):
        settle_home(Namespace(home="/gone", home_need=Need.ANY), {}, directories)
    assert settled(home_need=lambda args: Need.NOTHING if args.ticket else Need.HOME, ticket="x") is None


@pytest.mark.parametrize("need", list(Need))
def test_an_empty_option_is_invalid_for_every_command(need: Need) -> None:
    """Also where no home is needed, `--home ""` is a mistake that is said."""
    with pytest.raises(JobwireError, match="--home is empty"):
        settle_home(Namespace(home="", home_need=need), {}, MemoryDirectories("/", {}))
