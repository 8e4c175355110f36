"""A perf.data file as a big-endian machine would have written it.

No such machine is at hand. perf reads files of the other byte order, so that the expectation of the swapped file is
what perf says of it, and must be that of the file it was made from.
"""
import re
import struct



def words(data, code):
    """Swaps an array of numbers of one size."""
    size = struct.calcsize(code)
    n = len(data) // size
    return struct.pack(f">{n}{code}", *struct.unpack(f"<{n}{code}", data[: n * size])) + data[n * size :]


def bits(data):
    """Bit fields begin at the other end."""
    return bytes(int(f"{byte:08b}"[::-1], 2) for byte in data)


def attr(data):
    """type, size, then u64s; the flags are bits; after bp_len some u32s."""
    out = words(data[0:8], "I") + words(data[8:40], "Q") + bits(data[40:48]) + words(data[48:56], "I") + words(data[56:88], "Q")
    # sample_stack_user, clockid, sample_regs_intr, aux_watermark, max_stack+reserved, aux_sample_size, reserved, sig_data.
    out += words(data[88:96], "I") + words(data[96:104], "Q") + words(data[104:108], "I") + words(data[108:112], "H") + words(data[112:120], "I") + words(data[120:128], "Q")
    return out


def texts(data):
    """u32 count, then u32 length and text."""
    (count,) = struct.unpack_from("<I", data)
    out, at = struct.pack(">I", count), 4
    for _ in range(count):
        (size,) = struct.unpack_from("<I", data, at)
        out += struct.pack(">I", size) + data[at + 4 : at + 4 + size]
        at += 4 + size
    return out


def tracing(data):
    """Format files: lengths are swapped, texts stay; says which fields the events have."""
    at = 10 + data[10:].index(0) + 1
    out = data[:at] + b"\x01" + data[at + 1 : at + 2] + words(data[at + 2 : at + 6], "I")
    at += 6
    formats = {}

    def sized(code):
        nonlocal at, out
        size = struct.calcsize(code)
        (n,) = struct.unpack_from("<" + code, data, at)
        part = data[at + size : at + size + n]
        out += struct.pack(">" + code, n) + part
        at += size + n
        return part

    def count():
        nonlocal at, out
        (n,) = struct.unpack_from("<I", data, at)
        out += struct.pack(">I", n)
        at += 4
        return n

    for name in (b"header_page\0", b"header_event\0"):
        out += name
        at += len(name)
        sized("Q")
    for _ in range(count()):
        sized("Q")
    for _ in range(count()):
        end = data.index(0, at) + 1
        out += data[at:end]
        at = end
        for _ in range(count()):
            text = sized("Q").decode()
            fields = re.findall(r"field:(.*?);\s*offset:(\d+);\s*size:(\d+);", text)
            formats[int(re.search(r"ID: (\d+)", text)[1])] = [(decl, int(o), int(s)) for decl, o, s in fields]
    sized("I")
    sized("I")
    sized("Q")
    return out + data[at:], formats


def raw(data, formats):
    """A tracepoint's bytes: each number of its format."""
    out = bytearray(data)
    (event,) = struct.unpack_from("<H", data)
    for decl, offset, size in formats.get(event, []):
        if "[" not in decl or "__data_loc" in decl:
            out[offset : offset + size] = data[offset : offset + size][::-1]
    return bytes(out)


def record(data, formats):
    kind, misc, size = struct.unpack_from("<IHH", data)
    head, body = struct.pack(">IHH", kind, misc, size), data[8:]
    # sample_id of every event in these files: pid, tid, time, cpu, reserved, identifier.
    def ids(tail):
        return words(tail[:8], "I") + words(tail[8:16], "Q") + words(tail[16:24], "I") + words(tail[24:], "Q")

    if kind == 9:  # IDENTIFIER, IP, TID, TIME, CPU, PERIOD, RAW
        fixed = words(body[:16], "Q") + words(body[16:24], "I") + words(body[24:32], "Q") + words(body[32:40], "I") + words(body[40:48], "Q")
        (n,) = struct.unpack_from("<I", body, 48)
        return head + fixed + struct.pack(">I", n) + raw(body[52 : 52 + n], formats) + body[52 + n :]
    if kind >= 64:
        if kind == 69:
            return head + words(body, "Q")
        if kind == 73:
            out = words(body[:8], "Q")
            for at in range(8, len(body), 24):
                out += words(body[at : at + 8], "Q") + body[at + 8 : at + 24]
            return head + out
        if kind == 74:
            return head + words(body, "H")
        return head + words(body, "I")
    body, tail = body[:-32], ids(body[-32:])
    if kind == 1:  # MMAP
        return head + words(body[:8], "I") + words(body[8:32], "Q") + body[32:] + tail
    if kind == 10:  # MMAP2; a build id or device and inode
        middle = body[32:56] if misc & (1 << 14) else words(body[32:40], "I") + words(body[40:56], "Q")
        return head + words(body[:8], "I") + words(body[8:32], "Q") + middle + words(body[56:64], "I") + body[64:] + tail
    if kind == 3:  # COMM
        return head + words(body[:8], "I") + body[8:] + tail
    if kind in (4, 7):  # EXIT, FORK
        return head + words(body[:16], "I") + words(body[16:24], "Q") + tail
    if kind in (2, 13):  # LOST, LOST_SAMPLES
        return head + words(body, "Q") + tail
    raise SystemExit(f"swap: record of type {kind}")




def swap(data):
    assert data[:8] == b"PERFILE2"
    size, attr_size, attrs_at, attrs_size, data_at, data_size = struct.unpack_from("<6Q", data, 8)
    features = [bit for bit in range(256) if data[72 + bit // 8] >> bit % 8 & 1]
    table = data_at + data_size
    sections = [struct.unpack_from("<2Q", data, table + 16 * n) for n in range(len(features))]
    out = bytearray(data)
    out[:72] = data[:8][::-1] + words(data[8:72], "Q")
    out[72:104] = words(data[72:104], "Q")
    # The ids of the attributes, then the attributes.
    for at in range(attrs_at, attrs_at + attrs_size, attr_size):
        ids_at, ids_size = struct.unpack_from("<2Q", data, at + attr_size - 16)
        out[at : at + attr_size] = attr(data[at : at + attr_size - 16]) + words(data[at + attr_size - 16 : at + attr_size], "Q")
        out[ids_at : ids_at + ids_size] = words(data[ids_at : ids_at + ids_size], "Q")
    formats = {}
    for n, (feature, (at, length)) in enumerate(zip(features, sections)):
        part = data[at : at + length]
        if feature == 1:
            part, formats = tracing(part)
        elif feature in (3, 4, 5, 6, 8, 9):
            part = words(part[:4], "I") + part[4:]
        elif feature in (7,):
            part = words(part, "I")
        elif feature in (10, 21, 23):
            part = words(part, "Q")
        elif feature == 11:
            part = texts(part)
        elif feature == 12:
            part = event_desc(part)
        else:
            # Left out below: nothing here reads it.
            part = None
        if part is not None:
            assert len(part) == length, feature
            out[at : at + length] = part
    at = data_at
    while at < data_at + data_size:
        length = struct.unpack_from("<H", data, at + 6)[0]
        part = record(data[at : at + length], formats)
        assert len(part) == length
        out[at : at + length] = part
        at += length
    keep = [n for n, feature in enumerate(features) if feature in (1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 21, 23)]
    bitmap = sum(1 << features[n] for n in keep)
    out[72:104] = b"".join((bitmap >> 64 * n & (1 << 64) - 1).to_bytes(8, "big") for n in range(4))
    # The table is shorter now; what stands between it and the first section is not read.
    for place, n in enumerate(keep):
        out[table + 16 * place : table + 16 * place + 16] = struct.pack(">2Q", *sections[n])
    return bytes(out)


def event_desc(data):
    count, size = struct.unpack_from("<2I", data)
    out, at = struct.pack(">2I", count, size), 8
    for _ in range(count):
        out += attr(data[at : at + size])
        at += size
        n_ids, length = struct.unpack_from("<2I", data, at)
        out += struct.pack(">2I", n_ids, length) + data[at + 8 : at + 8 + length]
        at += 8 + length
        out += words(data[at : at + 8 * n_ids], "Q")
        at += 8 * n_ids
    return out
