#!/usr/bin/env python3
"""Prints the events of a Thalweg space that nobody writes into any more: `thalweg_events.py DIRECTORY`.

An example of what the constants of thalweg_layout.py are enough for. One line each, separated by tabs:
`event TIME WRITER SEQUENCE KIND FIELD…` and `gap WRITER LOST FROM_SEQUENCE`.
"""

import collections
import os
import re
import signal
import struct
import sys

import thalweg_layout as layout

Kind = collections.namedtuple("Kind", "name fields")
Field = collections.namedtuple("Field", "name type choices")

# The letter for `struct` of each type of field; in the fixed part, texts and bytes have only their length.
LETTERS = {
    layout.FIELD_U8: "B", layout.FIELD_U16: "H", layout.FIELD_U32: "I", layout.FIELD_U64: "Q",
    layout.FIELD_I8: "b", layout.FIELD_I16: "h", layout.FIELD_I32: "i", layout.FIELD_I64: "q",
    layout.FIELD_F32: "f", layout.FIELD_F64: "d", layout.FIELD_BOOL: "B", layout.FIELD_NAME: "Q",
    layout.FIELD_SITE: "Q", layout.FIELD_ENUM: "B", layout.FIELD_STR: "I", layout.FIELD_BYTES: "I",
}
VARIABLE = (layout.FIELD_STR, layout.FIELD_BYTES)
MASK = (1 << 32) - 1


def word(data, at):
    return struct.unpack_from("<Q", data, at)[0]


def up(at, step):
    return -(-at // step) * step


class Record:
    """Reads the payload of a catalog's record from its beginning."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, letter):
        value = struct.unpack_from("<" + letter, self.data, self.at)[0]
        self.at += struct.calcsize("<" + letter)
        return value

    def text(self):
        length = self.number("I")
        self.at += length
        return self.data[self.at - length:self.at].decode("utf-8", "replace")


def read_kinds(path):
    """The kinds of a catalog, by id."""
    with open(path, "rb") as file:
        data = file.read()
    check(path, data, layout.CATALOG_MAGIC_VALUE)
    kinds, at = {}, layout.CATALOG_HEADER
    while at + layout.CATALOG_RECORD_HEADER <= len(data):
        length, record_type = struct.unpack_from("<II", data, at)
        if record_type == layout.CATALOG_KIND:
            record = Record(data[at + layout.CATALOG_RECORD_HEADER:at + length])
            number, _ = record.number("I"), record.number("Q")
            name, _ = record.text(), record.text()
            fields = []
            for _ in range(record.number("I")):
                field_type, field, _unit, _doc = record.number("I"), record.text(), record.text(), record.text()
                choices = dict((record.number("Q"), record.text()) for _ in range(record.number("I")))
                fields.append(Field(field, field_type, choices))
            kinds[number] = Kind(name, fields)
        at += length
    return kinds


def check(path, data, magic):
    if word(data, 0) != magic:
        sys.exit(f"{path} has another magic number")
    if not 1 <= word(data, 8) & MASK <= layout.VERSION:
        sys.exit(f"{path} has version {word(data, 8) & MASK}, and this reads up to {layout.VERSION}")


def read_link(path):
    """The directory where an element lies that is not in its space's."""
    with open(path, "rb") as file:
        data = file.read()
    check(path, data, layout.LINK_MAGIC_VALUE)
    at = layout.LINK_PATH + 8
    return data[at:at + word(data, layout.LINK_PATH)].decode()


class Blocks:
    """The blocks of an element, or of its archive (whose count is 0: they do not come around)."""

    def __init__(self, path, magic):
        with open(path, "rb") as file:
            self.data = file.read()
        check(path, self.data, magic)
        self.bytes = word(self.data, layout.ELEMENT_BLOCKS) & MASK
        self.count = word(self.data, layout.ELEMENT_BLOCKS) >> 32
        self.head = word(self.data, layout.ELEMENT_HEAD)

    def block(self, number, limit):
        """The block's bytes before position `limit`; nothing if it is not there any more."""
        place = layout.ELEMENT_DATA + (number % self.count if self.count else number) * self.bytes
        data = self.data[place:place + min(self.bytes, limit - number * self.bytes)]
        good = len(data) >= layout.BLOCK_HEADER and word(data, layout.BLOCK_NUMBER) == number + 1
        return data if good else b""


def show(field, value, tail):
    field_type = field.type
    if field_type == layout.FIELD_BOOL:
        return "true" if value else "false"
    if field_type == layout.FIELD_NAME:
        return f"name#{value}"
    if field_type == layout.FIELD_SITE:
        return f"site#{value}"
    if field_type == layout.FIELD_ENUM:
        return field.choices.get(value, str(value))
    if field_type == layout.FIELD_STR:
        return '"' + tail.decode("utf-8", "replace") + '"'
    return tail.hex() if field_type == layout.FIELD_BYTES else str(value)


def fields_of(kind, arguments):
    at, found = 0, []
    for field in kind.fields:
        letter = "<" + LETTERS[field.type]
        at = up(at, struct.calcsize(letter))
        found.append((field, struct.unpack_from(letter, arguments, at)[0]))
        at += struct.calcsize(letter)
    at = up(at, 8)
    for field, value in found:
        tail = b""
        if field.type in VARIABLE:
            tail = arguments[at:at + value]
            at = up(at + value, 8)
        yield show(field, value, tail)


class Element:
    """Prints an element's events from the oldest on."""

    def __init__(self, directory, number, elsewhere):
        self.kinds = read_kinds(os.path.join(directory, number + ".catalog"))
        path = os.path.join(elsewhere or directory, number)
        self.ring = Blocks(path + ".element", layout.ELEMENT_MAGIC_VALUE)
        self.archive = None
        if os.path.exists(path + ".archive"):
            self.archive = Blocks(path + ".archive", layout.ELEMENT_MAGIC_ARCHIVE)
        self.writer, self.writer_from = word(self.ring.data, layout.ELEMENT_WRITER) & MASK, 0
        self.sequence = 0
        self.begun = None

    def show(self):
        for number in range(up(self.ring.head, self.ring.bytes) // self.ring.bytes):
            data = self.ring.block(number, self.ring.head)
            if not data and self.archive:
                data = self.archive.block(number, self.archive.head)
            if data:
                self.show_block(data)
            else:
                self.begun = None
        lost = word(self.ring.data, layout.ELEMENT_DROPS) - self.drops if self.sequence else 0
        self.gap(self.sequence + lost)

    def gap(self, to):
        if to > self.sequence:
            print("gap", self.writer, to - self.sequence, self.sequence - self.writer_from, sep="\t")
            self.sequence = to

    def show_block(self, data):
        # An event that began in the previous block continues, and this block's first event is the one after
        # it.
        if word(data, layout.BLOCK_SEQUENCE) != self.sequence + 1:
            self.begun = None
        if not self.begun:
            self.gap(word(data, layout.BLOCK_SEQUENCE))
        self.drops = word(data, layout.BLOCK_DROPS)
        base = time = word(data, layout.BLOCK_BASE)
        at = layout.BLOCK_HEADER
        while at < len(data):
            first = word(data, at)
            kind, words, flags = first >> 32 & 0xFFFF, first >> 48 & 0xFFF, first >> 60
            if words == 0:
                return
            if kind == layout.EVENT_KIND_FULL_TIME:
                base = word(data, at + 8)
            elif kind == layout.EVENT_KIND_OWNER:
                self.writer, self.writer_from = word(data, at + 8) & MASK, word(data, at + 24)
            elif kind == layout.EVENT_KIND_CONTINUATION:
                if self.begun:
                    self.take(*self.begun[:2], self.begun[2] + data[at + 8:at + 8 * words], flags)
            elif kind >= layout.EVENT_KIND_FIRST:
                if not flags & layout.EVENT_FLAG_SAME_TIME:
                    time = base & ~MASK | first & MASK
                if self.begun:
                    self.begun = None
                    self.gap(self.sequence + 1)
                self.take(time, kind, data[at + 8:at + 8 * words], flags)
            at += 8 * words

    def take(self, time, kind, arguments, flags):
        """Prints an event, or keeps it if more of it is to come."""
        if flags & layout.EVENT_FLAG_CONTINUED:
            self.begun = (time, kind, arguments)
            return
        self.begun = None
        fields = fields_of(self.kinds[kind], arguments)
        sequence = self.sequence - self.writer_from
        print("event", time, self.writer, sequence, self.kinds[kind].name, *fields, sep="\t")
        self.sequence += 1


def main(directory):
    sys.stdout.reconfigure(encoding="utf-8")
    with open(os.path.join(directory, "space"), "rb") as file:
        check("space", file.read(), layout.IDENTITY_MAGIC_VALUE)
    for name in sorted(os.listdir(directory)):
        found = re.fullmatch(r"(\d{4,})\.(element|at)", name)
        elsewhere = read_link(os.path.join(directory, name)) if found and found.group(2) == "at" else None
        if found and os.path.exists(os.path.join(elsewhere or directory, found.group(1) + ".element")):
            Element(directory, found.group(1), elsewhere).show()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip().split(": ", 1)[0] + ". Usage: thalweg_events.py DIRECTORY")
    # A reader that stops early (`| head`) ends this program without an error.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    main(sys.argv[1])
