"""The ``.pth`` file by which every Python of an environment knows our flag.

``site`` executes its one line at each start.  Where neither the flag nor a
configuration file is among the arguments, that is one comparison for each of
them; nothing is imported.
"""

from __future__ import annotations

import os
import site
import sysconfig

from ..base.errors import ImpactArbiterError
from ..base.files import PUBLIC, write_atomic

NAME = "impactarbiter.pth"
_MARK = "# Written by `impactarbiter enable`; `impactarbiter disable` removes"

#: Arguments that may be about us: the flag, the tracker, a configuration.
_PERHAPS = (
    "a.startswith(('--detect_memory_leaks', '--detect-memory-leaks'))"
    " or a.endswith(('impactarbiter', '.json', '.yaml', '.yml'))"
)

#: What is done then.  A configuration file is read to see whether it names
#: us; where we are not installed any more, nothing happens.
_BEGIN = """\
import os
def ours(a):
    a = a.rpartition('=')[2]
    if not a.endswith(('.json', '.yaml', '.yml')):
        return True
    if not os.path.isfile(a):
        return False
    with open(a, 'rb') as stream:
        text = stream.read(1 << 20)
    return b'detect_memory_leaks' in text or b'impactarbiter' in text
try:
    if any(map(ours, perhaps)):
        from impactarbiter.integrations.huggingface.import_hook import install
        install()
except (ImportError, OSError):
    pass
"""


#: What is done in a process of a job: it waits for torch.  importlib.util
#: would find us as well, and take longer to load than all of this.
_JOB = """\
try:
    import os, sys
    found = (f.find_spec('impactarbiter', None) for f in sys.meta_path)
    found = next(filter(None, found), None)
    # An empty folder of that name has no origin.
    file = found and found.origin and os.path.join(
        os.path.dirname(found.origin),
        'integrations', 'startup', '_impactarbiter_children.py')
    if file:
        with open(file, encoding='utf-8') as stream:
            names = {'__name__': '_impactarbiter_children'}
            exec(compile(stream.read(), file, 'exec'), names)
        names['begin']()
except (AttributeError, ImportError, OSError):
    pass
"""


def text() -> str:
    """The file's content: a comment, and two lines that ``site`` executes."""
    return (
        f"{_MARK} it.\n"
        f"import sys; perhaps = [a for a in sys.orig_argv if {_PERHAPS}];"
        f" perhaps and exec({_BEGIN!r}, {{'perhaps': perhaps}})\n"
        f"import os; os.environ.get('IMPACTARBITER_JOB') and exec({_JOB!r},"
        f" {{}})\n"
    )


def location() -> str:
    """Where it lies: beside this package, else in the environment's own."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    beside = os.path.dirname(package)
    folders = [*site.getsitepackages(), site.getusersitepackages()]
    if beside not in map(os.path.abspath, folders):
        beside = sysconfig.get_path("purelib")
    return os.path.join(beside, NAME)


def is_ours(path: str) -> bool:
    """Whether such a file is there; raises where it is somebody else's."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            found = stream.read(len(_MARK))
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _impossible("read", path, error) from None
    if found != _MARK:
        raise ImpactArbiterError(
            f"{path} was not written by `impactarbiter enable`: expected no"
            " such file; move it away"
        )
    return True


def write(path: str) -> None:
    """Puts the file there; ImpactArbiterError where that is refused."""
    try:
        write_atomic(path, text().encode(), PUBLIC)
    except ImpactArbiterError as error:
        raise _impossible("write", path, error.__context__) from None


def remove(path: str) -> None:
    """Takes the file away; ImpactArbiterError where that is refused."""
    try:
        os.unlink(path)
    except OSError as error:
        raise _impossible("remove", path, error) from None


def _impossible(
    verb: str, path: str, error: BaseException | None
) -> ImpactArbiterError:
    reason = getattr(error, "strerror", None) or str(error)
    return ImpactArbiterError(
        f"cannot {verb} {path}: {reason.lower()}; expected an environment"
        " that you may change, such as a virtual environment of your own"
    )
