"""Writes cases.txt.gz: values as CPython pickles them, and what a reader should make of them.

Run it in this folder with any Python 3.8 or later. A line is: name, protocol, pickle in hex, expected
text; the text "!NAME" means that the reader must refuse the opcode NAME.
"""
import gzip
import io
import os
import pickle
import struct


def text(v):
    if v is None:
        return "None"
    if isinstance(v, bool):
        return str(v)
    if isinstance(v, int):
        return str(v) if -(2**63) <= v < 2**64 else "big"
    if isinstance(v, float):
        return "f" + struct.pack(">d", v).hex()
    if isinstance(v, str):
        return '"' + v.encode("utf-8", "surrogatepass").hex() + '"'
    if isinstance(v, (bytes, bytearray)):
        return "bytes%d" % len(v)
    if isinstance(v, list):
        return "[" + ",".join(map(text, v)) + "]"
    if isinstance(v, (tuple, frozenset)):
        return "(" + ",".join(map(text, v)) + ")"
    if isinstance(v, set):
        return "[" + ",".join(map(text, v)) + "]"
    if isinstance(v, dict):
        return "{" + ",".join(text(k) + ":" + text(x) for k, x in v.items()) + "}"
    raise TypeError(v)


shared = {"name": "f", "line": 3}
empty = []
stack = [shared, shared]
long_stack = [shared] * 1500
values = {
    "none": None,
    "bools": [True, False],
    "small": [0, 1, 255, 256, 65535, 65536, -1, -128, -129, 2**31 - 1, -(2**31)],
    "large": [2**31, 2**32, 2**47 + 512, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), -(2**31) - 1],
    "huge": [2**64, -(2**63) - 1, 2**3000, -(2**3000)],
    "floats": [0.0, -0.0, 1.5, 1e300, float("inf"), float("-inf")],
    "strings": ["", "a", "a", "naïve", "line\nbreak\\u0041 'quote\"", "\U0001f600", "x" * 300, "y" * 70000],
    "lone": "\ud800",
    "tuples": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), ((), ((),))],
    "nested": [[[[[]]]], [[], []]],
    "empty_shared": [empty, {"a": empty, "b": [empty]}],
    "shared": [{"frames": stack}, {"frames": stack, "more": [shared]}, list(stack)],
    "pending": {"frames": long_stack, "blocks": [{"frames": long_stack}]},
    "one": [{"a": 1}, [7]],
    "batch999": [None] * 999,
    "batch1000": [None] * 1000,
    "batch1001": [None] * 1001,
    "batch2500": [{"i": i % 7} for i in range(2500)],
    "dict1": {"k": "v"},
    "dict1001": {i: None for i in range(1001)},
    "mixed_keys": {1: "int", "s": 2, (1, 2): None, None: True},
}
# Protocols below 3 and 4 make these out of globals.
since = {"bytes": (3, [b"", b"abc", b"z" * 300]), "bytearray": (5, bytearray(b"abc")),
         "set": (4, [set(), {1}]), "frozenset": (4, [frozenset(), frozenset([1])])}


class Hostile:
    def __reduce__(self):
        return (os.system, ("echo this must never run",))


class Plain:
    def __init__(self):
        self.x = 1


class Persistent(pickle.Pickler):
    def persistent_id(self, obj):
        return "id" if obj == "persist" else None


def torchscript(v):
    """The dialect of TorchScript's pickler: protocol 2, strings memoized by value, containers memoized
    only when something else refers to them and then behind their contents, integers above 32 bits always
    in eight bytes, lists of any length in one go."""
    out, memo, slots = bytearray(b"\x80\x02"), {}, [0]
    uses = {}

    def count(x):
        if isinstance(x, (list, dict, tuple)):
            uses[id(x)] = uses.get(id(x), 0) + 1
            if uses[id(x)] == 1:
                for y in x.values() if isinstance(x, dict) else x:
                    count(y)

    def put(key):
        n = slots[0]
        memo[key] = n
        slots[0] += 1
        out.extend(b"q" + bytes([n]) if n < 256 else b"r" + struct.pack("<I", n))

    def get(key):
        n = memo[key]
        out.extend(b"h" + bytes([n]) if n < 256 else b"j" + struct.pack("<I", n))

    def write(x):
        if x is None:
            out.extend(b"N")
        elif isinstance(x, bool):
            out.extend(b"\x88" if x else b"\x89")
        elif isinstance(x, int):
            if x >= 2**63:
                x -= 2**64
            if 0 <= x < 256:
                out.extend(b"K" + bytes([x]))
            elif 0 <= x < 65536:
                out.extend(b"M" + struct.pack("<H", x))
            elif -(2**31) <= x < 2**31:
                out.extend(b"J" + struct.pack("<i", x))
            else:
                out.extend(b"\x8a\x08" + struct.pack("<q", x))
        elif isinstance(x, float):
            out.extend(b"G" + struct.pack(">d", x))
        elif isinstance(x, str):
            if ("s", x) in memo:
                return get(("s", x))
            b = x.encode()
            out.extend(b"X" + struct.pack("<I", len(b)) + b)
            put(("s", x))
        elif id(x) in memo:
            get(id(x))
        else:
            if isinstance(x, dict):
                out.extend(b"}(")
                for k, y in x.items():
                    write(k)
                    write(y)
                out.extend(b"u")
            elif isinstance(x, list):
                out.extend(b"](")
                for y in x:
                    write(y)
                out.extend(b"e")
            elif len(x) <= 3:
                for y in x:
                    write(y)
                out.extend([b")", b"\x85", b"\x86", b"\x87"][len(x)])
            else:
                out.extend(b"(")
                for y in x:
                    write(y)
                out.extend(b"t")
            if uses[id(x)] > 1:
                put(id(x))

    count(v)
    write(v)
    return bytes(out) + b"."


def main():
    lines = []

    def case(name, proto, data, expected):
        lines.append(f"{name} {proto} {data.hex()} {expected}\n")

    for proto in range(6):
        for name, v in values.items():
            if name in ("lone",) and proto == 0:
                continue  # not UTF-8 in that form
            case(name, proto, pickle.dumps(v, protocol=proto), text(v))
        for name, (first, v) in since.items():
            if proto >= first:
                case(name, proto, pickle.dumps(v, protocol=proto), text(v))
        glob = "STACK_GLOBAL" if proto >= 4 else "GLOBAL"
        case("hostile", proto, pickle.dumps({"a": [Hostile()]}, protocol=proto), "!" + glob)
        case("object", proto, pickle.dumps([Plain()], protocol=proto), "!" + glob)
        buf = io.BytesIO()
        Persistent(buf, protocol=proto).dump(["persist"])
        case("persistent", proto, buf.getvalue(), "!PERSID" if proto == 0 else "!BINPERSID")
    for name in ("none", "bools", "small", "strings", "tuples", "nested", "empty_shared", "shared", "pending", "one", "batch2500", "dict1001"):
        case(name, "torchscript", torchscript(values[name]), text(values[name]))
    with gzip.GzipFile("cases.txt.gz", "wb", mtime=0) as f:
        f.write("".join(lines).encode())


if __name__ == "__main__":
    main()
