package tune_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/engine/tune"
)

// A state directory has one daemon at a time, and the second learns which.
func TestOneDaemonAtATime(t *testing.T) {
	dir := stateDir(t)
	first, err := tune.Alive(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = tune.Alive(dir)
	if !errors.Is(err, tune.ErrAlive) || !strings.Contains(err.Error(), fmt.Sprintf("process %d ", os.Getpid())) {
		t.Errorf("a second daemon: %v", err)
	}
	first.Close()
	again, err := tune.Alive(dir)
	if err != nil {
		t.Fatalf("after the first has ended: %v", err)
	}
	again.Close()
}
