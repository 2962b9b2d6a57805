package daemon

import (
	"errors"
	"slices"
	"testing"
)

func TestPostponed(t *testing.T) {
	var p postponed
	var done []string
	do := func(name string, err error) {
		p.add(name, func() error { done = append(done, name); return err })
	}
	if p.again != nil || p.run() != nil {
		t.Error("nothing waits, and something is done")
	}
	do("journal", nil)
	do("devices 1", errors.New("no such device"))
	do("journal", nil)
	do("devices 2", nil)
	if !p.wait() || p.wait() || p.again == nil {
		t.Error("the wait begins once")
	}
	if err := p.run(); err == nil || err.Error() != "no such device" {
		t.Errorf("the errors: %v", err)
	}
	if want := []string{"journal", "devices 1", "devices 2"}; !slices.Equal(done, want) {
		t.Errorf("%v, want %v", done, want)
	}
	if p.again != nil || p.run() != nil || len(done) != 3 {
		t.Error("done again")
	}
	do("load", errIdle)
	if err := p.run(); !errors.Is(err, errIdle) {
		t.Errorf("of nothing but idle work: %v", err)
	}
	do("load", errIdle)
	do("journal", nil)
	if err := p.run(); err != nil {
		t.Errorf("idle beside work: %v", err)
	}
}
