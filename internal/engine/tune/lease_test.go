package tune_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/ui"
)

// TestLeaseNamesVerb tests that errors and other processes learn which verb has the lease.
func TestLeaseNamesVerb(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	lease, err := tune.Lease(dir, "quiet")
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Close()
	if err := tune.UnderTest(lease, []setting.Setting{{Kind: "sysctl", Name: "vm.swappiness"}}); err != nil {
		t.Fatal(err)
	}
	if x := tune.Holder(dir); x == nil || x.Verb != "quiet" || x.PID != os.Getpid() || x.Name() != "fettle quiet" || !errors.Is(x.Err(), tune.ErrLeased) {
		t.Errorf("%+v", x)
	}
	_, err = tune.Lease(dir, "prove")
	if want := fmt.Sprintf("fettle quiet is in progress: process %d holds the lock ", os.Getpid()); !errors.Is(err, tune.ErrLeased) || ui.Code(err) != ui.Busy || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	if err := tune.Restoring(lease); err != nil {
		t.Fatal(err)
	}
	if x := tune.Holder(dir); !x.Restoring || x.Verb != "quiet" {
		t.Errorf("%+v", x)
	}
	if err := tune.End(lease); err != nil || tune.Holder(dir) != nil {
		t.Errorf("%v, %+v", err, tune.Holder(dir))
	}
}
