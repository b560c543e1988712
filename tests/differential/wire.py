"""A client of the native protocol, version 4, that shows answers as they are on the wire.

The drivers interpret answers: they decode values, lose the difference between an empty value and null, and turn errors into exceptions of their own.
The differential runner compares what was sent. A `Client` is one connection; `ask` sends one request and returns an `Answer`.
"""

import socket
import struct
from dataclasses import dataclass, field

QUERY, PREPARE, EXECUTE, BATCH = 0x07, 0x09, 0x0A, 0x0D
CONSISTENCY = {"ANY": 0, "ONE": 1, "TWO": 2, "THREE": 3, "QUORUM": 4, "ALL": 5, "LOCAL_QUORUM": 6, "EACH_QUORUM": 7, "SERIAL": 8, "LOCAL_SERIAL": 9, "LOCAL_ONE": 10}
UNSET = object()

ERRORS = {0x0000: "ServerError", 0x000A: "ProtocolError", 0x0100: "AuthenticationFailed", 0x1000: "Unavailable", 0x1001: "Overloaded", 0x1002: "Bootstrapping",
          0x1003: "TruncateError", 0x1100: "WriteTimeout", 0x1200: "ReadTimeout", 0x1300: "ReadFailure", 0x1400: "FunctionFailure", 0x1500: "WriteFailure",
          0x1600: "CdcWriteFailure", 0x1700: "CasWriteUnknown", 0x2000: "SyntaxError", 0x2100: "Unauthorized", 0x2200: "Invalid", 0x2300: "ConfigError",
          0x2400: "AlreadyExists", 0x2500: "Unprepared"}
TYPES = {0x01: "ascii", 0x02: "bigint", 0x03: "blob", 0x04: "boolean", 0x05: "counter", 0x06: "decimal", 0x07: "double", 0x08: "float", 0x09: "int", 0x0B: "timestamp",
         0x0C: "uuid", 0x0D: "text", 0x0E: "varint", 0x0F: "timeuuid", 0x10: "inet", 0x11: "date", 0x12: "time", 0x13: "smallint", 0x14: "tinyint", 0x15: "duration"}


class Closed(Exception):
    """The server ended the connection, or does not answer."""


@dataclass
class Answer:
    """One answer. `kind`: "void", "rows", "keyspace", "prepared", "schema", or the name of an error, whose text is in `text`."""

    kind: str
    text: str = ""
    columns: list = field(default_factory=list)  # of rows: (keyspace, table, name, type); of a prepared statement: its markers
    rows: list = field(default_factory=list)  # tuples of bytes or None
    warnings: list = field(default_factory=list)
    paging_state: bytes | None = None
    statement_id: bytes | None = None
    key_markers: tuple = ()
    result_columns: list = field(default_factory=list)  # of a prepared statement

    def is_error(self):
        return self.kind not in ("void", "rows", "keyspace", "prepared", "schema")


class Body:
    """Reads the parts of a message."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        self.at += count
        return self.data[self.at - count:self.at]

    def short(self):
        return struct.unpack(">H", self.take(2))[0]

    def int(self):
        return struct.unpack(">i", self.take(4))[0]

    def string(self):
        return self.take(self.short()).decode()

    def strings(self):
        return [self.string() for _ in range(self.short())]

    def bytes(self):
        length = self.int()
        return None if length < 0 else self.take(length)

    def type(self):
        code = self.short()
        if code == 0x00:
            return f"'{self.string()}'"
        if code == 0x20:
            return f"list<{self.type()}>"
        if code == 0x22:
            return f"set<{self.type()}>"
        if code == 0x21:
            return f"map<{self.type()}, {self.type()}>"
        if code == 0x31:
            return f"tuple<{', '.join(self.type() for _ in range(self.short()))}>"
        if code == 0x30:
            keyspace, name = self.string(), self.string()
            fields = [f"{self.string()} {self.type()}" for _ in range(self.short())]
            return f"{keyspace}.{name}({', '.join(fields)})"
        return TYPES.get(code, f"type {code:#x}")

    def columns(self, key_markers):
        flags, count = self.int(), self.int()
        markers = tuple(self.short() for _ in range(self.int())) if key_markers else ()
        paging_state = self.bytes() if flags & 2 else None
        if flags & 4:
            return [], count, paging_state, markers
        shared = (self.string(), self.string()) if flags & 1 else None
        columns = []
        for _ in range(count):
            table = shared or (self.string(), self.string())
            columns.append((*table, self.string(), self.type()))
        return columns, count, paging_state, markers


class Client:
    """A connection. `login` is (user, password), for servers that ask. Requests wait at most `timeout_s` for their answer."""

    def __init__(self, host, port, timeout_s=120, version=4, login=None):
        self.address, self.version = (host, port), version
        self.socket = socket.create_connection(self.address, timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = b""
        answer = self.request(0x01, struct.pack(">H", 1) + string("CQL_VERSION") + string("3.0.0"))
        if answer.kind == "authenticate" and login:
            answer = self.request(0x0F, value_bytes(f"\0{login[0]}\0{login[1]}".encode()))
            if answer.is_error():
                raise Closed(answer.text)

    def request(self, opcode, body):
        self.send(opcode, body)
        return self.receive()

    def send(self, opcode, body):
        self.socket.sendall(struct.pack(">BBhBi", self.version, 0, 1, opcode, len(body)) + body)

    def read(self, count):
        while len(self.received) < count:
            try:
                more = self.socket.recv(1 << 16)
            except TimeoutError:
                raise Closed(f"{self.address} does not answer") from None
            if not more:
                raise Closed(f"{self.address} closed the connection")
            self.received += more
        data, self.received = self.received[:count], self.received[count:]
        return data

    def receive(self):
        _, flags, _, opcode, length = struct.unpack(">BBhBi", self.read(9))
        body = Body(self.read(length))
        warnings = body.strings() if flags & 8 else []
        if opcode == 0x00:
            return Answer(ERRORS.get(code := body.int(), f"error {code:#x}"), body.string(), warnings=warnings)
        if opcode == 0x03:
            return Answer("authenticate")
        if opcode != 0x08:  # READY, AUTH_SUCCESS
            return Answer("void", warnings=warnings)
        kind = body.int()
        if kind == 2:
            columns, count, paging_state, _ = body.columns(False)
            rows = [tuple(body.bytes() for _ in range(count)) for _ in range(body.int())]
            return Answer("rows", columns=columns, rows=rows, warnings=warnings, paging_state=paging_state)
        if kind == 3:
            return Answer("keyspace", body.string(), warnings=warnings)
        if kind == 4:
            statement_id = body.take(body.short())
            markers, _, _, key_markers = body.columns(True)
            result_columns, _, _, _ = body.columns(False)
            return Answer("prepared", columns=markers, statement_id=statement_id, key_markers=key_markers, result_columns=result_columns, warnings=warnings)
        if kind == 5:
            change, target = body.string(), body.string()
            names = [body.string()] if target == "KEYSPACE" else [body.string(), body.string()]
            if target in ("FUNCTION", "AGGREGATE"):
                names += body.strings()
            return Answer("schema", " ".join([change, target, *names]), warnings=warnings)
        return Answer("void", warnings=warnings)

    # --- requests; `send_…` return at once, `receive` waits -----------------------------------------------------------------------

    def send_query(self, text, **options):
        self.send(QUERY, long_string(text) + parameters(**options))

    def send_prepare(self, text):
        self.send(PREPARE, long_string(text))

    def send_execute(self, statement_id, **options):
        self.send(EXECUTE, struct.pack(">H", len(statement_id)) + statement_id + parameters(**options))

    def query(self, text, **options):
        self.send_query(text, **options)
        return self.receive()


def string(text):
    data = text.encode()
    return struct.pack(">H", len(data)) + data


def long_string(text):
    data = text.encode()
    return struct.pack(">i", len(data)) + data


def value_bytes(value):
    if value is UNSET:
        return struct.pack(">i", -2)
    return struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value


def parameters(values=None, names=None, consistency="ONE", serial=None, page_size=None, paging_state=None, timestamp=None):
    """The parameters of QUERY and EXECUTE."""
    flags, rest = 0, b""
    if values is not None:
        flags |= 0x01 | (0x40 if names else 0)
        rest += struct.pack(">H", len(values))
        for place, value in enumerate(values):
            rest += (string(names[place]) if names else b"") + value_bytes(value)
    if page_size is not None:
        flags |= 0x04
        rest += struct.pack(">i", page_size)
    if paging_state is not None:
        flags |= 0x08
        rest += value_bytes(paging_state)
    if serial is not None:
        flags |= 0x10
        rest += struct.pack(">H", CONSISTENCY[serial])
    if timestamp is not None:
        flags |= 0x20
        rest += struct.pack(">q", timestamp)
    return struct.pack(">HB", CONSISTENCY[consistency], flags) + rest
