package etcd

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/stats"
	"fettle.dev/fettle/internal/text"
)

// Writer writes keys below a prefix, one after the other, and removes them. The keys belong to a
// lease: if this process is killed, etcd removes them when the lease expires.
type Writer struct {
	Prefix string
	Writes int // number of writes
	Value  int // bytes of each value
	Clock  Clock
	// Call calls a method of the JSON gateway.
	Call func(ctx context.Context, method string, request, answer any) error

	lease  string
	keys   string // prefix of this bench's keys
	tookS  []float64
	series evidence.Series
}

// leaseS is the time that keys may remain after a kill -9, in seconds.
const leaseS = 3600

// Limits of the options.
const (
	MostWrites = 100_000
	MostValue  = 64 << 10
)

// foreign lists key prefixes of other programs, which read every key below them.
var foreign = []string{"/registry", "/kubernetes.io", "/openshift.io"}

// Check returns an error if the writes are impossible or unsafe. p holds the member's metrics.
func (w *Writer) Check(p Page) error {
	switch {
	case w.Prefix == "" || strings.Trim(w.Prefix, "/") == "" || len(w.Prefix) > 200:
		return fmt.Errorf("prefix %q: want 1 to 200 characters that are not only slashes", w.Prefix)
	case strings.ContainsFunc(w.Prefix, func(r rune) bool { return r < 0x21 || r > 0x7e }):
		return fmt.Errorf("prefix %q: want printable characters without spaces", w.Prefix)
	case w.Writes < 1 || w.Writes > MostWrites:
		return errors.New(text.Sprintf("--writes %d: want 1 to %d", w.Writes, MostWrites))
	case w.Value < 1 || w.Value > MostValue:
		return errors.New(text.Sprintf("--value-size %d: want 1 to %d bytes", w.Value, MostValue))
	}
	for _, f := range foreign {
		if w.Prefix == f || strings.HasPrefix(w.Prefix, f+"/") {
			return fmt.Errorf("prefix %s: the keys below %s belong to Kubernetes", w.Prefix, f)
		}
	}
	if !p.Leader {
		return errors.New("cannot write: the etcd member has no leader")
	}
	quota := p.QuotaBytes
	if quota == 0 {
		quota = 2 << 30 // the default
	}
	if quota < 0 {
		return nil // no quota
	}
	// In the worst case each revision takes a database page in addition to its value.
	if need := p.SizeBytes + float64(w.Writes)*float64(w.Value+4096); need > 0.8*quota {
		return fmt.Errorf("the benchmark's writes could grow the database from %.0f MiB to %.0f MiB, above 80 %% of its quota of %.0f MiB; defragment etcd, or use a smaller --writes or --value-size", p.SizeBytes/(1<<20), need/(1<<20), quota/(1<<20))
	}
	return nil
}

// patience is the timeout of a call. etcd itself ends a request after slightly more than seven
// seconds (its ReqTimeout with the default election timeout). Tests change it.
var patience = 30 * time.Second

func (w *Writer) call(ctx context.Context, method string, request, answer any) error {
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := w.Call(bounded, method, request, answer)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%s: etcd did not answer within %v", method, patience)
	}
	return err
}

// Begin obtains the lease.
func (w *Writer) Begin(ctx context.Context) error {
	var granted struct {
		ID string `json:"ID"`
	}
	if err := w.call(ctx, "/v3/lease/grant", map[string]string{"TTL": strconv.Itoa(leaseS)}, &granted); err != nil {
		return err
	}
	if granted.ID == "" {
		return errors.New("etcd did not grant a lease for the benchmark's keys")
	}
	own := make([]byte, 8)
	_, _ = rand.Read(own) // never fails
	w.lease, w.keys = granted.ID, strings.TrimSuffix(w.Prefix, "/")+"/fettle-bench-"+hex.EncodeToString(own)+"/"
	w.series = evidence.Series{Name: "etcd:put", Unit: "ms"}
	return nil
}

// End revokes the lease, which removes all keys.
func (w *Writer) End(ctx context.Context) error {
	if w.lease == "" {
		return nil
	}
	var revoked struct{}
	if err := w.call(ctx, "/v3/lease/revoke", map[string]string{"ID": w.lease}, &revoked); err != nil {
		return fmt.Errorf("cannot remove the keys below %s; etcd removes them within an hour: %w", w.keys, err)
	}
	w.lease = ""
	return nil
}

// slice makes the writes of one slice; of is the number of slices.
func (w *Writer) slice(ctx context.Context, of int) error {
	n := (w.Writes + of - 1) / of
	took := make([]float64, 0, n)
	value := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", w.Value)))
	for range n {
		key := w.keys + strconv.Itoa(len(w.tookS)+len(took))
		var put struct{}
		began := w.Clock.Now()
		err := w.call(ctx, "/v3/kv/put", map[string]string{"key": base64.StdEncoding.EncodeToString([]byte(key)), "value": value, "lease": w.lease}, &put)
		if err != nil {
			return fmt.Errorf("write %d: %w", len(w.tookS)+len(took)+1, err)
		}
		took = append(took, w.Clock.Now().Sub(began).Seconds())
	}
	w.tookS = append(w.tookS, took...)
	return w.series.Add(1000 * stats.Median(took))
}

// Writes summarizes the bench's writes as a client sees them.
type Writes struct {
	N          int     `json:"writes"`
	ValueBytes int     `json:"value_bytes"`
	P50S       float64 `json:"p50_s"`
	// P99S requires 1000 writes.
	P99S  *float64 `json:"p99_s,omitempty"`
	RateS float64  `json:"writes_per_s"`
}

func (w *Writer) sum() *Writes {
	s := &Writes{N: len(w.tookS), ValueBytes: w.Value, P50S: stats.Median(w.tookS)}
	if s.N >= stats.MinForP99 {
		p99 := stats.Quantile(w.tookS, 0.99)
		s.P99S = &p99
	}
	all := 0.0
	for _, t := range w.tookS {
		all += t
	}
	s.RateS = float64(s.N) / max(all, time.Microsecond.Seconds())
	return s
}

// Work writes all keys once and removes them. It returns the median time of a write in seconds. It
// can be repeated.
func (w *Writer) Work(ctx context.Context) (s float64, err error) {
	if err := w.Begin(ctx); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, w.End(context.WithoutCancel(ctx))) }()
	w.tookS = nil
	if err := w.slice(ctx, 1); err != nil {
		return 0, err
	}
	return stats.Median(w.tookS), nil
}
