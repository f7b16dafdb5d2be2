"""The inspect command, with the paths of this machine cut from the tracebacks of failed samples: they would be logged."""

import re
from pathlib import Path
from typing import Any

from inspect_ai._cli.main import main
from inspect_ai._util.error import EvalError

MACHINE = re.compile(rf"/[^\s\"\x1b]*?/(?=lib/python3)|{re.escape(str(Path.cwd()))}/")
as_inspect_does = EvalError.__init__


def short(self: EvalError, **fields: Any) -> None:
    as_inspect_does(self, **{name: MACHINE.sub("", text) if isinstance(text, str) else text for name, text in fields.items()})


EvalError.__init__ = short  # type: ignore[method-assign]
main()
