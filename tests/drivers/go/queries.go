package main

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// answer prints a digest of the answer to each query of a file, in the form that the programs of all languages agree on
// (tests/drivers/debian/README.md). A line of the file: name, page size, CQL, text parameters, separated by tabs.
func answer(session *gocql.Session, file string) error {
	lines, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for _, line := range strings.Split(strings.TrimSuffix(string(lines), "\n"), "\n") {
		fields := strings.Split(line, "\t")
		size, err := strconv.Atoi(fields[1])
		if err != nil {
			return err
		}
		values := make([]interface{}, 0, len(fields))
		for _, value := range fields[3:] {
			values = append(values, value)
		}
		iter := session.Query(fields[2], values...).PageSize(size).Iter()
		columns := make([]cell, len(iter.Columns()))
		into := make([]interface{}, len(columns))
		for index := range columns {
			into[index] = &columns[index]
		}
		digest := sha256.New()
		rows := 0
		for iter.Scan(into...) {
			texts := make([]string, len(columns))
			for index := range columns {
				texts[index] = columns[index].text
			}
			digest.Write([]byte(strings.Join(texts, "\t") + "\n"))
			rows++
		}
		if err := iter.Close(); err != nil {
			return fmt.Errorf("%s: %w", fields[0], err)
		}
		fmt.Printf("%s %d %x\n", fields[0], rows, digest.Sum(nil))
	}
	return nil
}

// cell is a value as text, made from its bytes, so that null and empty stay apart.
type cell struct {
	text string
}

func (c *cell) UnmarshalCQL(info gocql.TypeInfo, data []byte) error {
	text, err := textOf(info, data)
	c.text = text
	return err
}

func textOf(info gocql.TypeInfo, data []byte) (string, error) {
	if data == nil {
		return "~", nil
	}
	switch info.Type() {
	case gocql.TypeText, gocql.TypeVarchar, gocql.TypeAscii:
		return string(data), nil
	case gocql.TypeInt:
		return fmt.Sprint(int32(binary.BigEndian.Uint32(data))), nil
	case gocql.TypeBigInt, gocql.TypeCounter:
		return fmt.Sprint(int64(binary.BigEndian.Uint64(data))), nil
	case gocql.TypeBoolean:
		return fmt.Sprint(data[0] != 0), nil
	case gocql.TypeList, gocql.TypeSet, gocql.TypeMap:
		collection := info.(gocql.CollectionType)
		count := int(binary.BigEndian.Uint32(data))
		data = data[4:]
		parts := make([]string, 0, count)
		for range make([]struct{}, count) {
			element, err := next(&data)
			if err != nil {
				return "", err
			}
			text := ""
			if info.Type() == gocql.TypeMap {
				if text, err = textOf(collection.Key, element); err != nil {
					return "", err
				}
				text += "="
				if element, err = next(&data); err != nil {
					return "", err
				}
			}
			value, err := textOf(collection.Elem, element)
			if err != nil {
				return "", err
			}
			parts = append(parts, text+value)
		}
		if info.Type() != gocql.TypeList {
			sort.Strings(parts)
		}
		if info.Type() == gocql.TypeMap {
			return "{" + strings.Join(parts, ",") + "}", nil
		}
		return "[" + strings.Join(parts, ",") + "]", nil
	case gocql.TypeUDT:
		var parts []string
		for _, field := range info.(gocql.UDTTypeInfo).Elements {
			var value []byte
			if len(data) > 0 {
				var err error
				if value, err = next(&data); err != nil {
					return "", err
				}
			}
			text, err := textOf(field.Type, value)
			if err != nil {
				return "", err
			}
			parts = append(parts, text)
		}
		return "(" + strings.Join(parts, "|") + ")", nil
	}
	return "", fmt.Errorf("type %v is not expected here", info.Type())
}

// next takes a value with its length off the front; nil for null.
func next(data *[]byte) ([]byte, error) {
	if len(*data) < 4 {
		return nil, fmt.Errorf("%d bytes where a length is due", len(*data))
	}
	length := int32(binary.BigEndian.Uint32(*data))
	*data = (*data)[4:]
	if length < 0 {
		return nil, nil
	}
	if int(length) > len(*data) {
		return nil, fmt.Errorf("a value of %d bytes, but %d are left", length, len(*data))
	}
	value := (*data)[:length:length]
	*data = (*data)[length:]
	return value, nil
}
