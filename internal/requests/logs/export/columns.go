package export

import (
	"bytes"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/requests/logs"
	"fettle.dev/fettle/internal/requests/source"
)

// kind is the type of a column.
type kind string

// Kinds of columns.
const (
	text      kind = "text"
	count     kind = "whole number"
	moment    kind = "time"
	localTime kind = "time without a zone"
)

func (k kind) node() parquet.Node {
	switch k {
	case text:
		return parquet.Optional(parquet.Encoded(parquet.String(), &parquet.RLEDictionary))
	case count:
		return parquet.Optional(parquet.Encoded(parquet.Int(64), &parquet.DeltaBinaryPacked))
	}
	return parquet.Optional(parquet.Encoded(parquet.TimestampAdjusted(parquet.Microsecond, k == moment), &parquet.DeltaBinaryPacked))
}

// column is a column of the file.
type column struct {
	name string
	kind kind
}

// valuer returns the value of a column in a request: null if the line lacks it.
type valuer func(line int, r *logs.Request) parquet.Value

// Table is the Parquet table of the requests of logs.
type Table struct {
	set     *source.Set
	formats []*logformat.Format
	columns []column
	of      [][]valuer // for each log, the value of each column
}

var null parquet.Value

// New returns the table of logs. Its columns are those of all formats, in the order in which they
// appear. A column must have the same kind in all logs.
func New(set *source.Set, formats []*logformat.Format) (*Table, error) {
	t := &Table{set: set, formats: formats}
	first := map[string]string{} // the log in which a column appeared
	for i, f := range formats {
		of := make([]valuer, len(t.columns))
		for _, one := range columnsOf(set.Logs[i].Path, f) {
			at := slices.IndexFunc(t.columns, func(c column) bool { return c.name == one.name })
			if at < 0 {
				at = len(t.columns)
				t.columns, of = append(t.columns, one.column), append(of, nil)
				first[one.name] = set.Logs[i].Path
			}
			if had := t.columns[at].kind; had != one.kind {
				return nil, fmt.Errorf("%s: %s is a %s, and a %s in %s; export these logs into different files", set.Logs[i].Path, one.name, one.kind, had, first[one.name])
			}
			if of[at] == nil { // of a repeated name, the first value counts, as for Format.Field
				of[at] = one.value
			}
		}
		t.of = append(t.of, of)
	}
	for i := range t.of {
		t.of[i] = append(t.of[i], make([]valuer, len(t.columns)-len(t.of[i]))...)
		for k, value := range t.of[i] {
			if value == nil {
				t.of[i][k] = func(int, *logs.Request) parquet.Value { return null }
			}
		}
	}
	return t, nil
}

// Columns returns the number of columns.
func (t *Table) Columns() int { return len(t.columns) }

func (t *Table) schema() *parquet.Schema {
	g := ordered{Group: parquet.Group{}}
	for _, c := range t.columns {
		g.Group[c.name] = c.kind.node()
		g.names = append(g.names, c.name)
	}
	return parquet.NewSchema("requests", g)
}

// ordered is a group whose fields keep their order. parquet.Group sorts them by name.
type ordered struct {
	parquet.Group
	names []string
}

func (o ordered) Fields() []parquet.Field {
	out := make([]parquet.Field, len(o.names))
	for _, f := range o.Group.Fields() {
		out[slices.Index(o.names, f.Name())] = f
	}
	return out
}

// valued is a column of one log.
type valued struct {
	column
	value valuer
}

// columnsOf returns the columns of a log: its name and line, what every request has, and all
// other fields of the format.
func columnsOf(path string, f *logformat.Format) []valued {
	name := parquet.ByteArrayValue(valid([]byte(path)))
	out := []valued{
		{column{"log", text}, func(int, *logs.Request) parquet.Value { return name }},
		{column{"line", count}, func(line int, _ *logs.Request) parquet.Value { return parquet.Int64Value(int64(line)) }},
	}
	add := func(name string, k kind, value valuer) { out = append(out, valued{column{name, k}, value}) }
	if f.Field(logformat.FieldTime) >= 0 {
		k := moment
		if f.NoZone {
			k = localTime
		}
		add("time", k, func(_ int, r *logs.Request) parquet.Value { return parquet.Int64Value(r.Time) })
	}
	if f.Field(logformat.FieldDuration) >= 0 {
		add("duration_us", count, func(_ int, r *logs.Request) parquet.Value { return known(r.Duration, r.Duration >= 0) })
	}
	if f.Field(logformat.FieldStatus) >= 0 {
		add("status", count, func(_ int, r *logs.Request) parquet.Value { return known(int64(r.Status), r.Status > 0) })
	}
	whole := f.Field(logformat.FieldRequest) >= 0
	for _, part := range []struct {
		name string
		has  bool
		of   func(r *logs.Request) []byte
	}{
		{"method", whole || f.Field(logformat.FieldMethod) >= 0, func(r *logs.Request) []byte { return r.Method }},
		{"url", whole || f.Field(logformat.FieldURL) >= 0, func(r *logs.Request) []byte { return r.URL }},
		{"path", whole || f.Field(logformat.FieldURL) >= 0 || f.Field(logformat.FieldPath) >= 0, func(r *logs.Request) []byte { return r.Path }},
		{"query", whole || f.Field(logformat.FieldURL) >= 0 || f.Field(logformat.FieldQuery) >= 0, func(r *logs.Request) []byte { return r.Query }},
		{"protocol", whole || f.Field(logformat.FieldProtocol) >= 0, func(r *logs.Request) []byte { return r.Protocol }},
	} {
		if part.has {
			add(part.name, text, func(_ int, r *logs.Request) parquet.Value { return textOf(part.of(r)) })
		}
	}
	for i := range f.Fields {
		field := &f.Fields[i]
		switch field.Name {
		case logformat.FieldTime, logformat.FieldDuration, logformat.FieldStatus, logformat.FieldRequest, logformat.FieldMethod, logformat.FieldURL, logformat.FieldPath, logformat.FieldQuery, logformat.FieldProtocol:
			continue // above
		}
		k := kindOf(f, field)
		add(nameOf(field), k, valueOf(field, i, k))
	}
	return out
}

// kindOf returns the kind of a field's column. A list of numbers, one for each attempt, is a text.
func kindOf(f *logformat.Format, field *logformat.Field) kind {
	switch {
	case field.Kind == logformat.Time && f.NoZone:
		return localTime
	case field.Kind == logformat.Time:
		return moment
	case field.List:
		return text
	case field.Kind == logformat.Duration || field.Kind == logformat.Number:
		return count
	}
	return text
}

// nameOf returns the name of a field's column. Durations have their unit in the name.
func nameOf(field *logformat.Field) string {
	if field.Kind == logformat.Duration && !field.List {
		return field.Name + "_us"
	}
	return field.Name
}

// valueOf returns the valuer of field i.
func valueOf(field *logformat.Field, i int, k kind) valuer {
	switch {
	case k == text:
		return func(_ int, r *logs.Request) parquet.Value { return textOf(r.Field(i)) }
	case k == moment || k == localTime:
		clock := &logformat.Clock{}
		return func(_ int, r *logs.Request) parquet.Value { return known(field.Time(r.Field(i), clock)) }
	case field.Kind == logformat.Duration:
		return func(_ int, r *logs.Request) parquet.Value {
			if n, ok := r.Spans[i].Int(); ok {
				return known(field.Whole(n))
			}
			return known(field.Duration(r.Field(i)))
		}
	}
	return func(_ int, r *logs.Request) parquet.Value {
		return known(logformat.Int(bytes.TrimPrefix(r.Field(i), []byte("+")))) // + of HAProxy's logasap
	}
}

// known returns a number, or null if it is not known.
func known(n int64, ok bool) parquet.Value {
	if !ok {
		return null
	}
	return parquet.Int64Value(n)
}

// textOf returns a text, or null for an empty one and for "-", by which servers log a missing value.
func textOf(of []byte) parquet.Value {
	if len(of) == 0 || len(of) == 1 && of[0] == '-' {
		return null
	}
	return parquet.ByteArrayValue(valid(of))
}

// valid escapes bytes that are not UTF-8, which readers reject, as \xNN.
func valid(of []byte) []byte {
	if utf8.Valid(of) {
		return of
	}
	return []byte(evidence.EscapeInvalidUTF8(string(of)))
}
