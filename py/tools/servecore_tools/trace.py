# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Serving traces: what a request of a trace is, and readers for the two published forms.

Two forms are read, told apart by their content, never by the file's name:

* Mooncake JSONL: one object a line, with `timestamp` (ms), `input_length`, `output_length`
  (tokens) and `hash_ids`, one id for each 512-token block of the prompt, the last, partial one
  included. Equal ids mean an equal block after an equal prefix.
* Azure CSV: `TIMESTAMP,ContextTokens,GeneratedTokens`. It publishes lengths only, so no two
  requests can be known to share a prefix: each gets block ids of its own.
"""

from __future__ import annotations

import csv
import json
import re
import reprlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Protocol

import numpy as np
from numpy.typing import NDArray

MOONCAKE_BLOCK_TOKENS = 512
"""Tokens that one id of a Mooncake trace stands for."""

DEFAULT_BLOCK_TOKENS = 16
"""Tokens of a block where the trace publishes no block size of its own."""

MAX_REQUEST_TOKENS = 1 << 24
"""Longest length that a line may name: no model reads more, and a broken line eats no memory."""

MAX_LINE_BYTES = 1 << 26
"""Longest line that is read: a prompt of MAX_REQUEST_TOKENS in ids of any size fits."""

MAX_ERRORS_KEPT = 10
"""Broken lines that are kept to be shown, however many there are."""

MAX_TIMESTAMP_MS = 1 << 53
"""Times from here on are no whole milliseconds in a float."""

MAX_HASH_ID = (1 << 64) - 1

AZURE_COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")

_SHORT = reprlib.Repr()
_SHORT.maxstring = 60
_SHORT.maxother = 60

_DIGITS = re.compile("[0-9]{1,18}")
_LENGTH_ALLOWED = f"an integer from 0 to {MAX_REQUEST_TOKENS}"


class TraceError(ValueError):
    """A line of a trace that cannot be used.

    Attributes:
        path: The file.
        line: The line's number, from 1; 0 where the file as a whole is meant.
        field: The field at fault, or `line` where the line as a whole is meant.
        found: The value found, as text.
        allowed: What would have been accepted.
    """

    def __init__(self, path: str, line: int, field: str, found: str, allowed: str) -> None:
        where = f"{path}:{line}" if line else path
        super().__init__(f"{where}: {field}: found {found}; allowed: {allowed}")
        self.path = path
        self.line = line
        self.field = field
        self.found = found
        self.allowed = allowed


@dataclass(frozen=True)
class Request:
    """One request of a trace.

    Attributes:
        timestamp_ms: Arrival, in milliseconds; counted from the trace's own origin.
        input_length: Tokens of the prompt.
        output_length: Tokens of the answer. Their values are published nowhere, so they are
            not replayed.
        block_ids: int32, shape (ceil(input_length / block_tokens),): the prompt's blocks. The
            ids are dense, from 0 in the order of their first appearance, whatever the file says.
    """

    timestamp_ms: float
    input_length: int
    output_length: int
    block_ids: NDArray[np.int32]


@dataclass(frozen=True)
class Trace:
    """A trace as read, or as generated.

    Attributes:
        name: The file's path, or what the trace was made from.
        form: `mooncake`, `azure` or `built-in`.
        block_tokens: Tokens that one block id stands for.
        num_ids: Number of distinct block ids; every id is below it.
        shares_prefixes: False where ids are never repeated, because the form has lengths only.
        requests: The requests, in the file's order.
        num_skipped: Number of lines left out because they are broken.
        skipped: The first MAX_ERRORS_KEPT of them.
    """

    name: str
    form: str
    block_tokens: int
    num_ids: int
    shares_prefixes: bool
    requests: list[Request]
    num_skipped: int = 0
    skipped: Sequence[TraceError] = ()


def read_trace(
    path: Path,
    *,
    block_size: int | None = None,
    skip_bad: bool = False,
    limit: int | None = None,
) -> Trace:
    """Reads a trace file; its form is told from its content.

    Args:
        path: The file.
        block_size: Tokens of a block for a form that has lengths only; the default is
            DEFAULT_BLOCK_TOKENS. A form that publishes block ids has a size of its own, and
            ignores this.
        skip_bad: Leave broken lines out, and tell of them in the trace.
        limit: Read this many requests at most, 1 or more; the rest of the file is not looked at.

    Returns:
        The trace. Blank lines are no requests and no errors.

    Raises:
        TraceError: A line is broken and `skip_bad` is off, or the file is of neither form, or
            it holds no request.
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        lines = _Lines(file, str(path), skip_bad)
        parser = _sniff(lines, block_size or DEFAULT_BLOCK_TOKENS)
        requests: list[Request] = []
        for number, text in lines:
            try:
                requests.append(parser.parse(number, text))
            except TraceError as error:
                lines.reject(error)
            if len(requests) == limit:
                break
    if not requests:
        raise lines.no_request()
    return Trace(
        name=str(path),
        form=parser.form,
        block_tokens=parser.block_tokens,
        num_ids=parser.num_ids,
        shares_prefixes=parser.shares_prefixes,
        requests=requests,
        num_skipped=lines.num_skipped,
        skipped=lines.skipped,
    )


class _Lines:
    """The lines of a file that are not blank, with their numbers; one pass, with push-back."""

    def __init__(self, file: IO[bytes], path: str, skip_bad: bool) -> None:
        self.path = path
        self.num_skipped = 0
        self.skipped: list[TraceError] = []
        self._file = file
        self._skip_bad = skip_bad
        self._number = 0
        self._pushed: tuple[int, str] | None = None

    def push_back(self, number: int, text: str) -> None:
        """Makes the line the next one to be read."""
        self._pushed = (number, text)

    def reject(self, error: TraceError) -> None:
        """Raises the error, or notes it where broken lines are skipped."""
        if not self._skip_bad:
            raise error
        self.num_skipped += 1
        if self.num_skipped <= MAX_ERRORS_KEPT:
            self.skipped.append(error)

    def no_request(self) -> TraceError:
        """The error of a file that ends without a request."""
        found = f"none, but {self.num_skipped} broken lines" if self.num_skipped else "none"
        return TraceError(self.path, 0, "requests", found, "at least one")

    def __iter__(self) -> Iterator[tuple[int, str]]:
        while True:
            if self._pushed is not None:
                line, self._pushed = self._pushed, None
                yield line
                continue
            raw = self._file.readline(MAX_LINE_BYTES)
            if not raw:
                return
            self._number += 1
            if len(raw) == MAX_LINE_BYTES and not raw.endswith(b"\n"):
                # Where the line ends is unknown, so nothing after it can be trusted either.
                raise self._broken_line("no line end", f"at most {MAX_LINE_BYTES} bytes a line")
            try:
                text = raw.decode("utf-8-sig" if self._number == 1 else "utf-8").strip()
            except UnicodeDecodeError as error:
                byte = f"byte 0x{raw[error.start]:02x} at column {error.start + 1}"
                self.reject(self._broken_line(byte, "UTF-8 text"))
                continue
            if text:
                yield self._number, text

    def _broken_line(self, found: str, allowed: str) -> TraceError:
        return TraceError(self.path, self._number, "line", found, allowed)


class _Parser(Protocol):
    """Turns one line of one form into a request."""

    form: str
    shares_prefixes: bool
    block_tokens: int

    @property
    def num_ids(self) -> int: ...

    def parse(self, number: int, text: str) -> Request: ...


def _sniff(lines: _Lines, block_size: int) -> _Parser:
    for number, text in lines:
        if text.startswith("{"):
            lines.push_back(number, text)
            return _MooncakeParser(lines.path)
        columns = [column.strip() for column in text.split(",")]
        if set(AZURE_COLUMNS) <= set(columns):
            return _AzureParser(lines.path, columns, block_size)
        lines.reject(
            TraceError(
                lines.path,
                number,
                "line",
                _shown(text),
                f"a JSON object (Mooncake) or the header {','.join(AZURE_COLUMNS)} (Azure)",
            )
        )
    raise lines.no_request()


class _MooncakeParser:
    form = "mooncake"
    shares_prefixes = True
    block_tokens = MOONCAKE_BLOCK_TOKENS

    def __init__(self, path: str) -> None:
        self._path = path
        self._dense: dict[int, int] = {}

    @property
    def num_ids(self) -> int:
        return len(self._dense)

    def parse(self, number: int, text: str) -> Request:
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self._error(number, "line", _shown(text), f"JSON ({error})") from None
        if not isinstance(record, dict):
            raise self._error(number, "line", _shown(text), "a JSON object")
        timestamp_ms = self._field(number, record, "timestamp")
        # A bool is an int, NaN fails every comparison, and only a comparison is right for an
        # integer beyond a float's range.
        if (
            not isinstance(timestamp_ms, int | float)
            or isinstance(timestamp_ms, bool)
            or not 0 <= timestamp_ms < MAX_TIMESTAMP_MS
        ):
            allowed = f"a number of milliseconds from 0 to {MAX_TIMESTAMP_MS}"
            raise self._error(number, "timestamp", _shown(timestamp_ms), allowed)
        input_length = self._length(number, record, "input_length")
        output_length = self._length(number, record, "output_length")
        hash_ids = self._field(number, record, "hash_ids")
        if not isinstance(hash_ids, list):
            allowed = f"a list of integers from 0 to {MAX_HASH_ID}"
            raise self._error(number, "hash_ids", _shown(hash_ids), allowed)
        for position, value in enumerate(hash_ids):
            if type(value) is not int or not 0 <= value <= MAX_HASH_ID:
                allowed = f"an integer from 0 to {MAX_HASH_ID}"
                raise self._error(number, f"hash_ids[{position}]", _shown(value), allowed)
        needed = -(-input_length // self.block_tokens)
        if len(hash_ids) != needed:
            allowed = (
                f"{needed} ids, one for each {self.block_tokens} tokens or part of them "
                f"of input_length {input_length}"
            )
            raise self._error(number, "hash_ids", f"{len(hash_ids)} ids", allowed)
        dense = self._dense
        ids = [dense.setdefault(value, len(dense)) for value in hash_ids]
        return Request(
            float(timestamp_ms), input_length, output_length, np.array(ids, dtype=np.int32)
        )

    def _field(self, number: int, record: dict[str, object], name: str) -> object:
        if name not in record:
            have = ", ".join(record) or "no field"
            raise self._error(number, name, f"no such field (only {_cut(have)})", "a value")
        return record[name]

    def _length(self, number: int, record: dict[str, object], name: str) -> int:
        value = self._field(number, record, name)
        if type(value) is not int or not 0 <= value <= MAX_REQUEST_TOKENS:
            raise self._error(number, name, _shown(value), _LENGTH_ALLOWED)
        return value

    def _error(self, number: int, field: str, found: str, allowed: str) -> TraceError:
        return TraceError(self._path, number, field, found, allowed)


class _AzureParser:
    form = "azure"
    shares_prefixes = False

    def __init__(self, path: str, columns: list[str], block_tokens: int) -> None:
        self.block_tokens = block_tokens
        self.num_ids = 0
        self._path = path
        self._columns = columns
        self._origin: datetime | None = None

    def parse(self, number: int, text: str) -> Request:
        try:
            values = next(csv.reader([text], strict=True))
        except csv.Error as error:
            raise self._error(number, "line", _shown(text), f"a CSV row ({error})") from None
        if len(values) != len(self._columns):
            allowed = f"{len(self._columns)}: {','.join(self._columns)}"
            raise self._error(number, "line", f"{len(values)} columns", allowed)
        record = dict(zip(self._columns, (value.strip() for value in values), strict=True))
        timestamp_ms = self._timestamp_ms(number, record["TIMESTAMP"])
        input_length = self._length(number, record, "ContextTokens")
        output_length = self._length(number, record, "GeneratedTokens")
        first = self.num_ids
        end = first + -(-input_length // self.block_tokens)
        if end >= 1 << 31:
            allowed = f"at most {(1 << 31) - 1} blocks in one trace; take a larger block size"
            raise self._error(number, "ContextTokens", f"{end} blocks so far", allowed)
        self.num_ids = end
        ids = np.arange(first, end, dtype=np.int32)
        return Request(timestamp_ms, input_length, output_length, ids)

    def _timestamp_ms(self, number: int, text: str) -> float:
        try:
            time = datetime.fromisoformat(text)
            self._origin = self._origin or time
            return (time - self._origin).total_seconds() * 1000.0
        except (ValueError, TypeError):
            # TypeError: one time with a zone and one without cannot be subtracted.
            allowed = "a time such as 2023-11-16 18:17:03.9799600, all with or all without a zone"
            raise self._error(number, "TIMESTAMP", _shown(text), allowed) from None

    def _length(self, number: int, record: dict[str, str], name: str) -> int:
        text = record[name]
        if _DIGITS.fullmatch(text) and int(text) <= MAX_REQUEST_TOKENS:
            return int(text)
        raise self._error(number, name, _shown(text), _LENGTH_ALLOWED)

    def _error(self, number: int, field: str, found: str, allowed: str) -> TraceError:
        return TraceError(self._path, number, field, found, allowed)


def _shown(value: object) -> str:
    return _SHORT.repr(value)


def _cut(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
