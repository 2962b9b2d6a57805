package scale

import (
	"errors"
	"testing"
	"time"
)

// TestSettleOfWhatIsNeverMade tests that a requested machine is waited for as long as it may take
// to be created and to join, and no longer if no machine is being removed.
func TestSettleOfWhatIsNeverMade(t *testing.T) {
	for _, c := range []struct {
		join, want time.Duration
		goes       bool
	}{
		{15 * time.Second, 45 * time.Second, false},
		{15 * time.Second, 5 * time.Minute, true}, // what goes has its time
		{4*time.Minute + 50*time.Second, 5 * time.Minute, false},
		{20 * time.Minute, 20 * time.Minute, false},
		{0, 10 * time.Minute, false},
	} {
		s := newSim(t, "", 3)
		s.idle = true
		four := int32(4)
		s.sets[0].Spec.Replicas = &four
		if c.goes {
			at := s.machines[0].CreationTimestamp
			s.machines[0].DeletionTimestamp = &at
		}
		r := s.run(Goal{Machines: 5})
		r.JoinTimeout = c.join
		began := s.now
		var not *NotCome
		if err := r.Settle(t.Context()); !errors.As(err, &not) || len(not.Unmade) != 1 || not.Late != c.want {
			t.Errorf("%+v: %v", c, err)
		}
		if took := s.now.Sub(began); took < c.want || took > c.want+10*time.Second {
			t.Errorf("%+v: it waited %s", c, took)
		}
	}
}
