package postgresql

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/product"
)

const (
	kB     = 1 << 10
	mB     = 1 << 20
	blocks = 8 * kB // with the default BLCKSZ
	second = 1_000_000
)

// parameters are the options that rules use (PostgreSQL 15, chapter 20). The defaults are the
// server's own (src/backend/utils/misc/guc_tables.c).
var parameters = bounded(product.Parameters{
	number("max_connections", "100", "concurrent connections"),
	memory("shared_buffers", blocks, "128MB", "memory that all processes share for pages"),
	memory("work_mem", kB, "4MB", "memory of one sort or hash of one query"),
	memory("effective_cache_size", blocks, "4GB", "memory that the planner assumes is cached, including the kernel's page cache"),
	memory("maintenance_work_mem", kB, "64MB", "memory of VACUUM and of building an index"),
	number("autovacuum_vacuum_cost_limit", "-1", "cost after which autovacuum pauses; -1 means vacuum_cost_limit"),
	fraction("checkpoint_completion_target", "", "part of the time between checkpoints during which a checkpoint is written; default 0.9, before version 14 0.5"),
	memory("max_wal_size", mB, "1GB", "amount of WAL after which a checkpoint begins"),
	memory("min_wal_size", mB, "80MB", "amount of WAL that is kept for reuse"),
	duration("checkpoint_timeout", second, "5min", "longest time between checkpoints"),
	memory("wal_buffers", blocks, "-1", "memory for unwritten WAL; -1 means 1/32 of shared_buffers, at most 16 MiB"),
	{Name: "wal_compression", Type: fact.Text, Read: readWord, Default: "off", Doc: "whether full pages in the log are compressed, and how"},
	fraction("random_page_cost", "4", "planner's cost of a random read, relative to a sequential read"),
	number("effective_io_concurrency", "", "concurrent reads of a bitmap scan; default 16, before version 18 1"),
	{Name: "huge_pages", Type: fact.Text, Read: readWord, Default: "try", Doc: "whether shared memory is in huge pages: on, off, try"},
	memory("huge_page_size", kB, "0", "size of a huge page; 0 is the kernel's standard one"),
	number("max_worker_processes", "8", "background workers"),
	number("max_parallel_workers", "8", "workers of parallel queries"),
	number("max_parallel_workers_per_gather", "2", "maximum workers of one parallel step of a query"),
	duration("log_min_duration_statement", second/1000, "-1", "duration from which a statement is logged; -1 logs no statement"),
	{Name: "synchronous_commit", Type: fact.Text, Read: readWord, Default: "on", Doc: "what a commit waits for"},
	truth("fsync", "on", "whether writes are forced to the disk; off loses the database in a power cut"),
	truth("full_page_writes", "on", "whether whole pages are logged after a checkpoint; off corrupts torn pages"),
	{Name: "shared_preload_libraries", Type: fact.List, Read: readList, Doc: "libraries loaded at the start"},
	memory("temp_file_limit", kB, "-1", "disk space of one process's temporary files; -1 means unlimited"),
	duration("idle_in_transaction_session_timeout", second/1000, "0", "time after which an idle transaction is ended; 0 is never"),
	number("port", "5432", "TCP port, and part of the socket's name"),
	{Name: "listen_addresses", Type: fact.List, Read: readList, Default: "localhost", Doc: "addresses on which the server listens"},
	{Name: "data_directory", Type: fact.Text, Read: readText, Doc: "directory of the data"},
})

// least maps parameters to their minimum, in bytes, in seconds or without a unit. It is the
// smallest minimum of versions 10 to 18 (postgres --describe-config); maintenance_work_mem has 1 MB
// before 17. PostgreSQL does not start with a smaller value.
var least = map[string]float64{
	"max_connections": 1, "shared_buffers": 16 * blocks, "work_mem": 64 * kB, "effective_cache_size": blocks, "maintenance_work_mem": 64 * kB,
	"autovacuum_vacuum_cost_limit": -1, "checkpoint_completion_target": 0, "max_wal_size": 2 * mB, "min_wal_size": 2 * mB, "checkpoint_timeout": 30,
	"wal_buffers": -1, "random_page_cost": 0, "effective_io_concurrency": 0, "huge_page_size": 0, "max_worker_processes": 0, "max_parallel_workers": 0,
	"max_parallel_workers_per_gather": 0, "log_min_duration_statement": -1, "temp_file_limit": -1, "idle_in_transaction_session_timeout": 0, "port": 1,
}

// bounded adds the minimums to Read, which then rejects smaller values.
func bounded(all product.Parameters) product.Parameters {
	for i, p := range all {
		low, ok := least[p.Name]
		if !ok {
			continue
		}
		all[i].Read = func(text string) (any, error) {
			v, err := p.Read(text)
			if n, isNumber := v.(float64); err == nil && isNumber && n < low {
				return nil, fmt.Errorf("%q: below PostgreSQL's minimum of %s; it would not start", text, strings.TrimSpace(strconv.FormatFloat(low, 'f', -1, 64)+" "+p.Unit))
			}
			return v, err
		}
	}
	return all
}

var (
	number   = product.Of(fact.Number, "", readCount)
	fraction = product.Of(fact.Number, "", readReal)
	truth    = product.Of(fact.Truth, "", readTruth)
)

// memory returns a size parameter; a number without a unit is in units of base bytes.
func memory(name string, base int64, def, doc string) product.Parameter {
	return product.Parameter{Name: name, Type: fact.Number, Unit: "bytes", Read: in(memoryUnits, base), Default: def, Doc: doc}
}

// duration returns a time parameter; a number without a unit is in units of base microseconds.
func duration(name string, base int64, def, doc string) product.Parameter {
	return product.Parameter{Name: name, Type: fact.Number, Unit: "s", Read: in(timeUnits, base), Default: def, Doc: doc}
}

// atStart are the parameters that need a restart (context postmaster), used if the server cannot be
// queried.
var atStart = []string{
	"autovacuum_freeze_max_age", "autovacuum_max_workers", "huge_page_size", "huge_pages", "listen_addresses", "max_connections",
	"max_files_per_process", "max_locks_per_transaction", "max_prepared_transactions", "max_wal_senders", "max_worker_processes",
	"port", "shared_buffers", "shared_memory_type", "shared_preload_libraries", "superuser_reserved_connections",
	"unix_socket_directories", "wal_buffers", "wal_level", "data_directory",
}

// byHand are parameters that only an administrator sets: they run code, move the data, or
// decide who may connect.
var byHand = []string{"data_directory", "listen_addresses", "port", "shared_preload_libraries"}

// onlyOn are parameters that must stay on: otherwise a crash loses data.
var onlyOn = []string{"fsync", "full_page_writes"}

// check returns an error for options that fettle does not set, and for invalid values.
func check(key, value string) error {
	p := parameters.Settable(key, byHand)
	if err := p.Check("PostgreSQL", value); err != nil {
		return err
	}
	if v, err := p.Read(value); err == nil && slices.Contains(onlyOn, key) && v != true {
		return fmt.Errorf("%s = %s loses data in a crash", key, value)
	}
	return nil
}
