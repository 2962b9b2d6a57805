package redis

import (
	"errors"
	"testing"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
)

func TestWaits(t *testing.T) {
	now := time.Unix(1700000000, 0)
	for job, want := range map[string]float64{
		`{"enqueued_at":1699999940.5}`:  59.5,
		`{"enqueued_at":1699999940000}`: 60,
		`{"enqueued_at":1700000900}`:    0,
		`{"created_at":1}`:              -1,
		`no json`:                       -1,
		``:                              0,
	} {
		if got := waits(job, now); got != want {
			t.Errorf("%s: %v, want %v", job, got, want)
		}
	}
}

func TestQueuesElsewhere(t *testing.T) {
	h := machine.Mounted(t, map[string]string{"/etc/redis/redis.conf": "port 6379\n"})
	for address, want := range map[string]error{
		"redis://192.0.2.1:6379/6": errElsewhere, "redis://db.example.com/6": errElsewhere, "redis://localhost:6379/6": host.ErrNotRecorded,
	} {
		if _, err := Queues(t.Context(), h, address); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", address, err, want)
		}
	}
	for _, address := range []string{"rediss://localhost/6", "redis://localhost/x", "redis://localhost/-1", ":", ""} {
		if _, err := Queues(t.Context(), h, address); err == nil || host.Unknown(err) {
			t.Errorf("%s: %v", address, err)
		}
	}
}
