package etcd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/stats"
)

// Schema names the JSON form of Result.
const Schema = "fettle/bench-etcd/v1"

// Limits of the 99th percentile in seconds (etcd, "Metrics", disk; FAQ, "What does the
// etcd warning ... mean").
const (
	fsyncLimitS  = 0.010 // an fsync of the log
	commitLimitS = 0.025 // a commit of the database
)

// Page holds a member's metrics from a single read.
type Page struct {
	Fsync, Commit stats.Histogram
	// FsyncSumS and CommitSumS add up all observations, in seconds.
	FsyncSumS, CommitSumS float64
	Leader                bool
	LeaderChanges         float64
	SizeBytes, QuotaBytes float64 // of the database; the quota is 0 if etcd does not report it
	Version               string
}

// Clock returns the time.
type Clock interface{ Now() time.Time }

// Bench measures a member.
type Bench struct {
	Clock Clock
	// Page reads the member's metrics.
	Page func(context.Context) (Page, error)
	// Window is the time of observation. It is divided into Slices.
	Window time.Duration
	Slices int
	Wait   func(context.Context, time.Duration) error
	// Writer writes during the window; nil means observation only.
	Writer *Writer
	// Progress is called before each slice, if not nil.
	Progress func(done, all int)
	// Finished, if not nil, is called with the result so far after each slice except the last. An
	// error ends the bench.
	Finished func(*Result) error
}

// Result is the result of a bench.
type Result struct {
	Schema  string                 `json:"schema"`        // fettle/bench-etcd/v1
	Cut     *evidence.Interruption `json:"cut,omitempty"` // set if the bench ended early
	Series  []evidence.Series      `json:"series"`
	Member  string                 `json:"member"`
	Version string                 `json:"version,omitempty"`
	// Judged holds the judgments of the log and the database: for each, first since the member's
	// start, then in the window.
	Judged  []Judgement `json:"judged"`
	WindowS float64     `json:"window_s"`
	// Writes are the bench's own writes; nil if it only observed.
	Writes        *Writes `json:"writes,omitempty"`
	LeaderChanges float64 `json:"leader_changes"` // since the start of the member
	SizeBytes     float64 `json:"database_bytes"`
	Word          Word    `json:"result"`
	Text          string  `json:"verdict"`
}

// JSONBody marks the body of a run.
func (Result) JSONBody() {}

// Run observes a member. If ctx ends, it returns the finished slices and the error.
func (b *Bench) Run(ctx context.Context) (*Result, error) {
	first, err := b.page(ctx)
	if err != nil {
		return nil, err
	}
	r := &Result{Schema: Schema, Version: first.Version}
	fsync, commit := evidence.Series{Name: "etcd:fsync-mean", Unit: "ms"}, evidence.Series{Name: "etcd:commit-mean", Unit: "ms"}
	began, last := b.Clock.Now(), first
	var ended error
	for slice := range b.Slices {
		if b.Progress != nil {
			b.Progress(slice, b.Slices)
		}
		if b.Writer != nil {
			err = b.Writer.slice(ctx, b.Slices)
		} else {
			err = b.Wait(ctx, b.Window/time.Duration(b.Slices))
		}
		var now Page
		if err == nil {
			now, err = b.page(ctx)
		}
		if err != nil && slice > 0 && ctx.Err() != nil {
			ended, r.Cut = ctx.Err(), &evidence.Interruption{Done: slice, Planned: b.Slices, Of: "parts of its time"}
			break
		}
		if err != nil {
			return nil, err
		}
		for _, s := range []struct {
			to           *evidence.Series
			n, m         stats.Histogram
			begin, ended float64
		}{{&fsync, last.Fsync, now.Fsync, last.FsyncSumS, now.FsyncSumS}, {&commit, last.Commit, now.Commit, last.CommitSumS, now.CommitSumS}} {
			came, err := s.m.Since(s.n)
			if err != nil {
				return nil, err
			}
			if n := came.Total(); n > 0 {
				if err := s.to.Add(1000 * (s.ended - s.begin) / n); err != nil {
					return nil, err
				}
			}
		}
		last = now
		r.WindowS = b.Clock.Now().Sub(began).Seconds()
		if done := slice + 1; b.Finished != nil && done < b.Slices {
			by := *r
			by.Cut = &evidence.Interruption{Done: done, Planned: b.Slices, Of: "parts of its time"}
			if err := b.sum(&by, first, last, fsync, commit); err != nil {
				return nil, err
			}
			if ended = b.Finished(&by); ended != nil {
				return &by, ended
			}
		}
	}
	if err := b.sum(r, first, last, fsync, commit); err != nil {
		return nil, err
	}
	return r, ended
}

// sum computes a result from the first and the last metrics.
func (b *Bench) sum(r *Result, first, last Page, fsync, commit evidence.Series) error {
	r.LeaderChanges, r.SizeBytes = last.LeaderChanges, last.SizeBytes
	for _, j := range []struct {
		what         string
		begin, ended stats.Histogram
		limit        float64
	}{{"fsync", first.Fsync, last.Fsync, fsyncLimitS}, {"commit", first.Commit, last.Commit, commitLimitS}} {
		window, err := j.ended.Since(j.begin)
		if err != nil {
			return err
		}
		r.Judged = append(r.Judged, judge(j.what, "since-start", j.ended, j.limit), judge(j.what, "window", window, j.limit))
	}
	r.Series = []evidence.Series{fsync, commit}
	if b.Writer != nil {
		r.Writes = b.Writer.sum()
		r.Series = append(r.Series, b.Writer.series)
	}
	r.Series = slices.DeleteFunc(r.Series, func(s evidence.Series) bool { return len(s.Samples) == 0 })
	r.Word, r.Text = r.verdict()
	r.Text = r.Cut.Text(r.Text)
	return nil
}

// page reads and checks the member's metrics.
func (b *Bench) page(ctx context.Context) (Page, error) {
	p, err := b.Page(ctx)
	if err != nil {
		return p, err
	}
	for name, h := range map[string]stats.Histogram{"etcd_disk_wal_fsync_duration_seconds": p.Fsync, "etcd_disk_backend_commit_duration_seconds": p.Commit} {
		if len(h) == 0 {
			return p, fmt.Errorf("metric %s is missing; check that this is the address of etcd", name)
		}
		if err := h.Check(); err != nil {
			return p, fmt.Errorf("%s: %w", name, err)
		}
	}
	return p, nil
}

// decisive returns the judgment that counts of the pair at index i, and its period: the window if
// that has enough observations, otherwise the time since the member's start.
func (r *Result) decisive(i int) (j Judgement, when string) {
	if i+1 < len(r.Judged) && r.Judged[i+1].N >= stats.MinForP99 {
		return r.Judged[i+1], "in the window"
	}
	return r.Judged[i], "since its start"
}

// verdict returns the worse verdict of log and database, with its reason.
func (r *Result) verdict() (Word, string) {
	word, begins := Pass, map[Word]string{Pass: "fast enough", CannotTell: "cannot tell", Fail: "too slow"}
	var said []string
	for i := 0; i < len(r.Judged); i += 2 {
		j, when := r.decisive(i)
		if j.Word == Fail || j.Word == CannotTell && word == Pass {
			word = j.Word
		}
		said = append(said, fmt.Sprintf("%s %s: %s", j.What, when, j.Text))
	}
	return word, begins[word] + ": " + strings.Join(said, "; ")
}
