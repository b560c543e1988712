#!/usr/bin/env python3
"""Writes the input of CassandraTypes.java: class names and serialized values, edges and junk.

    python3 cassandra_inputs.py > inputs.txt
    python3 cassandra_inputs.py vectors > inputs.txt    for Cassandra 5.0
"""

import random
import struct
import sys

rng = random.Random(7)
lines = {}


def add(name, *values):
    row = lines.setdefault(name, [])
    row.extend(value for value in values if value not in row)


def blob(n):
    return bytes(rng.randrange(256) for _ in range(n))


def element(value):
    return b"\xff\xff\xff\xff" if value is None else struct.pack(">i", len(value)) + value


def collection(*values, per=1):
    return struct.pack(">i", len(values) // per) + b"".join(map(element, values))


def tup(*values):
    return b"".join(map(element, values))


def i32(v):
    return struct.pack(">i", v)


def vint(v):
    v = (v << 1) ^ (v >> 63) & (2 ** 64 - 1)
    v &= 2 ** 64 - 1
    for n in range(9):
        if n == 8 or v < 1 << (7 * (n + 1)):
            break
    if n == 8:
        return b"\xff" + struct.pack(">Q", v)
    head = 0xff & ~(0xff >> n)
    raw = v.to_bytes(n + 1, "big")
    return bytes([raw[0] | head]) + raw[1:]


# Values first: every scalar with edges, wrong lengths and noise.
ints = lambda n: [0, 1, -1, 2 ** (n - 1) - 1, -2 ** (n - 1), 100, -100, 12345 % 2 ** (n - 1)]
for name, n in [("ByteType", 8), ("ShortType", 16), ("Int32Type", 32), ("LongType", 64)]:
    add(name, *(v.to_bytes(n // 8, "big", signed=True) for v in ints(n)), b"", b"\x01\x02\x03")
for name in ["TimestampType", "DateType"]:
    for v in [0, -1, 1, 1580477454234, -62135596800000, -62135596800001, 253402300800000, 2 ** 63 - 1, -2 ** 63, -1234567890123]:
        add(name, struct.pack(">q", v))
    add(name, b"", b"\x00" * 7)
for v in [0, 1, 2 ** 31, 2 ** 31 - 1, 2 ** 32 - 1, 2 ** 31 + 18000, 2 ** 31 - 719162, 2 ** 31 - 719163, 2 ** 31 - 719529, 2 ** 31 + 2932897]:
    add("SimpleDateType", struct.pack(">I", v))
add("SimpleDateType", b"", b"\x00")
for v in [0, 1, 86399999999999, 48654234000000]:
    add("TimeType", struct.pack(">q", v))
add("TimeType", b"", b"\x00" * 4)
add("BooleanType", b"\x00", b"\x01", b"\xff", b"", b"\x00\x01")
for v in [0.0, -0.0, 1.0, -1.5, 0.1, 1e7, 9999999.0, 1e-3, 9.9e-4, 123456.789, 3e38, 1e-38, float("inf"), -float("inf"), float("nan")]:
    add("FloatType", struct.pack(">f", v))
    add("DoubleType", struct.pack(">d", v))
for v in [1e21, 1e300, 5e-324, 1.7976931348623157e308, 12345678.9, 0.3, 2 / 3]:
    add("DoubleType", struct.pack(">d", v))
add("FloatType", bytes.fromhex("7fc00001"), bytes.fromhex("ff800001"), b"", b"\x00")
add("DoubleType", bytes.fromhex("fff8000000000001"), b"", b"\x00" * 4)
for v in [0, 1, -1, 127, 128, -128, -129, 255, 256, 32767, -32768, 65536, 2 ** 63, -2 ** 63, 2 ** 64, 10 ** 30, -10 ** 30, 3 ** 200]:
    add("IntegerType", v.to_bytes(v.bit_length() // 8 + 1, "big", signed=True))
add("IntegerType", b"", b"\x00\x00\x01", b"\xff\xff\xff", b"\x00\x80", b"\xff\x7f")
for unscaled, scale in [(0, 0), (0, 3), (0, -3), (1, 0), (10, 1), (100, 2), (-10, 1), (123456, 3), (99, 1), (10, 0), (1, 6), (1, 7),
                        (1, 10), (5, -2), (12, -10), (-129, 1), (128, 1), (10 ** 30, 30), (10 ** 30 + 1, 30), (-10 ** 40, 41),
                        (1, 1000), (1, -1000), (1, 2 ** 31 - 1), (1, -2 ** 31), (-5, 2 ** 31 - 1), (3 ** 300, 100), (3 ** 300, 101)]:
    add("DecimalType", i32(scale) + unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True))
add("DecimalType", b"", b"\x00", b"\x00\x00\x00")
for parts in [(0, 0, 0), (14, 3, 14706007008009), (-1, -1, -1), (0, 0, 1), (2 ** 31 - 1, 2 ** 31 - 1, 2 ** 63 - 1), (1, -1, 0),
              (2 ** 31, 0, 0), (0, 2 ** 40, 0), (0, 0, 3600000000000), (0, 400, 0), (25, 0, 61000000000)]:
    add("DurationType", b"".join(map(vint, parts)))
add("DurationType", b"", b"\x00\x00")
uuids = ["00" * 16, "ff" * 16, "550e8400e29b41d4a716446655440000", "550e8400e29b31d4a716446655440000", "123e4567e89b12d3a456426614174000",
         "123e4567e89b12d3a456426614174080", "123e4567e89b12d37f56426614174000", "ffffffff000010008080808080808080",
         "00000000ffff1000bf7f7f7f7f7f7f7f", "00000000ffff10003f00000000000000", "00000000ffff1000bf00000000000000",
         "f50e8400e29b41d4a716446655440000", "950e8400e29b41d4a716446655440000"]
for name in ["UUIDType", "LexicalUUIDType"]:
    add(name, *map(bytes.fromhex, uuids), b"", b"\x00" * 15)
add("TimeUUIDType", *(bytes.fromhex(u) for u in uuids if u[12] == "1"), b"", b"\x00" * 15, b"\x00" * 16)
for _ in range(6):
    v1 = bytearray(blob(16))
    v1[6] = 0x10 | v1[6] & 15
    add("TimeUUIDType", bytes(v1))
    add("UUIDType", blob(16), bytes(v1))
    add("LexicalUUIDType", blob(16))
for u in ["7f000001", "00000000", "ffffffff", "00" * 16, "00" * 15 + "01", "20010db8" + "00" * 8 + "8a2e0370", "00" * 10 + "ffff01020304", "-", "00"]:
    add("InetAddressType", bytes.fromhex(u.replace("-", "")))
for text in ["", "a", "it's", 'say "hi" \\ /', "tab\tline\nfeed\f\b\r", "\u0001\u001f\u007f", "naïve", "日本語", "𝄞", "b"]:
    add("UTF8Type", text.encode())
    if text.isascii():
        add("AsciiType", text.encode())
add("UTF8Type", b"\xff", b"\xc3", b"a\xe2\x28\xa1")
add("AsciiType", b"\x80", b"a\xff")
add("BytesType", b"", b"\x00", b"\xff\x00", b"\x7f", bytes(range(32)))
add("EmptyType", b"", b"\x00")
add("CounterColumnType", struct.pack(">q", 42), struct.pack(">q", -1))

# Types that hold types.
ints = [i32(v) for v in (0, 1, -1, 5)]
for name in ["FrozenType(ListType(Int32Type))", "FrozenType(SetType(Int32Type))"]:
    add(name, collection(), *(collection(v) for v in ints), collection(*ints), collection(*ints[:2]), collection(b""),
        collection(ints[0], b""), collection()[:3], collection(*ints)[:-1], collection(*ints) + b"\x00", collection(None),
        collection(b"\x01\x02"), i32(5) + element(ints[0]))
add("FrozenType(SetType(Int32Type))", b"")
m = lambda *pairs: collection(*(x for pair in pairs for x in pair), per=2)
add("FrozenType(MapType(UTF8Type,Int32Type))", m(), m((b"a", ints[0])), m((b"a", ints[1])), m((b"b", ints[2])),
    m((b"a", ints[0]), (b"b", ints[1])), m((b'"', ints[0])), b"", m((b"a", ints[0]))[:-1], m((b"a", b"")), m((b"a", None)))
add("MapType(Int32Type,FrozenType(ListType(UTF8Type)))", m((ints[1], collection(b"x", b"y"))), m((ints[2], collection())))
add("FrozenType(MapType(ListType(Int32Type),TimestampType))", m((collection(ints[1]), struct.pack(">q", 0))))
add("TupleType(Int32Type,UTF8Type)", tup(), tup(ints[0]), tup(ints[0], None), tup(ints[0], b"a"), tup(None, b"a"), tup(None, None),
    tup(None), tup(ints[1], b"a:b@c"), tup(ints[2], b""), tup(b"", b"a"), tup(ints[0], b"a")[:-1], tup(ints[0], b"a", b"x"),
    tup(ints[0])[:2], tup(b"\x01"))
add("FrozenType(UserType(ks,61,66697273744e616d65:UTF8Type,616765:Int32Type,74616773:SetType(UTF8Type)))",
    tup(b"n", ints[1], collection(b"x")), tup(b"n", ints[1]), tup(b"n", None, None), tup(b"n"), tup(None, ints[0], None),
    tup(b'"', ints[2], collection()), tup(b"n", b"\x01"), tup(b"n", ints[1], collection(b"x"))[:-1], tup(b"n", None, None, None))
add("ReversedType(Int32Type)", *ints, b"")
add("ReversedType(FrozenType(ListType(Int32Type)))", collection(), collection(ints[0]), collection(ints[2]))
comp = lambda *parts, end=0: b"".join(struct.pack(">H", len(p)) + p + bytes([end]) for p in parts)
add("CompositeType(UTF8Type,Int32Type)", comp(b"a", ints[0]), comp(b"a", ints[2]), comp(b"b", ints[1]), comp(b"a"), comp(b"a:b\\", ints[1]),
    comp(b"!", ints[1]), comp(b"a", end=1), comp(b"a", end=255), comp(b"a", ints[0])[:-1], comp(b"a", b"\x01"),
    comp(b"a", ints[0], b"x"), b"")

# Names only.
for name in ["ListType(Int32Type)", "ListType(FrozenType(SetType(Int32Type)))", "FrozenType(ListType(SetType(Int32Type)))",
             "FrozenType(ListType(FrozenType(SetType(Int32Type))))", "TupleType(FrozenType(ListType(Int32Type)),UTF8Type)",
             "UserType(ks,61646472,737472:UTF8Type,70:FrozenType(ListType(Int32Type)))", "FrozenType(TupleType(Int32Type))",
             "ListType(FrozenType(UserType(ks,61646472,737472:UTF8Type)))", "Int32Type(reversed=true)", "UTF8Type(reversed=false)",
             "org.apache.cassandra.db.marshal.MapType(org.apache.cassandra.db.marshal.UTF8Type,Int32Type)",
             "  SetType( UTF8Type ) ", "NoSuchType", "ListType()", "ListType(Int32Type,Int32Type)", "MapType(Int32Type)", "ListType(Int32Type",
             "ReversedType(ReversedType(Int32Type))", "CompositeType(Int32Type,ReversedType(UTF8Type))"]:
    add(name)

# Vectors came with 5.0.
vectors = {}


def short(values):
    return b"".join(bytes([len(value)]) + value for value in values)


f32s = [struct.pack(">f", v) for v in (0.0, -0.0, 1.5, -1.5, float("nan"))]
vectors["VectorType(FloatType , 2)"] = [f32s[i] + f32s[j] for i, j in [(0, 0), (0, 1), (2, 3), (3, 2), (2, 4)]] + [b"", f32s[0], f32s[0] * 3]
vectors["VectorType(Int32Type,2)"] = [ints[1] + ints[2], ints[2] + ints[1], ints[1] + ints[1]]
vectors["VectorType(UTF8Type , 2)"] = [short([b"a", b"b"]), short([b"a", b""]), short([b"", b"z"]), short([b"ab", b"a"]), short([b"a"]),
                                       short([b"a"] * 3), short([b"a", b"\xff"]), short([b"b" * 100, b"c"])]
vectors["VectorType(ShortType , 2)"] = [short([b"\x00\x01", b"\xff\xff"]), short([b"\xff\xff", b"\x00\x01"]), b"\x00\x01\x00\x02"]
vectors["VectorType(FrozenType(ListType(Int32Type)) , 1)"] = [short([collection(v)]) for v in ints] + [short([collection()])]
vectors["FrozenType(ListType(VectorType(BooleanType , 3)))"] = [collection(b"\x00\x01\x01"), collection(b"\x01\x00\x00"), collection(b"\x00")]
vectors["VectorType(VectorType(Int32Type , 2) , 2)"] = [ints[0] + ints[1] + ints[2] + ints[3], ints[0] + ints[0] + ints[2] + ints[3]]
for name in ["VectorType(ListType(Int32Type),2)", "TupleType(VectorType(ListType(Int32Type) , 2))", "VectorType(Int32Type)", "VectorType(Int32Type,0)"]:
    vectors[name] = []

if sys.argv[1:] == ["vectors"]:
    lines = vectors
for name, values in lines.items():
    print(name, *(value.hex() or "-" for value in values), sep="\t")
