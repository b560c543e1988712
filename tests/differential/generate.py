"""Random schemas and statements.

A `World` is a keyspace with tables, made from a seed; `World.statement` draws the next statement. Statements are valid as a rule; with some probability one
part of them is not (a wrong type, a null, an unknown column, a restriction too many), because errors are compared too. Nothing in them depends on the time of
day: TTLs are long, and functions of the present are not used.
"""

import random

import values
from sides import Statement
from values import INT, TEXT, Collection, Number, Udt, Vector

COUNTER = Number("counter", 8, [0])
AGGREGATES = ["count", "min", "max", "sum", "avg"]


class Column:
    def __init__(self, name, of, kind, descending=False):
        self.name, self.of, self.kind, self.descending = name, of, kind, descending


class Table:
    """A table: its columns by kind ("partition", "clustering", "static", "regular"), and the columns that have an index. `is_view`: it is a materialized view."""

    def __init__(self, name, columns, is_view=False):
        self.name, self.columns, self.is_view = name, columns, is_view
        self.views = []
        self.indexes = {}  # column name: (index name, "2i" or "sai", target)
        self.counters = any(column.of is COUNTER for column in columns)

    def of_kind(self, *kinds):
        return [column for column in self.columns if column.kind in kinds]

    def create(self, options=""):
        lines = [f"{column.name} {column.of.name}{' static' if column.kind == 'static' else ''}" for column in self.columns]
        partition, clustering = self.of_kind("partition"), self.of_kind("clustering")
        key = f"({', '.join(column.name for column in partition)})"
        lines.append(f"PRIMARY KEY ({', '.join([key, *[column.name for column in clustering]])})")
        order = f" WITH CLUSTERING ORDER BY ({', '.join(column.name + (' DESC' if column.descending else ' ASC') for column in clustering)})" if clustering else ""
        return f"CREATE TABLE {self.name} ({', '.join(lines)}){order}"


class World:
    def __init__(self, seed, keyspace):
        self.seed, self.keyspace = seed, keyspace
        self.rng = rng = random.Random(seed)
        self.udts = []
        self.fresh = 0
        self.setup = []
        for number in range(rng.choice([0, 1, 2])):
            fields = [(f"f{at}", rng.choice([INT, TEXT, *values.SIMPLE])) for at in range(rng.choice([1, 2, 3]))]
            if rng.random() < 0.3:
                fields.append(("g", Collection("list", [INT], True)))
            if self.udts and rng.random() < 0.5:
                fields.append(("h", Udt(*self.udts[0], True)))
            self.udts.append((f"u{number}", fields))
            self.setup.append(Statement(f"CREATE TYPE u{number} ({', '.join(f'{name} {of.name}' for name, of in fields)})"))
        self.tables = [self.table(f"t{number}") for number in range(rng.choice([1, 2]))]
        if rng.random() < 0.4:
            self.tables.append(self.counter_table("n0"))
        self.setup += [Statement(table.create()) for table in self.tables]
        self.views = []
        for table in self.tables:
            if rng.random() < 0.35 and not table.counters and not table.of_kind("static"):
                self.setup.append(self.create_view(table))
        for table in self.tables:
            for _ in range(rng.choice([0, 1, 2, 3])):
                if statement := self.create_index(table):
                    self.setup.append(statement)

    # --- schema -------------------------------------------------------------------------------------------------------------------

    def table(self, name):
        rng = self.rng
        columns = [Column(f"p{at}", values.random_type(rng, self.udts, True), "partition") for at in range(rng.choice([1, 1, 1, 2, 2, 3]))]
        clustering = rng.choice([0, 1, 1, 2, 2, 3])
        columns += [Column(f"c{at}", values.random_type(rng, self.udts, True), "clustering", rng.random() < 0.4) for at in range(clustering)]
        for column in columns:
            if not column.of.key:
                column.of = INT
            # Cassandra stores bound sets and maps of descending columns in the order in which the client sends them.
            if isinstance(column.of, Collection) and column.of.kind != "list":
                column.descending = False
        if clustering:
            columns += [Column(f"s{at}", values.random_type(rng, self.udts), "static") for at in range(rng.choice([0, 0, 1, 2]))]
        columns += [Column(f"v{at}", values.random_type(rng, self.udts), "regular") for at in range(rng.choice([1, 2, 3, 5]))]
        return Table(name, columns)

    def counter_table(self, name):
        rng = self.rng
        columns = [Column("p0", INT, "partition"), *[Column(f"c{at}", INT, "clustering", rng.random() < 0.5) for at in range(rng.choice([0, 1, 2]))]]
        columns += [Column(f"n{at}", COUNTER, "regular") for at in range(rng.choice([1, 2]))]
        return Table(name, columns)

    def create_view(self, table):
        """A view of all columns whose key has the table's key columns in another order, and often one more column."""
        rng = self.rng
        keys = table.of_kind("partition", "clustering")
        others = [column for column in table.of_kind("regular") if column.of.key and not column.of.multi_cell]
        more = [rng.choice(others)] if others and rng.random() < 0.7 else []
        names = [column.name for column in keys + more]
        order = [column for column in keys + more]
        rng.shuffle(order)
        length = rng.randrange(1, len(order) + 1)
        # Cassandra stores rows of views under a key that is a single empty value; see explained.toml.
        if length == 1 and len(order) > 1 and order[0].of.may_be_empty:
            length = 2
        columns = [Column(column.name, column.of, "partition" if at < length else "clustering") for at, column in enumerate(order)]
        columns += [Column(column.name, column.of, "regular") for column in table.columns if column not in order]
        view = Table(f"v{len(self.views)}", columns, is_view=True)
        table.views.append(view)
        self.views.append(view)
        key = f"({', '.join(column.name for column in order[:length])})"
        return Statement(f"CREATE MATERIALIZED VIEW {view.name} AS SELECT * FROM {table.name} WHERE {' AND '.join(f'{name} IS NOT NULL' for name in names)} "
                         f"PRIMARY KEY ({', '.join([key, *[column.name for column in order[length:]]])})")

    def create_index(self, table):
        rng = self.rng
        column = rng.choice(table.columns)
        self.fresh += 1
        name, of = f"i{self.fresh}", column.of
        target = column.name
        if isinstance(of, Collection):
            if not of.multi_cell:
                target = f"full({column.name})"
            elif of.kind == "map":
                target = f"{rng.choice(['keys', 'values', 'entries'])}({column.name})"
            else:
                target = f"values({column.name})" if rng.random() < 0.5 else column.name
        if isinstance(of, Vector):
            return None  # vector indexes are outside this comparison
        using = " USING 'sai'" if rng.random() < 0.5 else ""
        # Cassandra's storage-attached indexes do not have empty values of descending columns; see explained.toml.
        if column.descending and of.may_be_empty:
            using = ""
        if column.name not in table.indexes:
            table.indexes[column.name] = (name, "sai" if using else "2i", target)
        return Statement(f"CREATE INDEX {name} ON {table.name} ({target}){using}", waits=True)

    # --- statements ---------------------------------------------------------------------------------------------------------------

    def statement(self):
        rng = self.rng
        table = rng.choice(self.tables + self.views)
        self.bound = [] if rng.random() < 0.35 else None
        self.wrong = rng.random() < 0.15
        self.partition = None  # terms of the partition key that all statements of a conditional batch have
        draw = rng.random()
        if table.is_view and draw > 0.03:
            text = self.select(table)
        elif table.counters:
            text = self.count(table) if draw < 0.4 else self.select(table)
        elif draw < 0.24:
            text = self.insert(table)
        elif draw < 0.38:
            text = self.update(table)
        elif draw < 0.47:
            text = self.delete(table)
        elif draw < 0.51:
            text = self.batch(table)
        elif draw < 0.525 and not table.is_view:
            self.bound = None
            return self.alter(table)
        else:
            text = self.select(table)
        statement = Statement(text, kind="select" if text.startswith("SELECT") else "write")
        if self.bound is not None:
            statement.values = list(self.bound)
            statement.prepared = rng.random() < 0.7
            if not statement.values and not statement.prepared:
                statement.values = None
        if text.startswith("SELECT") and rng.random() < 0.4:
            statement.page_size = rng.choice([1, 1, 2, 3, 5, 7, -1, rng.randrange(1, 101)])
        return statement

    def value(self, of, allow_null=True):
        """A term of this type: a literal, or a marker whose bytes are noted. Wrong ones sometimes."""
        rng = self.rng
        if self.wrong and rng.random() < 0.25:
            self.wrong = False
            kind = rng.choice(["type", "null", "null", "type", "call"])
            if kind == "null":
                return self.marked(None) if self.bound is not None else "null"
            if kind == "call":
                return rng.choice(["nope(1)", "token(1)", "intAsBlob(1)", "(int) 1", "(text) 'a'"])
            other = values.random_type(rng, self.udts)
            return other.literal(other.random(rng))
        if allow_null and rng.random() < 0.06:
            return self.marked(None) if self.bound is not None and rng.random() < 0.5 else "null"
        value = of.random(rng)
        if self.bound is not None and rng.random() < 0.7:
            return self.marked(of.encode(value))
        if of.numeric and rng.random() < 0.05 and of.name in ("int", "bigint"):
            return f"{of.literal(value)} + 1"
        return of.literal(value)

    def marked(self, data):
        self.bound.append(data)
        return "?"

    def column_name(self, column):
        if self.wrong and self.rng.random() < 0.1:
            self.wrong = False
            return self.rng.choice(["nope", '"Nope"', "p0", "c0", "s0"])
        return column.name

    def using(self, timestamp=True, ttl=True):
        rng, parts = self.rng, []
        if timestamp and rng.random() < 0.25:
            parts.append(f"TIMESTAMP {rng.randrange(1, 50)}")
        if ttl and rng.random() < 0.08:
            parts.append(f"TTL {rng.choice([100000, 200000, 0])}" if not (self.wrong and rng.random() < 0.3) else f"TTL {rng.choice(['-1', 'null', '630720001'])}")
        return " USING " + " AND ".join(parts) if parts else ""

    def insert(self, table):
        rng = self.rng
        keys = table.of_kind("partition", "clustering")
        statics = table.of_kind("static")
        if statics and rng.random() < 0.15:
            columns = table.of_kind("partition") + rng.sample(statics, rng.randrange(1, len(statics) + 1))
        else:
            others = table.of_kind("static", "regular")
            columns = keys + rng.sample(others, rng.randrange(len(others) + 1))
        if self.wrong and rng.random() < 0.2:
            columns.pop(rng.randrange(len(columns)))
        condition = " IF NOT EXISTS" if rng.random() < (0.4 if self.partition else 0.12) else ""
        if rng.random() < 0.12 and self.bound is None and not self.partition:
            fields = ", ".join(f'"{column.name}": {column.of.json(column.of.random(rng))}' for column in columns)
            literal = "'{" + fields.replace("'", "''") + "}'"
            default = rng.choice(["", "", " DEFAULT UNSET", " DEFAULT NULL"])
            return f"INSERT INTO {table.name} JSON {literal}{default}{condition}{self.using(timestamp=not condition)}"
        names = ", ".join(self.column_name(column) for column in columns)
        terms = ", ".join(self.key_term(column) if column.kind == "partition" else self.value(column.of, column.kind != "clustering") for column in columns)
        return f"INSERT INTO {table.name} ({names}) VALUES ({terms}){condition}{self.using(timestamp=not condition)}"

    def key_term(self, column):
        return self.partition[column.name] if self.partition else self.value(column.of, False)

    def key_relations(self, columns, allow_in=True):
        rng, relations = self.rng, []
        for column in columns:
            if self.partition and column.kind == "partition":
                relations.append(f"{column.name} = {self.partition[column.name]}")
                continue
            if allow_in and rng.random() < 0.08:
                relations.append(f"{column.name} IN ({', '.join(self.value(column.of, False) for _ in range(rng.choice([1, 2, 2, 3])))})")
            else:
                relations.append(f"{self.column_name(column)} = {self.value(column.of, False)}")
        return relations

    def assignment(self, column):
        rng, of, name = self.rng, column.of, column.name
        if isinstance(of, Collection) and of.multi_cell and rng.random() < 0.7:
            choice = rng.random()
            if of.kind == "list":
                if choice < 0.35:
                    return f"{name} = {name} + {self.value(of)}"
                if choice < 0.5:
                    return f"{name} = {self.value(of, False)} + {name}"
                if choice < 0.7:
                    return f"{name} = {name} - {self.value(of)}"
                return f"{name}[{rng.randrange(3)}] = {self.value(of.inner[0])}"
            if choice < 0.4:
                return f"{name} = {name} + {self.value(of)}" if rng.random() < 0.7 else f"{name} += {self.value(of)}"
            if choice < 0.7:
                keys = of if of.kind == "set" else Collection("set", [of.inner[0]], True)
                return f"{name} = {name} - {self.value(keys)}"
            if of.kind == "map":
                return f"{name}[{self.value(of.inner[0], False)}] = {self.value(of.inner[1])}"
        if isinstance(of, Udt) and of.multi_cell and rng.random() < 0.5:
            field, inner = rng.choice(of.fields)
            return f"{name}.{field} = {self.value(inner)}"
        return f"{self.column_name(column)} = {self.value(of)}"

    def conditions(self, table):
        rng = self.rng
        if rng.random() < 0.25:
            return " IF EXISTS"
        parts = []
        for column in rng.sample(table.of_kind("static", "regular"), rng.choice([1, 1, min(2, len(table.of_kind("static", "regular")))])):
            of, name = column.of, column.name
            operator = rng.choice(["=", "=", "=", "!=", "<", ">=", ">"])
            if isinstance(of, Collection) and rng.random() < 0.5:
                if of.kind == "map":
                    parts.append(rng.choice([f"{name}[{self.value(of.inner[0], False)}] {operator} {self.value(of.inner[1])}",
                                             f"{name} CONTAINS KEY {self.value(of.inner[0], False)}"])) if self.bound is None else parts.append(f"{name} CONTAINS {self.value(of.inner[1], False)}")
                elif of.kind == "list" and rng.random() < 0.6:
                    parts.append(f"{name}[{rng.randrange(3)}] {operator} {self.value(of.inner[0])}")
                else:
                    parts.append(f"{name} CONTAINS {self.value(of.inner[-1], False)}")
            elif isinstance(of, Udt) and rng.random() < 0.5:
                field, inner = rng.choice(of.fields)
                parts.append(f"{name}.{field} {operator} {self.value(inner)}")
            elif rng.random() < 0.15:
                parts.append(f"{name} IN ({self.value(of)}, {self.value(of)})")
            else:
                parts.append(f"{name} {operator} {self.value(of)}")
        return " IF " + " AND ".join(parts)

    def update(self, table):
        rng = self.rng
        candidates = table.of_kind("static", "regular")
        chosen = rng.sample(candidates, rng.randrange(1, min(3, len(candidates)) + 1))
        keys = table.of_kind("partition", "clustering")
        if all(column.kind == "static" for column in chosen) and rng.random() < 0.8:
            keys = table.of_kind("partition")
        conditional = rng.random() < (0.5 if self.partition else 0.15)
        using = self.using(timestamp=not conditional)
        assignments = ", ".join(self.assignment(column) for column in chosen)
        # Cassandra applies an operation on a static list once for each row that IN names.
        relations = self.key_relations(keys, not conditional and not any(column.kind == "static" for column in chosen))
        if self.wrong and rng.random() < 0.3:
            relations.pop(rng.randrange(len(relations)))
        where = f" WHERE {' AND '.join(relations)}" if relations else ""
        return f"UPDATE {table.name}{using} SET {assignments}{where}{self.conditions(table) if conditional else ''}"

    def delete(self, table):
        rng = self.rng
        clustering = table.of_kind("clustering")
        targets = []
        if rng.random() < 0.4:
            for column in rng.sample(table.of_kind("static", "regular"), 1):
                of, name = column.of, column.name
                if isinstance(of, Collection) and of.multi_cell and rng.random() < 0.5:
                    targets.append(f"{name}[{rng.randrange(3) if of.kind == 'list' else self.value(of.inner[0], False)}]")
                elif isinstance(of, Udt) and of.multi_cell and rng.random() < 0.5:
                    targets.append(f"{name}.{rng.choice(of.fields)[0]}")
                else:
                    targets.append(self.column_name(column))
        conditional = rng.random() < (0.4 if self.partition else 0.1)
        using = self.using(timestamp=not conditional, ttl=False)
        relations = self.key_relations(table.of_kind("partition"), not conditional)
        if targets or conditional or rng.random() < 0.5:
            relations += self.key_relations(clustering, not conditional)
        else:
            relations += self.slices(clustering)
        where = f" WHERE {' AND '.join(relations)}"
        return f"DELETE {', '.join(targets)}{' ' if targets else ''}FROM {table.name}{using}{where}{self.conditions(table) if conditional else ''}"

    def slices(self, clustering):
        """Relations of a prefix of the clustering columns that ends with a slice, or of several columns together."""
        rng, relations = self.rng, []
        if not clustering:
            return relations
        length = rng.randrange(len(clustering) + 1)
        if length >= 2 and rng.random() < 0.35:
            columns = clustering[:length]
            names = f"({', '.join(column.name for column in columns)})"
            tuple_of = lambda: f"({', '.join(self.value(column.of, False) for column in columns)})"  # noqa: E731
            operator = rng.choice(["=", ">", ">=", "<", "<=", "IN"])
            if operator == "IN":
                return [f"{names} IN ({tuple_of()}, {tuple_of()})"]
            relations.append(f"{names} {operator} {tuple_of()}")
            if operator in (">", ">=") and rng.random() < 0.4:
                relations.append(f"{names} {rng.choice(['<', '<='])} {tuple_of()}")
            return relations
        relations += self.key_relations(clustering[:length])
        if length < len(clustering) and rng.random() < 0.6:
            column = clustering[length]
            relations.append(f"{column.name} {rng.choice(['>', '>='])} {self.value(column.of, False)}")
            if rng.random() < 0.4:
                relations.append(f"{column.name} {rng.choice(['<', '<='])} {self.value(column.of, False)}")
        return relations

    def batch(self, table):
        rng = self.rng
        begin = rng.choice(["BEGIN BATCH", "BEGIN BATCH", "BEGIN UNLOGGED BATCH"])
        if rng.random() < 0.4 and not table.counters:
            return self.conditional_batch(begin, table)
        if rng.random() < 0.2:
            begin += f" USING TIMESTAMP {rng.randrange(1, 50)}"
        parts = [rng.choice([self.insert, self.update, self.delete])(table) for _ in range(rng.choice([1, 2, 3]))]
        return f"{begin} {'; '.join(parts)}; APPLY BATCH"

    def conditional_batch(self, begin, table):
        """Statements of one partition, most of them with conditions."""
        rng = self.rng
        self.bound = None
        self.partition = {column.name: self.value(column.of, False) for column in table.of_kind("partition")}
        parts = [rng.choice([self.insert, self.update, self.update, self.delete])(table) for _ in range(rng.choice([1, 2, 2, 3]))]
        self.partition = None
        return f"{begin} {'; '.join(part.replace(' USING TIMESTAMP', ' USING TTL') for part in parts)}; APPLY BATCH"

    def count(self, table):
        rng = self.rng
        self.bound = None
        column = rng.choice(table.of_kind("regular"))
        keys = self.key_relations(table.of_kind("partition", "clustering"), False)
        return f"UPDATE {table.name} SET {column.name} = {column.name} {rng.choice('+-')} {rng.randrange(-3, 9)} WHERE {' AND '.join(keys)}"

    def alter(self, table):
        rng = self.rng
        draw = rng.random()
        if draw < 0.3:
            self.fresh += 1
            column = Column(f"a{self.fresh}", values.random_type(rng, self.udts), "regular")
            table.columns.append(column)
            for view in table.views:
                view.columns.append(column)
            return Statement(f"ALTER TABLE {table.name} ADD {column.name} {column.of.name}", kind="write")
        if draw < 0.5:
            column = rng.choice(table.columns)
            if column.kind == "regular" and len(table.of_kind("regular")) > 1 and column.name not in table.indexes and not table.views:
                table.columns.remove(column)
            return Statement(f"ALTER TABLE {table.name} DROP {column.name}", kind="write")
        if draw < 0.56:
            return self.alter_mask(table)
        if draw < 0.63 and self.udts:
            return self.alter_type()
        if draw < 0.74:
            return self.create_index(table) or Statement(f"TRUNCATE {table.name}", kind="write")
        if draw < 0.85 and table.indexes:
            name, (index, _, _) = rng.choice(sorted(table.indexes.items()))
            del table.indexes[name]
            return Statement(f"DROP INDEX {index}", kind="write")
        return Statement(f"TRUNCATE {table.name}", kind="write")

    def alter_mask(self, table):
        rng = self.rng
        column = rng.choice(table.columns)
        mask = rng.choice(["DEFAULT", "mask_default()", "mask_null()", f"mask_replace({column.of.literal(column.of.random(rng))})", "mask_inner(1, 1)", "mask_outer(1, null)",
                           "mask_hash()", "nope()"])
        how = f"MASKED WITH {mask}" if rng.random() < 0.7 else "DROP MASKED"
        return Statement(f"ALTER TABLE {table.name} ALTER {column.name} {how}", kind="write")

    def alter_type(self):
        rng = self.rng
        name, fields = rng.choice(self.udts)
        self.fresh += 1
        draw = rng.random()
        if draw < 0.35:
            field, of = rng.choice(fields)
            fields[fields.index((field, of))] = (f"r{self.fresh}", of)
            return Statement(f"ALTER TYPE {name} RENAME {field} TO r{self.fresh}", kind="write")
        if draw < 0.75:
            fields.append((f"n{self.fresh}", rng.choice([INT, TEXT])))
            return Statement(f"ALTER TYPE {name} ADD n{self.fresh} {fields[-1][1].name}", kind="write")
        return Statement(f"ALTER TYPE {name} ADD {rng.choice(fields)[0]} int", kind="write")

    # --- SELECT -------------------------------------------------------------------------------------------------------------------

    def selection(self, table):
        rng = self.rng
        draw = rng.random()
        if draw < 0.35:
            return "*", False
        if draw < 0.5:
            items, aggregates = [], True
            for _ in range(rng.choice([1, 2])):
                function, column = rng.choice(AGGREGATES), rng.choice(table.columns)
                items.append("count(*)" if function == "count" and rng.random() < 0.5 else f"{function}({column.name})")
            return ", ".join(items), aggregates
        return ", ".join(self.item(rng.choice(table.columns)) for _ in range(rng.choice([1, 2, 3]))), False

    def item(self, column):
        rng, of, name = self.rng, column.of, column.name
        draw = rng.random()
        if draw < 0.45:
            return self.column_name(column)
        if draw < 0.55 and column.kind in ("static", "regular") and not of.multi_cell:
            return f"{rng.choice(['writetime', 'ttl'])}({name})"
        if draw < 0.58 and column.kind in ("static", "regular"):
            time = rng.choice(["writetime", "ttl", "maxwritetime"])
            if isinstance(of, Udt):
                return f"{time}({name}.{rng.choice(of.fields)[0]})"
            if isinstance(of, Collection) and of.kind != "list":
                return f"{time}({name}[{of.inner[0].literal(of.inner[0].random(rng))}])"
        if draw < 0.65:
            return f"{rng.choice(['toJson', 'to_json'])}({name})"
        if draw < 0.75 and isinstance(of, Collection):
            if of.kind == "map":
                return rng.choice([f"{name}[{of.inner[0].literal(of.inner[0].random(rng))}]", f"map_keys({name})", f"map_values({name})", f"collection_count({name})"])
            return rng.choice([f"collection_{rng.choice(['count', 'min', 'max', 'sum', 'avg'])}({name})", f"{name}[{of.inner[0].literal(of.inner[0].random(rng))}]" if of.kind == "set" else name])
        if isinstance(of, Udt):
            return f"{name}.{rng.choice(of.fields)[0]}"
        if draw < 0.85:
            return f"cast({name} AS {rng.choice(['text', 'int', 'bigint', 'double', 'decimal', 'date', 'timestamp', 'varint'])})"
        if of.numeric and of.name != "decimal":
            if rng.random() < 0.3:
                return f"{name} {rng.choice('+-*')} {rng.choice([each.name for each in self.numbers] or [name])}"
            return rng.choice([f"{name} + 1", f"{name} * 2", f"{name} / 2", f"abs({name})", f"{name} % 3", f"{name} - {name}", f"round({name})"])
        if of.texty:
            return rng.choice([f"mask_inner({name}, 1, 1)", f"mask_outer({name}, 1, null)", f"mask_default({name})", f"textAsBlob({name})", f"{name} + 'x'"])
        return f"{name} AS alias"

    def filter(self, table):
        """A relation of any column."""
        rng = self.rng
        column = rng.choice(table.columns)
        if table.indexes and rng.random() < 0.6:
            column = next((column for column in table.columns if column.name == rng.choice(sorted(table.indexes))), column)
        of, name = column.of, column.name
        if isinstance(of, Collection) and rng.random() < 0.8:
            draw = rng.random()
            if of.kind == "map" and draw < 0.4:
                return f"{name}[{self.value(of.inner[0], False)}] = {self.value(of.inner[1], False)}"
            if of.kind == "map" and draw < 0.7:
                return f"{name} CONTAINS KEY {self.value(of.inner[0], False)}"
            return f"{name} CONTAINS {self.value(of.inner[-1], False)}"
        if of.texty and rng.random() < 0.05:
            return name + " LIKE " + rng.choice(["'a%'", "'%b'", "'a'"])
        operator = rng.choice(["=", "=", "=", "=", ">", ">=", "<", "<=", "IN", "!="] if self.wrong or rng.random() < 0.3 else ["=", ">", "<="])
        if operator == "IN":
            return f"{name} IN ({self.value(of, False)}, {self.value(of, False)})"
        return f"{name} {operator} {self.value(of, False)}"

    def select(self, table):
        rng = self.rng
        self.numbers = [column for column in table.columns if column.of.numeric]
        items, aggregates = self.selection(table)
        partition, clustering = table.of_kind("partition"), table.of_kind("clustering")
        relations, filtering, tail = [], False, ""
        keyed = False
        draw = rng.random()
        if draw < 0.45:
            keyed = True
            relations += self.key_relations(partition)
            relations += self.slices(clustering)
        elif draw < 0.55:
            names = ", ".join(column.name for column in partition)
            terms = lambda: f"token({', '.join(self.value(column.of, False) for column in partition)})" if rng.random() < 0.5 else str(rng.randrange(-2 ** 63, 2 ** 63))  # noqa: E731
            relations.append(f"token({names}) {rng.choice(['>', '>='])} {terms()}")
            if rng.random() < 0.5:
                relations.append(f"token({names}) {rng.choice(['<', '<='])} {terms()}")
        if draw >= 0.75 or rng.random() < 0.15:
            relations += [self.filter(table) for _ in range(rng.choice([1, 1, 2]))]
            filtering = rng.random() < 0.7
        elif rng.random() < 0.05:
            filtering = True
        group = ""
        keys = partition + clustering
        if (aggregates or rng.random() < 0.05) and rng.random() < 0.3:
            length = rng.randrange(1, len(keys) + 1)
            group = f" GROUP BY {', '.join(column.name for column in keys[:length])}"
        distinct = ""
        if not aggregates and not group and rng.random() < 0.08:
            distinct = "DISTINCT "
            items = ", ".join(column.name for column in partition + ([rng.choice(table.of_kind("static"))] if table.of_kind("static") and rng.random() < 0.5 else []))
        order = ""
        if clustering and (keyed and rng.random() < 0.3 or rng.random() < 0.03):
            length = rng.randrange(1, len(clustering) + 1)
            flipped = rng.random() < 0.5
            order = " ORDER BY " + ", ".join(f"{column.name} {'DESC' if column.descending != flipped else 'ASC'}" for column in clustering[:length])
        if rng.random() < 0.12 and not distinct:
            tail += f" PER PARTITION LIMIT {rng.choice([1, 2, 3])}"
        if rng.random() < 0.2:
            tail += f" LIMIT {rng.choice([1, 2, 3, 5, 10])}" if not (self.wrong and rng.random() < 0.3) else f" LIMIT {rng.choice(['0', '-1', 'null'])}"
        where = f" WHERE {' AND '.join(relations)}" if relations else ""
        json = "JSON " if rng.random() < 0.08 else ""
        return f"SELECT {json}{distinct}{items} FROM {table.name}{where}{group}{order}{tail}{' ALLOW FILTERING' if filtering else ''}"
