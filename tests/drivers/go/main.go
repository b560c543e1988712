// The checks of gocql, and its answers to the queries of the Debian test.
//
//	drivers check HOST:PORT PROTOCOL COMPRESSION    PASS or FAIL per check, then `N passed, N failed`
//	drivers queries HOST:PORT FILE                  a line `name rows sha256` per query of the file (see queries.go)
package main

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"net"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/apache/cassandra-gocql-driver/v2/lz4"
	"github.com/apache/cassandra-gocql-driver/v2/snappy"
	"gopkg.in/inf.v0"
)

func main() {
	if len(os.Args) == 4 && os.Args[1] == "queries" {
		session, err := connect(os.Args[2], 4, "none", "")
		exitOn(err)
		defer session.Close()
		exitOn(answer(session, os.Args[3]))
		return
	}
	protocol, err := strconv.Atoi(os.Args[3])
	exitOn(err)
	os.Exit(check(os.Args[2], protocol, os.Args[4]))
}

func exitOn(err error) {
	if err != nil {
		fmt.Println("FAIL gocql:", err)
		os.Exit(1)
	}
}

func connect(contact string, protocol int, compression string, keyspace string) (*gocql.Session, error) {
	host, port, err := net.SplitHostPort(contact)
	if err != nil {
		return nil, err
	}
	cluster := gocql.NewCluster(host)
	cluster.Port, _ = strconv.Atoi(port)
	cluster.ProtoVersion = protocol
	cluster.Keyspace = keyspace
	cluster.Timeout = time.Minute
	cluster.ConnectTimeout = time.Minute
	cluster.Consistency = gocql.One
	switch compression {
	case "lz4":
		cluster.Compressor = lz4.LZ4Compressor{}
	case "snappy":
		cluster.Compressor = snappy.SnappyCompressor{}
	}
	return cluster.CreateSession()
}

type suite struct {
	session  *gocql.Session
	keyspace string
	protocol int
}

func check(contact string, protocol int, compression string) int {
	keyspace := fmt.Sprintf("go_v%d_%s", protocol, compression)
	label := fmt.Sprintf("gocql v%d %s ", protocol, compression)
	first, err := connect(contact, protocol, compression, "")
	exitOn(err)
	exitOn(first.Query("DROP KEYSPACE IF EXISTS " + keyspace).Exec())
	exitOn(first.Query("CREATE KEYSPACE " + keyspace + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}").Exec())
	first.Close()
	session, err := connect(contact, protocol, compression, keyspace)
	exitOn(err)
	defer session.Close()
	all := suite{session, keyspace, protocol}
	passed, failed := 0, 0
	for _, each := range []struct {
		name string
		run  func(suite) error
	}{
		{"types", types},
		{"user types, tuples and nested collections", userTypes},
		{"schema metadata", metadata},
		{"named, null and unset values", values},
		{"paging", paging},
		{"batches", batches},
		{"counters", counters},
		{"lightweight transactions", transactions},
		{"requests at once", concurrency},
		{"errors", failures},
		{"end", func(all suite) error { return all.run("DROP KEYSPACE " + keyspace) }},
	} {
		if err := each.run(all); err != nil {
			failed++
			fmt.Printf("FAIL %s%s: %v\n", label, each.name, err)
		} else {
			passed++
			fmt.Printf("PASS %s%s\n", label, each.name)
		}
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 || passed == 0 {
		return 1
	}
	return 0
}

func (all suite) run(query string, values ...interface{}) error {
	if err := all.session.Query(query, values...).Exec(); err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	return nil
}

func equal(what string, expected, got interface{}) error {
	if !reflect.DeepEqual(expected, got) {
		return fmt.Errorf("%s: expected %v, got %v", what, expected, got)
	}
	return nil
}

func types(all suite) error {
	timeUUID, _ := gocql.ParseUUID("a5ac0bd0-7f41-11ee-b962-0242ac120002")
	huge := new(big.Int).Neg(new(big.Int).Lsh(big.NewInt(1), 200))
	cases := []struct {
		cqlType string
		values  []interface{}
	}{
		{"ascii", []interface{}{"", "plain"}},
		{"bigint", []interface{}{int64(0), int64(math.MinInt64), int64(math.MaxInt64)}},
		{"blob", []interface{}{[]byte{0, 255, 7}}},
		{"boolean", []interface{}{true, false}},
		{"date", []interface{}{time.Date(2023, 11, 14, 0, 0, 0, 0, time.UTC)}},
		{"double", []interface{}{0.0, -1e300, math.Inf(1)}},
		{"duration", []interface{}{gocql.Duration{Months: 14, Days: 3, Nanoseconds: 4e9}}},
		{"float", []interface{}{float32(1.5), float32(-1.25e30)}},
		{"int", []interface{}{0, math.MinInt32, math.MaxInt32}},
		{"smallint", []interface{}{int16(math.MinInt16), int16(math.MaxInt16)}},
		{"text", []interface{}{"", "naïve 日本語 😀", strings.Repeat("x", 200000)}},
		{"time", []interface{}{time.Duration(0), 24*time.Hour - 1}},
		{"timestamp", []interface{}{time.Date(2023, 11, 14, 22, 13, 20, 123e6, time.UTC), time.Date(1901, 2, 3, 4, 5, 6, 0, time.UTC)}},
		{"timeuuid", []interface{}{timeUUID}},
		{"tinyint", []interface{}{int8(math.MinInt8), int8(math.MaxInt8)}},
		{"uuid", []interface{}{gocql.UUID{}, timeUUID}},
		{"list<int>", []interface{}{[]int{3, 1, 2}}},
		{"set<text>", []interface{}{[]string{"a", "b"}}},
		{"map<text, bigint>", []interface{}{map[string]int64{"a": 1, "b": -2}}},
		{"varint", []interface{}{huge, big.NewInt(255)}},
		{"decimal", []interface{}{inf.NewDec(-150, 2), inf.NewDecBig(huge, 7)}},
		{"inet", []interface{}{net.ParseIP("127.0.0.1").To4(), net.ParseIP("2001:db8::1")}},
	}
	for number, each := range cases {
		table := fmt.Sprintf("types_%d", number)
		if err := all.run("CREATE TABLE " + table + " (id int PRIMARY KEY, v " + each.cqlType + ")"); err != nil {
			return err
		}
		for id, value := range each.values {
			if err := all.run("INSERT INTO "+table+" (id, v) VALUES (?, ?)", id, value); err != nil {
				return err
			}
			into := reflect.New(reflect.TypeOf(value))
			if err := all.session.Query("SELECT v FROM "+table+" WHERE id = ?", id).Scan(into.Interface()); err != nil {
				return fmt.Errorf("%s: %w", each.cqlType, err)
			}
			got := into.Elem().Interface()
			same := reflect.DeepEqual(value, got)
			switch expected := value.(type) {
			case *big.Int:
				same = expected.Cmp(got.(*big.Int)) == 0
			case *inf.Dec:
				same = expected.Cmp(got.(*inf.Dec)) == 0
			case net.IP:
				same = expected.Equal(got.(net.IP))
			case time.Time:
				same = expected.Equal(got.(time.Time))
			}
			if !same {
				return fmt.Errorf("%s: expected %v, got %v", each.cqlType, value, got)
			}
		}
	}
	return nil
}

type street struct {
	Name   *string `cql:"name"`
	Number int     `cql:"number"`
}

func userTypes(all suite) error {
	if err := all.run("CREATE TYPE street (name text, number int)"); err != nil {
		return err
	}
	if err := all.run("CREATE TABLE people (id int PRIMARY KEY, home frozen<street>, open street, pair tuple<int, text>, deep list<frozen<map<text, frozen<set<int>>>>>)"); err != nil {
		return err
	}
	name := "Via"
	deep := []map[string][]int{{"a": {1, 2}}, {}}
	if err := all.run("INSERT INTO people (id, home, open, pair, deep) VALUES (?, ?, ?, (5, 'x'), ?)", 1, street{&name, 7}, street{nil, 8}, deep); err != nil {
		return err
	}
	var home, open street
	var number int
	var text string
	var gotDeep []map[string][]int
	if err := all.session.Query("SELECT home, open, pair, deep FROM people WHERE id = 1").Scan(&home, &open, &number, &text, &gotDeep); err != nil {
		return err
	}
	if home.Name == nil || *home.Name != "Via" || home.Number != 7 || open.Name != nil || open.Number != 8 {
		return fmt.Errorf("got %v and %v", home, open)
	}
	if number != 5 || text != "x" {
		return fmt.Errorf("tuple: got %d, %s", number, text)
	}
	return equal("nested", deep, gotDeep)
}

func metadata(all suite) error {
	if err := all.run("CREATE TABLE described (a int, \"B\" text, c timeuuid, s int STATIC, v map<text, int>, PRIMARY KEY ((a, \"B\"), c)) WITH CLUSTERING ORDER BY (c DESC)"); err != nil {
		return err
	}
	// The driver hears of a new table by an event, a moment later.
	var table *gocql.TableMetadata
	for begin := time.Now(); table == nil; time.Sleep(50 * time.Millisecond) {
		keyspace, err := all.session.KeyspaceMetadata(all.keyspace)
		if err != nil {
			return err
		}
		table = keyspace.Tables["described"]
		if table == nil && time.Since(begin) > 20*time.Second {
			return fmt.Errorf("no table in %v", keyspace.Tables)
		}
	}
	if len(table.PartitionKey) != 2 || table.PartitionKey[1].Name != "B" || len(table.ClusteringColumns) != 1 || table.ClusteringColumns[0].ClusteringOrder != "desc" {
		return fmt.Errorf("keys: %v, %v", table.PartitionKey, table.ClusteringColumns)
	}
	if len(table.Columns) != 5 || table.Columns["s"].Kind != gocql.ColumnStatic {
		return fmt.Errorf("columns: %v", table.Columns)
	}
	return nil
}

func values(all suite) error {
	if err := all.run("CREATE TABLE vals (id int PRIMARY KEY, a text, b int)"); err != nil {
		return err
	}
	if err := all.run("INSERT INTO vals (id, a, b) VALUES (:id, :a, :b)", gocql.NamedValue("id", 1), gocql.NamedValue("a", "x"), gocql.NamedValue("b", 2)); err != nil {
		return err
	}
	if all.protocol >= 4 {
		if err := all.run("INSERT INTO vals (id, a, b) VALUES (?, ?, ?)", 1, nil, gocql.UnsetValue); err != nil {
			return err
		}
	} else if err := all.run("INSERT INTO vals (id, a) VALUES (?, ?)", 1, nil); err != nil {
		return err
	}
	var a *string
	var b *int
	if err := all.session.Query("SELECT a, b FROM vals WHERE id = ?", 1).Scan(&a, &b); err != nil {
		return err
	}
	if a != nil || b == nil || *b != 2 {
		return fmt.Errorf("got %v, %v", a, b)
	}
	return nil
}

func paging(all suite) error {
	if err := all.run("CREATE TABLE pages (k int, c int, v text, PRIMARY KEY (k, c))"); err != nil {
		return err
	}
	for c := 0; c < 250; c++ {
		if err := all.run("INSERT INTO pages (k, c, v) VALUES (?, ?, ?)", 1, c, fmt.Sprint("v", c)); err != nil {
			return err
		}
	}
	for _, order := range []string{"ASC", "DESC"} {
		for _, size := range []int{3, 100, 249, 250, 251} {
			iter := all.session.Query("SELECT c, v FROM pages WHERE k = ? ORDER BY c "+order, 1).PageSize(size).Iter()
			var c, seen int
			var v string
			for iter.Scan(&c, &v) {
				expected := seen
				if order == "DESC" {
					expected = 249 - seen
				}
				if c != expected || v != fmt.Sprint("v", c) {
					return fmt.Errorf("%s, page of %d: row %d is %d, %s", order, size, seen, c, v)
				}
				seen++
			}
			if err := iter.Close(); err != nil {
				return err
			}
			if seen != 250 {
				return fmt.Errorf("%s, page of %d: %d rows", order, size, seen)
			}
		}
	}
	first := all.session.Query("SELECT c FROM pages WHERE k = 1").PageSize(40).PageState(nil).Iter()
	state := first.PageState()
	if err := first.Close(); err != nil {
		return err
	}
	var c int
	second := all.session.Query("SELECT c FROM pages WHERE k = 1").PageSize(40).PageState(state).Iter()
	second.Scan(&c)
	if err := second.Close(); err != nil {
		return err
	}
	return equal("first row of the second page", 40, c)
}

func batches(all suite) error {
	if err := all.run("CREATE TABLE batched (k int, c int, PRIMARY KEY (k, c))"); err != nil {
		return err
	}
	for k, kind := range []gocql.BatchType{gocql.LoggedBatch, gocql.UnloggedBatch} {
		batch := all.session.Batch(kind)
		for c := 0; c < 10; c++ {
			batch.Query("INSERT INTO batched (k, c) VALUES (?, ?)", k, c)
		}
		batch.Query(fmt.Sprintf("INSERT INTO batched (k, c) VALUES (%d, 100)", k))
		if err := batch.Exec(); err != nil {
			return err
		}
	}
	var count int
	if err := all.session.Query("SELECT COUNT(*) FROM batched").Scan(&count); err != nil {
		return err
	}
	return equal("rows", 22, count)
}

func counters(all suite) error {
	if err := all.run("CREATE TABLE counts (k int PRIMARY KEY, n counter)"); err != nil {
		return err
	}
	for each := 1; each <= 10; each++ {
		if err := all.run("UPDATE counts SET n = n + ? WHERE k = 1", int64(each)); err != nil {
			return err
		}
	}
	var n int64
	if err := all.session.Query("SELECT n FROM counts WHERE k = 1").Scan(&n); err != nil {
		return err
	}
	return equal("count", int64(55), n)
}

func transactions(all suite) error {
	if err := all.run("CREATE TABLE lwt (k int PRIMARY KEY, v text)"); err != nil {
		return err
	}
	there := map[string]interface{}{}
	applied, err := all.session.Query("INSERT INTO lwt (k, v) VALUES (?, ?) IF NOT EXISTS", 1, "a").MapScanCAS(there)
	if err != nil || !applied {
		return fmt.Errorf("first: applied %v, error %v", applied, err)
	}
	applied, err = all.session.Query("INSERT INTO lwt (k, v) VALUES (?, ?) IF NOT EXISTS", 1, "b").MapScanCAS(there)
	if err != nil || applied || there["v"] != "a" {
		return fmt.Errorf("second: applied %v, there %v, error %v", applied, there, err)
	}
	applied, err = all.session.Query("UPDATE lwt SET v = ? WHERE k = ? IF v = ?", "c", 1, "a").SerialConsistency(gocql.LocalSerial).MapScanCAS(map[string]interface{}{})
	if err != nil || !applied {
		return fmt.Errorf("update: applied %v, error %v", applied, err)
	}
	batch := all.session.Batch(gocql.LoggedBatch).Query("INSERT INTO lwt (k, v) VALUES (2, 'x') IF NOT EXISTS")
	applied, iter, err := batch.MapExecCAS(map[string]interface{}{})
	if err != nil || !applied {
		return fmt.Errorf("batch: applied %v, error %v", applied, err)
	}
	return iter.Close()
}

func concurrency(all suite) error {
	if err := all.run("CREATE TABLE many (id int PRIMARY KEY, v text)"); err != nil {
		return err
	}
	var group sync.WaitGroup
	failures := make(chan error, 50)
	for worker := 0; worker < 50; worker++ {
		group.Add(1)
		go func(worker int) {
			defer group.Done()
			for id := worker; id < 1000; id += 50 {
				var v string
				err := all.run("INSERT INTO many (id, v) VALUES (?, ?)", id, fmt.Sprint("v", id))
				if err == nil {
					err = all.session.Query("SELECT v FROM many WHERE id = ?", id).Scan(&v)
				}
				if err == nil {
					err = equal("value", fmt.Sprint("v", id), v)
				}
				if err != nil {
					failures <- err
					return
				}
			}
		}(worker)
	}
	group.Wait()
	select {
	case err := <-failures:
		return err
	default:
		return nil
	}
}

func failures(all suite) error {
	for query, code := range map[string]int{
		"SELEC * FROM x":                         gocql.ErrCodeSyntax,
		"SELECT * FROM no_such_table":            gocql.ErrCodeInvalid,
		"SELECT nothing FROM many":               gocql.ErrCodeInvalid,
		"SELECT * FROM many WHERE v = 'x'":       gocql.ErrCodeInvalid,
		"CREATE TABLE many (id int PRIMARY KEY)": gocql.ErrCodeAlreadyExists,
		"CREATE KEYSPACE bad WITH replication = {'class': 'NoSuchStrategy', 'replication_factor': 1}": gocql.ErrCodeConfig,
	} {
		err := all.run(query)
		var answer gocql.RequestError
		if !errors.As(err, &answer) || answer.Code() != code {
			return fmt.Errorf("%s: expected error %#x, got %v", query, code, err)
		}
	}
	return nil
}
