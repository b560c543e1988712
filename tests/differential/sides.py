"""The two servers, and statements that both execute.

`Pair` starts Cassandra 5.0 (its jars come from Maven, as for tests/drivers) and Messina (built from this tree, or the binary that is named), each on a loopback
address of its own. `Pair.run` sends one statement to both at once, follows the pages, and returns both answers.
"""

import re
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "drivers"))
import nodes  # noqa: E402

import wire  # noqa: E402

CASSANDRA_HOST, MESSINA_HOST = "127.0.0.41", "127.0.0.42"
#: What an operator turns on to have all of CQL, on both sides.
SETTINGS = {"materialized_views_enabled": "true", "user_defined_functions_enabled": "true", "drop_compact_storage_enabled": "true",
            "dynamic_data_masking_enabled": "true", "auto_snapshot": "false"}
CASSANDRA_SETTINGS = "".join(f"{name}: {value}\n" for name, value in SETTINGS.items()) + "sasi_indexes_enabled: false\n"
#: With `--login`: roles have permissions, and changes of permissions act at once.
LOGIN_SETTINGS = {"authenticator": "PasswordAuthenticator", "authorizer": "CassandraAuthorizer"}
LOGIN_CASSANDRA_SETTINGS = "permissions_validity: 0ms\nroles_validity: 0ms\ncredentials_validity: 0ms\n"
SUPERUSER = ("cassandra", "cassandra")
LOGIN_WITHIN_S = 60
MAX_PAGES = 2000


@dataclass
class Statement:
    """A statement with the way in which it is sent. `values`: the bytes of its markers."""

    text: str
    values: list | None = None
    prepared: bool = False
    page_size: int | None = None
    serial: str | None = None
    waits: bool = False  # builds an index: wait until both can use it
    kind: str = ""
    names: list | None = None
    role: str | None = None  # who sends it; None: the superuser, or whoever may do everything

    def __str__(self):
        how = [f"as {self.role}"] if self.role else []
        if self.prepared:
            how.append("prepared")
        if self.values is not None:
            how.append(f"values [{', '.join('unset' if value is wire.UNSET else 'null' if value is None else '0x' + value.hex() for value in self.values)}]")
        if self.page_size:
            how.append(f"page size {self.page_size}")
        return self.text + (f"   -- {', '.join(how)}" if how else "")


class Pair:
    """Both servers with a connection to each. `contact`: addresses of servers that run already, as (host, port) for Cassandra and Messina. `login`: clients are
    authenticated, and need permissions."""

    def __init__(self, messina_profile="release", contact=None, flags=(), login=False):
        self.nodes = []
        self.flags = list(flags)
        settings = SETTINGS | (LOGIN_SETTINGS if login else {})
        cassandra_settings = CASSANDRA_SETTINGS
        if login:
            cassandra_settings += "".join(f"{name}: {value}\n" for name, value in LOGIN_SETTINGS.items()) + LOGIN_CASSANDRA_SETTINGS
        if contact:
            self.addresses = contact
        else:
            try:
                cassandra = nodes.Cassandra(heap="768M", host=CASSANDRA_HOST, more_settings=cassandra_settings)
                self.nodes.append(cassandra)
                messina = nodes.Messina(profile=messina_profile, host=MESSINA_HOST, flags=["--smp", "2", *known_settings(settings), *self.flags])
                self.nodes.append(messina)
                cassandra.start()
                messina.start()
            except BaseException:
                self.close()
                raise
            self.addresses = [(cassandra.host, cassandra.port), (messina.host, messina.port)]
        self.login = SUPERUSER if login else None
        self.clients = [self.connected(address) for address in self.addresses]
        self.clients_of = {}  # by role: its connections
        self.keyspace = None

    def connected(self, address):
        """Cassandra makes its first superuser some seconds after its start."""
        begin = time.monotonic()
        while True:
            try:
                return wire.Client(*address, login=self.login)
            except wire.Closed:
                if not self.login or time.monotonic() - begin > LOGIN_WITHIN_S:
                    raise
                time.sleep(0.5)

    def run_as(self, role, statement):
        """`run` by the connections of a role whose password is its name."""
        own = self.clients, self.login
        self.login = (role, role)
        try:
            if role not in self.clients_of:
                self.clients_of[role] = [wire.Client(*address, login=self.login) for address in self.addresses]
                for client in self.clients_of[role]:
                    client.query(f"USE {self.keyspace}")
            self.clients = self.clients_of[role]
            return self.run(replace(statement, role=None))
        finally:
            self.clients, self.login = own

    def close(self):
        for node in self.nodes:
            node.remove()

    def reconnect(self, at):
        self.clients[at] = wire.Client(*self.addresses[at], login=self.login)
        if self.keyspace:
            self.clients[at].query(f"USE {self.keyspace}")

    def run(self, statement):
        """The answers of both. A server that closes the connection or does not answer has the kind "closed"."""
        if statement.role:
            return self.run_as(statement.role, statement)
        answers = self.each(lambda client: self.begin(client, statement), wire.Client.receive)
        if statement.prepared:
            prepared = answers
            answers = [self.executed(at, made, statement) for at, made in enumerate(prepared)]
            if all(made.kind == "prepared" for made in prepared):
                for answer, made in zip(answers, prepared):
                    answer.result_columns, answer.key_markers = made.columns, made.key_markers
        self.follow_pages(statement, answers, prepared if statement.prepared else None)
        if statement.text.upper().startswith("USE ") and all(answer.kind == "keyspace" for answer in answers):
            self.keyspace = statement.text[4:].strip()
        return answers

    def begin(self, client, statement):
        if statement.prepared:
            client.send_prepare(statement.text)
        else:
            client.send_query(statement.text, **self.options(statement))

    def options(self, statement):
        return {"values": statement.values, "names": statement.names, "page_size": statement.page_size, "serial": statement.serial}

    def executed(self, at, prepared, statement):
        """The answer to a prepared statement; the error of one that was not prepared."""
        if prepared.kind != "prepared":
            return prepared
        try:
            self.clients[at].send_execute(prepared.statement_id, **self.options(statement))
            return self.clients[at].receive()
        except (OSError, wire.Closed) as error:
            self.reconnect(at)
            return wire.Answer("closed", str(error))

    def each(self, send, receive):
        """Sends to both, then receives from both."""
        failed = {}
        for at, client in enumerate(self.clients):
            try:
                send(client)
            except (OSError, wire.Closed) as error:
                failed[at] = wire.Answer("closed", str(error))
        answers = []
        for at, client in enumerate(self.clients):
            if at not in failed:
                try:
                    answers.append(receive(client))
                    continue
                except (OSError, wire.Closed) as error:
                    failed[at] = wire.Answer("closed", str(error))
            self.reconnect(at)
            answers.append(failed[at])
        return answers

    def follow_pages(self, statement, answers, prepared):
        for at, answer in enumerate(answers):
            pages = 1
            while answer.paging_state and statement.page_size and pages < MAX_PAGES:
                options = self.options(statement) | {"paging_state": answer.paging_state}
                try:
                    if prepared:
                        self.clients[at].send_execute(prepared[at].statement_id, **options)
                    else:
                        self.clients[at].send_query(statement.text, **options)
                    more = self.clients[at].receive()
                except (OSError, wire.Closed) as error:
                    self.reconnect(at)
                    more = wire.Answer("closed", str(error))
                if more.kind != "rows":
                    answers[at] = more
                    break
                answer.rows += more.rows
                answer.paging_state = more.paging_state
                pages += 1

    def both(self, text):
        """A statement that must succeed on both."""
        for answer, node in zip(self.run(Statement(text)), ("Cassandra", "Messina")):
            if answer.is_error():
                raise nodes.Trouble(f"{node} refuses {text}: {answer.kind} {answer.text}")

    def wait_for_indexes(self, keyspace, within_s=30):
        """Returns when every index of the keyspace can be used on both sides."""
        begin = time.monotonic()
        while time.monotonic() - begin < within_s:
            answers = [client.query(f"SELECT count(*) FROM system_schema.indexes WHERE keyspace_name = '{keyspace}'") for client in self.clients]
            cassandra = self.clients[0].query(f"SELECT count(*) FROM system.\"IndexInfo\" WHERE table_name = '{keyspace}'")
            if answers[0].kind == "rows" and cassandra.kind == "rows" and cassandra.rows[0][0] >= answers[0].rows[0][0]:
                return
            time.sleep(0.02)


def known_settings(settings=SETTINGS):
    """The settings as options of Messina."""
    return [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]


def statements_of(text, keyspace):
    """The statements of a script: `;` ends one, `--` begins a comment. `PAGE n` and `PREPARE` before a statement say how it is sent, `SLEEP s` waits."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("--")]
    for part in re.split(r";[ \t]*\n", "\n".join(lines) + "\n"):
        part = part.strip().replace("{ks}", keyspace)
        if not part:
            continue
        statement = Statement(part)
        if found := re.match(r"PAGE (\d+) ", part):
            statement.page_size, statement.text = int(found[1]), part[found.end():]
        elif part.startswith("PREP "):
            statement.prepared, statement.text, statement.kind = True, part[5:], "prepare only"
        elif part.startswith("SLEEP "):
            statement.kind = "sleep"
        statement.waits = re.match(r"CREATE (CUSTOM )?INDEX", statement.text, re.I) is not None
        yield statement
