package postgres

import (
	"context"
	"encoding/json"
	"fmt"
)

// Table is a table of a database.
type Table struct {
	Name       string `json:"name"`
	Bytes      int64  `json:"total_bytes"` // with indexes and TOAST
	HeapBytes  int64  `json:"heap_bytes"`
	IndexBytes int64  `json:"index_bytes"`
	// Rows and Dead are the server's estimates; negative if unknown.
	Rows int64 `json:"rows"`
	Dead int64 `json:"dead_rows"`
}

// topTables selects the largest tables.
const topTables = `SELECT coalesce(json_agg(t), '[]') FROM (
	SELECT n.nspname || '.' || c.relname AS name, pg_total_relation_size(c.oid) AS total_bytes, pg_relation_size(c.oid) AS heap_bytes,
		pg_indexes_size(c.oid) AS index_bytes, c.reltuples::bigint AS rows, coalesce(s.n_dead_tup, -1) AS dead_rows
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_stat_all_tables s ON s.relid = c.oid
	WHERE c.relkind IN ('r', 'm') AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_(toast|temp)'
	ORDER BY 2 DESC, 1 LIMIT %d) t`

// Top returns the largest tables of a database, largest first, at most `most`.
func Top(ctx context.Context, s Server, database string, most int) ([]Table, error) {
	text, err := s.One(ctx, database, fmt.Sprintf(topTables, most))
	if err != nil {
		return nil, err
	}
	var out []Table
	return out, json.Unmarshal([]byte(text), &out)
}
