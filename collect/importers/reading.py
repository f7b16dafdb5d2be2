"""Read log files a record at a time: JSON Lines, or one JSON list of any length, in bounded memory."""

import codecs
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from catalog.errors import CatalogError
from collect.importers import Tick, Told

CHUNK = 1 << 20
LARGEST = 1 << 28  # a record beyond this is a damaged file


def records(path: Path, told: Told, tick: Tick, notes: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of a JSON Lines file or a JSON list, as ('file:line', object).

    Only LF ends a line: text may hold U+2028. With told.skip_bad, lines that are no JSON object are left out and
    counted in notes instead of refusing the file.

    Raises:
        CatalogError: The file is empty, or a record is not a JSON object; the message starts with file:line.
    """
    n = bad = 0
    with path.open("rb") as file:
        head = file.read(CHUNK).removeprefix(codecs.BOM_UTF8).lstrip()
        file.seek(0)
        for where, found in (list_records if head[:1] == b"[" else line_records)(path, file, tick):
            if isinstance(found, dict):
                n += 1
                yield where, found
            elif told.skip_bad:
                bad += 1
            else:
                raise CatalogError(f"{where}: {found}. Leave such records out with --skip-bad")
    if not n:
        raise CatalogError(f"{path.name} is empty: it holds no record")
    if bad:
        notes.append(f"{bad} records that are no JSON object were left out")


def line_records(path: Path, file: BinaryIO, tick: Tick) -> Iterator[tuple[str, dict[str, Any] | str]]:
    """Every line as ('file:line', object), or what is wrong with it."""
    for n, line in enumerate(file, 1):
        tick(len(line))
        text = line.removeprefix(codecs.BOM_UTF8) if n == 1 else line
        if not text.strip():
            continue
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            yield f"{path.name}:{n}", wrong(text, error)
            continue
        yield f"{path.name}:{n}", found if isinstance(found, dict) else f"wanted a JSON object, found a {type(found).__name__}"


def wrong(text: bytes, error: Exception) -> str:
    """Why a line is no JSON, and its beginning."""
    cut = not text.endswith(b"\n") and isinstance(error, json.JSONDecodeError)
    why = "cut off in the middle (a killed run?)" if cut else f"not JSON ({getattr(error, 'msg', error)})"
    return f"{why}: {text[:60].decode('utf-8', 'replace').strip()}"


def list_records(path: Path, file: BinaryIO, tick: Tick) -> Iterator[tuple[str, dict[str, Any] | str]]:
    """Every element of a JSON list; only the element being read is held.

    Raises:
        CatalogError: The list is cut off, or an element is no JSON; nothing behind it can be read.
    """
    decode = codecs.getincrementaldecoder("utf-8-sig")().decode
    parser, text, n, wanted = json.JSONDecoder(), "", 0, CHUNK
    while chunk := file.read(wanted):
        tick(len(chunk))
        text = (text + decode(chunk)).lstrip() if text or n else decode(chunk).lstrip().removeprefix("[")
        at = 0
        while True:
            at = next((i for i in range(at, len(text)) if text[i] not in ", \t\r\n"), len(text))
            if at == len(text) or text[at] == "]":
                break
            try:
                found, at = parser.raw_decode(text, at)
            except json.JSONDecodeError:
                break  # it may go on in the next chunk
            n += 1
            yield f"{path.name}, record {n}", found if isinstance(found, dict) else f"wanted a JSON object, found a {type(found).__name__}"
        text = text[at:]
        wanted = max(CHUNK, len(text))  # a long element is tried a few times, not once a chunk
        if len(text) > LARGEST:
            break
    if not text.startswith("]"):
        raise CatalogError(f"{path.name}: the JSON list is cut off or damaged after record {n}: {text[:60]!r}")


def json_of(path: Path) -> dict[str, Any]:
    """A neighbour of a log as an object; {} if it is none: neighbours are only asked, never needed."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
