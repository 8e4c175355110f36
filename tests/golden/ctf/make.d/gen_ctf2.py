#!/usr/bin/env python3
"""gen_ctf2.py OUT: a CTF 2 trace with a field of every type that the specification has, each at an odd place.

Written from the specification (CTF2-SPEC-2.0, diamon.org/ctf); babeltrace2 2.1 reads it, and says what is in it.
"""
import json
import os
import struct
import sys

OUT = sys.argv[1]
UUID = list(range(16))
RS = b"\x1e"


def u(bits, align=1, order="little-endian", **more):
    return {"type": "fixed-length-unsigned-integer", "length": bits, "byte-order": order, "alignment": align, **more}


def s(bits, align=1, order="little-endian", **more):
    return {**u(bits, align, order, **more), "type": "fixed-length-signed-integer"}


def st(*members, **more):
    return {"type": "structure", "member-classes": [{"name": n, "field-class": f} for n, f in members], **more}


def at(*path, origin="event-record-payload"):
    return {"origin": origin, "path": list(path)}


def var(signed=False, **more):
    return {"type": f"variable-length-{'signed' if signed else 'unsigned'}-integer", **more}


PAYLOAD = st(
    ("bits5", u(5)),
    ("signed11", s(11)),
    ("flags", {"type": "fixed-length-bit-map", "length": 8, "byte-order": "little-endian", "alignment": 8,
               "flags": {"LOW": [[0, 3]], "HIGH": [[4, 7]]}}),
    ("yes", {"type": "fixed-length-boolean", "length": 8, "byte-order": "little-endian", "alignment": 8}),
    ("raw", {"type": "fixed-length-bit-array", "length": 16, "byte-order": "big-endian", "alignment": 8}),
    ("level", u(8, 8, mappings={"LOW": [[0, 9]], "MID": [[10, 19]], "ODD": [[15, 15]]})),
    ("leb", var()),
    ("sleb", var(True)),
    ("half", {"type": "fixed-length-floating-point-number", "length": 32, "byte-order": "big-endian", "alignment": 8}),
    ("wide", {"type": "fixed-length-floating-point-number", "length": 64, "byte-order": "little-endian", "alignment": 64}),
    ("zero", {"type": "null-terminated-string"}),
    ("fixed", {"type": "static-length-string", "length": 6}),
    ("n", u(8, 8)),
    ("text", {"type": "dynamic-length-string", "length-field-location": at("n")}),
    ("blob", {"type": "static-length-blob", "length": 3}),
    ("dblob", {"type": "dynamic-length-blob", "length-field-location": at("n")}),
    ("three", {"type": "static-length-array", "length": 3, "element-field-class": s(12)}),
    ("many", {"type": "dynamic-length-array", "length-field-location": at("n"), "minimum-alignment": 16,
              "element-field-class": "word"}),
    ("pairs", {"type": "static-length-array", "length": 2, "element-field-class": st(("x", u(8, 8)), ("y", s(8, 8)))}),
    ("has", u(8, 8)),
    ("maybe", {"type": "optional", "selector-field-location": at("has"), "selector-field-ranges": [[1, 1], [7, 9]],
               "field-class": u(32, 8, "big-endian")}),
    ("kind", s(8, 8)),
    ("one", {"type": "variant", "selector-field-location": at("kind"), "options": [
        {"name": "small", "selector-field-ranges": [[-5, 0]], "field-class": s(8, 8)},
        {"name": "text", "selector-field-ranges": [[1, 1]], "field-class": {"type": "null-terminated-string"}},
        {"name": "both", "selector-field-ranges": [[2, 3], [5, 5]], "field-class": st(("a", u(8, 8)), ("b", u(16, 8)))},
    ]}),
    ("last", u(24, 8)),
)

FRAGMENTS = [
    {"type": "preamble", "version": 2, "uuid": UUID},
    {"type": "field-class-alias", "name": "word", "field-class": u(16, 8)},
    {"type": "trace-class", "name": "types", "uid": "types",
     "environment": {"hostname": "golden", "answer": 42},
     "packet-header-field-class": st(
         ("magic", u(32, 8, roles=["packet-magic-number"])),
         ("uuid", {"type": "static-length-blob", "length": 16, "roles": ["metadata-stream-uuid"]}),
         ("class", u(8, 8, roles=["data-stream-class-id"])))},
    {"type": "clock-class", "id": "slow", "name": "slow", "frequency": 32768, "origin": "unix-epoch",
     "offset-from-origin": {"seconds": 1600000000, "cycles": 16384}, "uid": "slow"},
    {"type": "data-stream-class", "id": 3, "default-clock-class-id": "slow",
     "packet-context-field-class": st(
         ("total", u(32, 8, roles=["packet-total-length"])),
         ("content", u(32, 8, roles=["packet-content-length"])),
         ("begin", u(64, 8, roles=["default-clock-timestamp"])),
         ("end", u(64, 8, roles=["packet-end-default-clock-timestamp"])),
         ("seq", u(16, 8, roles=["packet-sequence-number"])),
         ("lost", u(16, 8, roles=["discarded-event-record-counter-snapshot"]))),
     "event-record-header-field-class": st(
         ("id", u(6, roles=["event-record-class-id"])),
         ("time", u(10, roles=["default-clock-timestamp"]))),
     "event-record-common-context-field-class": st(("vtid", u(16, 8)), ("vpid", u(16, 8)))},
    {"type": "event-record-class", "id": 9, "data-stream-class-id": 3, "name": "every_type", "payload-field-class": PAYLOAD},
    {"type": "event-record-class", "id": 10, "data-stream-class-id": 3, "name": "bare"},
]


class Bits:
    """Little-endian bit fields; what is big-endian here is whole bytes."""

    def __init__(self):
        self.bits = []

    def align(self, n):
        while len(self.bits) % n:
            self.bits.append(0)

    def le(self, n, value, align=1):
        self.align(align)
        self.bits += [value >> i & 1 for i in range(n)]

    def raw(self, data, align=8):
        self.align(align)
        for byte in data:
            self.bits += [byte >> i & 1 for i in range(8)]

    def leb(self, value, signed=False):
        self.align(8)
        out = []
        while True:
            part = value & 0x7F
            value >>= 7
            done = (value == 0 and not part & 0x40) or (value == -1 and part & 0x40) if signed else value == 0
            out.append(part if done else part | 0x80)
            if done:
                return self.raw(bytes(out))

    def bytes(self):
        self.align(8)
        return bytes(sum(self.bits[i + j] << j for j in range(8)) for i in range(0, len(self.bits), 8))


def every_type(b, i):
    b.le(16, 1000 + i % 2, 8)
    b.le(16, 900, 8)
    b.le(5, i * 7 % 32, 64)
    b.le(11, -i * 13)
    b.raw(bytes([i % 256, i % 2, 0x12, i % 256]))
    b.raw(bytes([(5, 12, 15, 200)[i % 4]]))
    b.leb(i ** 7)
    b.leb(-(i ** 5) if i % 2 else i ** 5, signed=True)
    b.raw(struct.pack(">f", i / 4))
    b.raw(struct.pack("<d", i / -8), 64)
    b.raw(b"string %d\0" % i)
    b.raw(b"ab\0\0\0\0" if i % 2 else b"sixsix")
    n = i % 5
    b.raw(bytes([n]))
    b.raw(("", "x", "ü", "xyz", "grün"[:3])[n].encode())
    b.raw(bytes([i % 256, 2, 255]))
    b.raw(bytes(range(n)))
    b.align(8)
    for k in range(3):
        b.le(12, k * -100 - i)
    b.align(16)
    for k in range(n):
        b.le(16, 40000 + k, 8)
    b.raw(bytes([i % 256, 250, 2, 255]))
    has = i % 10
    b.raw(bytes([has]))
    if has == 1 or 7 <= has <= 9:
        b.raw(struct.pack(">I", i))
    kind = (-5, 1, 3, 5, 0)[i % 5]
    b.le(8, kind, 8)
    if kind <= 0:
        b.le(8, -i, 8)
    elif kind == 1:
        b.raw(b"chosen\0")
    else:
        b.raw(bytes([i % 256]) + struct.pack("<H", i))
    b.le(24, 0xABCDEF - i, 8)


def packet(seq, first, n, begin, lost):
    now, body = begin, Bits()
    head = 4 + 16 + 1 + 4 + 4 + 8 + 8 + 2 + 2
    body.bits = [0] * (head * 8)
    for i in range(first, first + n):
        # Wraps of ten bits; the structure of the head begins at any bit.
        now += (i * 37) % 1000 + 1
        body.le(6, 9 if i % 3 else 10)
        body.le(10, now & 1023)
        if i % 3:
            every_type(body, i)
        else:
            body.le(16, 1000 + i % 2, 8)
            body.le(16, 900, 8)
    content = len(body.bits)
    size = -(-content // 512) * 512
    data = body.bytes().ljust(size // 8, b"\0")
    front = struct.pack("<I16sBIIQQHH", 0xC1FC1FC1, bytes(UUID), 3, size, content, begin, now, seq, lost)
    assert len(front) == head
    return front + data[head:], now


os.makedirs(OUT, exist_ok=True)
with open(f"{OUT}/metadata", "wb") as f:
    for fragment in FRAGMENTS:
        f.write(RS + json.dumps(fragment).encode() + b"\n")
with open(f"{OUT}/stream", "wb") as f:
    now, first = 1_000_000, 1
    for seq, (n, lost) in enumerate([(10, 0), (1, 0), (30, 4)]):
        data, now = packet(seq, first, n, now, lost)
        f.write(data)
        first += n
