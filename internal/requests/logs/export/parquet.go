// Package export writes the requests of logs into Parquet files, which DuckDB, ClickHouse and
// Spark read. fettle logs export uses it.
package export

import (
	"context"
	"io"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"fettle.dev/fettle/internal/requests/logs"
)

// Magic are the first bytes of a Parquet file.
var Magic = []byte("PAR1")

const (
	// groupRows is the number of rows of a row group, the unit that readers process in parallel.
	// It bounds the memory of the writer. DuckDB writes the same number by default.
	groupRows = 122_880
	// dictionarySize is the size in bytes above which a column of texts has no dictionary.
	dictionarySize = 1 << 20
	// batchRows is the number of rows that are passed to the writer together.
	batchRows = 256
)

// Write writes all requests that o selects to w, in the order of the logs, and returns the counts
// of the reading. If logs cannot be read to their ends, the file has the requests before, and the
// error names these logs. Without a result, nothing useful was written.
func (t *Table) Write(ctx context.Context, w io.Writer, o logs.Options) (*logs.Result, error) {
	out := parquet.NewGenericWriter[any](w, t.schema(), parquet.Compression(&zstd.Codec{}), parquet.MaxRowsPerRowGroup(groupRows),
		parquet.DictionaryMaxBytes(dictionarySize), parquet.CreatedBy("fettle", "", ""))
	b := batch{out: out, rows: make([]parquet.Row, 0, batchRows)}
	o.Each = func(log, line int, r *logs.Request) error { return b.add(t.of[log], line, r) }
	res, err := logs.Read(ctx, t.set, t.formats, o)
	if res == nil || ctx.Err() != nil {
		return nil, err
	}
	if failed := b.end(); failed != nil {
		return nil, failed
	}
	return res, err
}

// batch collects rows for the writer.
type batch struct {
	out  *parquet.GenericWriter[any]
	rows []parquet.Row
	err  error  // of the writer
	text []byte // texts of the rows: those of a request are valid only until the next one
}

// add adds a request.
func (b *batch) add(values []valuer, line int, r *logs.Request) error {
	n := len(b.rows)
	b.rows = b.rows[:n+1]
	row := b.rows[n][:0]
	for i, value := range values {
		v := value(line, r)
		switch {
		case v.IsNull():
			row = append(row, v.Level(0, 0, i))
			continue
		case v.Kind() == parquet.ByteArray:
			from := len(b.text)
			b.text = append(b.text, v.ByteArray()...)
			v = parquet.ByteArrayValue(b.text[from:])
		}
		row = append(row, v.Level(0, 1, i))
	}
	b.rows[n] = row
	if len(b.rows) == cap(b.rows) {
		return b.flush()
	}
	return nil
}

// end writes what is left, and the end of the file.
func (b *batch) end() error {
	if b.err != nil {
		return b.err
	}
	if err := b.flush(); err != nil {
		return err
	}
	return b.out.Close()
}

// flush writes the rows, which the writer copies.
func (b *batch) flush() error {
	_, b.err = b.out.WriteRows(b.rows)
	b.rows, b.text = b.rows[:0], b.text[:0]
	return b.err
}
