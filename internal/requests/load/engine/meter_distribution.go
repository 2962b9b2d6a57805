package engine

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Distribution collects times. It is safe for concurrent use.
type Distribution struct {
	most int64

	mu    sync.Mutex
	times *hdrhistogram.PackedHistogram
}

// NewDistribution returns a distribution of times up to most; longer ones count as most.
func NewDistribution(most time.Duration) *Distribution {
	return &Distribution{most: int64(most), times: hdrhistogram.NewPacked(int64(Resolution), int64(most), Digits)}
}

// Add adds a time to the distribution.
func (d *Distribution) Add(t time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_ = d.times.RecordValue(min(max(0, int64(t)), d.most))
}

// Times returns a summary of the distribution.
func (d *Distribution) Times() Times {
	d.mu.Lock()
	defer d.mu.Unlock()
	return times(d.times)
}

// Percentile returns a percentile in seconds, or 0 if there are no times.
func (d *Distribution) Percentile(p float64) float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.times.TotalCount() == 0 {
		return 0
	}
	return seconds(d.times.ValueAtPercentile(p))
}

// Encoded returns the distribution in nanoseconds, in the form of Total.Encoded.
func (d *Distribution) Encoded() (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	text, err := d.times.EncodeV2()
	return string(text), err
}

// Merge adds the times of another distribution, in the form of Encoded.
func (d *Distribution) Merge(encoded string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return into(d.times.MergeFrom, encoded)
}

// Include adds the times of another distribution, which must not change meanwhile.
func (d *Distribution) Include(o *Distribution) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.times.Merge(o.times)
}
