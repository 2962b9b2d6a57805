// Package postgres measures a running PostgreSQL with pgbench, in a temporary database of
// its own, and lists the largest tables of other databases.
package postgres

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Server is a running server.
type Server interface {
	// One runs a read-only statement that returns a single string.
	One(ctx context.Context, database, statement string) (string, error)
	// Do runs a statement outside a transaction.
	Do(ctx context.Context, database, statement string) error
	// Hold keeps a session with a database open until the returned function is called.
	Hold(ctx context.Context, database string) (func(), error)
}

// mark is the comment of the databases that a bench creates. Only databases with this comment
// are ever dropped.
const mark = "created by fettle bench postgres for its benchmark tables only; dropped afterwards"

// prefix is the prefix of these databases' names.
const prefix = "fettle_bench_"

// maintenance is the database from which others are created and dropped.
const maintenance = "postgres"

// Database is the temporary database of a bench.
type Database struct {
	Name   string
	server Server
	held   func()
}

// Create creates an empty database with the comment.
func Create(ctx context.Context, s Server) (d *Database, err error) {
	own := make([]byte, 8)
	_, _ = rand.Read(own) // never fails
	d = &Database{Name: prefix + hex.EncodeToString(own), server: s}
	// template0, because template1 may contain the administrator's objects.
	if err := s.Do(ctx, maintenance, "CREATE DATABASE "+d.Name+" TEMPLATE template0"); err != nil {
		if ctx.Err() != nil { // the server may still have created it
			err = errors.Join(err, d.Drop(ctx))
		}
		return nil, fmt.Errorf("cannot create a database for the benchmark: %w", err)
	}
	err = s.Do(ctx, maintenance, "COMMENT ON DATABASE "+d.Name+" IS '"+mark+"'")
	if err == nil {
		d.held, err = s.Hold(ctx, d.Name)
	}
	if err != nil {
		return nil, errors.Join(err, d.Drop(ctx))
	}
	return d, nil
}

// dropTime is the time limit for other programs to release a database.
const dropTime = 30 * time.Second

// Drop ends all connections to the database and drops it, even after ctx has ended.
func (d *Database) Drop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTime)
	defer cancel()
	if d.held != nil {
		d.held()
		d.held = nil
	}
	for {
		err := d.server.Do(ctx, maintenance, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '"+d.Name+"'")
		if err == nil {
			err = d.server.Do(ctx, maintenance, "DROP DATABASE IF EXISTS "+d.Name)
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("database %s could not be dropped; the next fettle bench postgres drops it: %w", d.Name, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Left lists the databases of earlier benches.
type Left struct {
	Dropped  []string // databases of killed benches; dropped
	InUse    []string // databases of running benches
	Unmarked []string // databases with such a name that lack fettle's comment; kept
}

// Sweep drops the databases of killed benches.
func Sweep(ctx context.Context, s Server) (l Left, err error) {
	text, err := s.One(ctx, maintenance, `SELECT coalesce(json_agg(json_build_object('name', datname, 'ours', coalesce(shobj_description(oid, 'pg_database'), '') = '`+mark+`',
		'used', (SELECT count(*) FROM pg_stat_activity a WHERE a.datid = d.oid)) ORDER BY datname), '[]')
		FROM pg_database d WHERE starts_with(datname, '`+prefix+`') OR shobj_description(oid, 'pg_database') = '`+mark+`'`)
	if err != nil {
		return l, err
	}
	var all []struct {
		Name string `json:"name"`
		Ours bool   `json:"ours"`
		Used int    `json:"used"`
	}
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return l, err
	}
	for _, d := range all {
		switch {
		case !d.Ours:
			l.Unmarked = append(l.Unmarked, d.Name)
		case d.Used > 0:
			l.InUse = append(l.InUse, d.Name)
		default:
			if err := s.Do(ctx, maintenance, `DROP DATABASE "`+strings.ReplaceAll(d.Name, `"`, `""`)+`"`); err != nil {
				return l, fmt.Errorf("cannot drop database %s of an earlier benchmark: %w", d.Name, err)
			}
			l.Dropped = append(l.Dropped, d.Name)
		}
	}
	return l, nil
}
