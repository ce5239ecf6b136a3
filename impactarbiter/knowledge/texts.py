"""What makes a text of an object, and what only shows a text."""

from __future__ import annotations

import re

#: Calls that make a text of what they are given.
MAKING_TEXT = frozenset({"ascii", "pformat", "repr", "str"})
#: Methods that make a text of their object.
TEXT_OF_ITS_OWN = frozenset({"__repr__", "__str__"})
#: Methods of a text that give another one.
OF_TEXT = frozenset(
    [
        "center",
        "encode",
        "expandtabs",
        "format",
        "join",
        "ljust",
        "lower",
        "lstrip",
        "replace",
        "rjust",
        "rstrip",
        "strip",
        "title",
        "upper",
    ]
)
#: Calls that show, log or write a text, and do nothing else with it.
SHOWING = frozenset(
    [
        "add_text",
        "critical",
        "debug",
        "dump",
        "echo",
        "error",
        "exception",
        "fatal",
        "info",
        "log",
        "pp",
        "pprint",
        "print",
        "set_description",
        "set_description_str",
        "set_postfix",
        "set_postfix_str",
        "warn",
        "warning",
        "write",
        "writelines",
        "writerow",
    ]
)
#: Calls that ask for the type that they are given.
OF_TYPES = frozenset({"cast", "isinstance", "issubclass"})
#: What ``%`` puts in as a text, not as a number.
PERCENT = re.compile(r"%(?:\([^)]*\))?[-#0 +]*(?:\d+|\*)?(?:\.\d*|\.\*)?[sra]")
