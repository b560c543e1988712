#!/usr/bin/env python3
"""Compares Messina with Cassandra 5.0 by statements: rows and their order, metadata, warnings, errors with their texts.

    tests/differential/run.sh                                   the scripts in cases/, then 1,500 random statements of seed 1 (a step of ./test.sh)
    tests/differential/run.sh --statements 100000 --seed 7      a campaign
    tests/differential/run.sh --world 7003                      one world of random statements again; a difference prints this number
    tests/differential/run.sh --login --statements 5000         roles and permissions, sent by several roles
    tests/differential/run.sh --script cases/select.cql -v      one script; -v prints every statement with both answers
    tests/differential/run.sh --profile dev                     with a development build; BINARY_UNDER_TEST names another binary
    tests/differential/run.sh --contact HOST:PORT,HOST:PORT     Cassandra and Messina that run already

A difference is explained if explained.toml has an entry for it; any other is printed with its seed, after statements that it does not need were removed, and
the exit status is 1. `--explained` prints the entries that were used, with counts. The last line is `N statements, N explained, N unexplained`.
"""

import argparse
import re
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import sides  # noqa: E402  (puts tests/drivers on the path)
from sides import Pair, Statement, nodes, statements_of  # noqa: E402

from judge import Explained, both, brief, difference  # noqa: E402
from generate import World  # noqa: E402
from permissions import PermissionWorld  # noqa: E402

STATEMENTS_PER_WORLD = 400
CONTENT_EVERY = 50
MINIMIZE_WITHIN_S = 60


class Run:
    def __init__(self, pair, options):
        self.pair, self.options = pair, options
        self.explained = Explained()
        self.statements = self.explained_count = self.unexplained_count = 0
        self.kinds = {}

    def check(self, statement, answers):
        """The kind of an unexplained difference, "explained", or None."""
        kind = difference(*answers, times_vary(answers[0]))
        if self.options.verbose:
            print(f"{statement}\n  Cassandra {brief(answers[0])}\n  Messina   {brief(answers[1])}", flush=True)
        if kind is None:
            return None
        if self.explained.reason(statement.text, kind, *answers):
            return "explained"
        return kind

    def note(self, where, statement, kind, answers):
        if kind is None:
            return
        if kind == "explained":
            self.explained_count += 1
            return
        self.unexplained_count += 1
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        print(f"DIFFERENCE ({kind}) {where}: {statement}\n{both(answers)}", flush=True)

    def open(self, keyspace):
        pair = self.pair
        pair.clients_of = {}  # their roles may be made anew
        for client in pair.clients:
            client.query(f"DROP KEYSPACE IF EXISTS {keyspace}")
        pair.both(f"CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}")
        pair.run(Statement(f"USE {keyspace}"))

    def close(self, keyspace):
        self.pair.keyspace, self.pair.clients_of = None, {}
        for client in self.pair.clients:
            client.query(f"DROP KEYSPACE IF EXISTS {keyspace}")

    def execute(self, statement, keyspace):
        answers = self.pair.run(statement)
        if statement.waits and not any(answer.is_error() for answer in answers):
            self.pair.wait_for_indexes(keyspace)
        return answers

    def script(self, path):
        keyspace = "case_" + re.sub(r"\W", "_", path.stem)
        self.open(keyspace)
        for statement in statements_of(path.read_text(), keyspace):
            if statement.kind == "sleep":
                time.sleep(float(statement.text.split()[1]))
                continue
            if statement.kind == "prepare only":
                answers = self.pair.each(lambda client: client.send_prepare(statement.text), lambda client: client.receive())
                for answer in answers:
                    answer.statement_id = None
            else:
                answers = self.execute(statement, keyspace)
            self.statements += 1
            self.note(path.name, statement, self.check(statement, answers), answers)
        self.close(keyspace)

    def world(self, seed, statements):
        """The statements of a world, until they are over or the tables may no longer be the same."""
        keyspace = "world"
        world = (PermissionWorld if self.options.login else World)(seed, keyspace)
        self.open(keyspace)
        done = []
        for number in range(-len(world.setup), statements):
            statement = world.setup[number] if number < 0 else world.statement()
            answers = self.execute(statement, keyspace)
            self.statements += 1
            kind = self.check(statement, answers)
            if kind not in (None, "explained") and self.options.minimize:
                done, statement, answers = self.minimized(done, statement, kind, answers, keyspace)
                for before in done:
                    print(f"    after {before}", flush=True)
            self.note(f"world {seed}", statement, kind, answers)
            is_select = statement.kind == "select"
            if kind is not None and not (is_select or same_effect(answers)) or kind not in (None, "explained") and self.options.minimize:
                break
            if not is_select:
                done.append(statement)
            if number >= 0 and number % CONTENT_EVERY == CONTENT_EVERY - 1 and not self.same_content(world, seed):
                break
        self.close(keyspace)

    def same_content(self, world, seed):
        same = True
        for table in world.tables + world.views:
            statement = Statement(f"SELECT * FROM {table.name}", kind="select")
            answers = self.pair.run(statement)
            kind = self.check(statement, answers)
            self.note(f"world {seed}, content", statement, kind, answers)
            same &= kind is None
        return same

    def minimized(self, done, statement, kind, answers, keyspace):
        """Leaves out statements before the one that differs, as long as the difference stays."""
        begin = time.monotonic()

        def differs(before):
            nonlocal answers
            self.open(keyspace)
            for each in before:
                self.execute(each, keyspace)
            found = self.execute(statement, keyspace)
            if difference(*found, times_vary(found[0])) == kind:
                answers = found
                return True
            return False

        needed, step = list(done), max(len(done) // 2, 1)
        while needed and time.monotonic() - begin < MINIMIZE_WITHIN_S:
            at, shorter = 0, False
            while at < len(needed) and time.monotonic() - begin < MINIMIZE_WITHIN_S:
                rest = needed[:at] + needed[at + step:]
                if differs(rest):
                    needed, shorter = rest, True
                else:
                    at += step
            if step == 1 and not shorter:
                break
            step = max(step // 2, 1)
        return needed, statement, answers


def times_vary(answer):
    """The columns that show the time of the server's clock, or a remaining time to live."""
    if answer.kind != "rows":
        return ()
    return [place for place, column in enumerate(answer.columns) if re.match(r"(max)?writetime\(|ttl\(", column[2])]


def same_effect(answers):
    """Whether both applied the statement, or both refused it."""
    return answers[0].is_error() == answers[1].is_error() and not any(answer.kind == "closed" for answer in answers)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--statements", type=int, default=1500, help="number of random statements")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--world", type=int, help="only the world with this number")
    parser.add_argument("--script", type=Path, action="append", help="only this script; may be repeated")
    parser.add_argument("--no-scripts", action="store_true")
    parser.add_argument("--no-minimize", dest="minimize", action="store_false")
    parser.add_argument("--profile", default="release", help="cargo's profile of the Messina that is built")
    parser.add_argument("--contact", help="HOST:PORT of Cassandra, a comma, HOST:PORT of Messina")
    parser.add_argument("--login", action="store_true", help="with an authenticator and an authorizer: statements on roles, and others sent by roles")
    parser.add_argument("--explained", action="store_true", help="print how often each entry of explained.toml was used")
    parser.add_argument("--verbose", "-v", action="store_true")
    options = parser.parse_args()
    contact = [(host, int(port)) for host, port in (each.rsplit(":", 1) for each in options.contact.split(","))] if options.contact else None
    try:
        pair = Pair(options.profile, contact, login=options.login)
        run = Run(pair, options)
        try:
            everything(run, options)
        finally:
            pair.close()
    except (nodes.Trouble, nodes.toolchain.Trouble) as trouble:
        print(f"differential: {trouble}", file=sys.stderr)
        return 2
    if options.explained:
        for name, count in sorted(run.explained.used.items(), key=lambda entry: -entry[1]):
            print(f"{count:6} {name}")
    print(f"{run.statements} statements, {run.explained_count} explained, {run.unexplained_count} unexplained")
    return 1 if run.unexplained_count or not run.statements else 0


def everything(run, options):
    if options.world is not None:
        run.world(options.world, STATEMENTS_PER_WORLD)
        return
    if options.script:
        for path in options.script:
            run.script(path)
        return
    if not options.no_scripts and not options.login:
        for path in sorted((HERE / "cases").glob("*.cql")):
            run.script(path)
    begin, first, world, shown = time.monotonic(), run.statements, options.seed * 1000, 0
    while run.statements - first < options.statements:
        run.world(world, min(STATEMENTS_PER_WORLD, options.statements - (run.statements - first)))
        world += 1
        if (run.statements - first) // 5000 > shown:
            shown = (run.statements - first) // 5000
            print(f"{run.statements - first} statements in {time.monotonic() - begin:.0f} s, {run.explained_count} explained, {run.unexplained_count} unexplained", flush=True)


if __name__ == "__main__":
    sys.exit(main())
