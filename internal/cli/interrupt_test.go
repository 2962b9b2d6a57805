package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Ctrl-C at any moment of a tune ends with the machine as it was, and with words
// that say so.
func TestInterruptedTune(t *testing.T) {
	machine := filepath.Join(t.TempDir(), "machine")
	unpack(t, "../../testdata/hosts/kvm-guest.txt", machine)
	if err := withoutTuneD(machine); err != nil {
		t.Fatal(err)
	}
	swappiness := filepath.Join(machine, "proc/sys/vm/swappiness")
	for _, c := range []struct {
		name   string
		at     func(point string) bool // where it is pressed; nil: before the start
		say    string
		output string
	}{
		{"before anything", nil, "fettle: interrupted", ""},
		{"after the first write", func(p string) bool { return strings.HasPrefix(p, "write:") && strings.HasSuffix(p, ":after") },
			"fettle: interrupted; all values of transaction 1 restored\n", "✗ rolled back: transaction 1, 0 values written"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sys := standIn(machine)
			sys.stateDir = filepath.Join(t.TempDir(), "state")
			ctx, press := context.WithCancel(context.Background())
			defer press()
			sys.crashPoint = func(point string) {
				if c.at != nil && c.at(point) {
					press()
				}
			}
			if c.at == nil {
				press()
			}
			var out, said strings.Builder
			if code := sys.run(ctx, "test", []string{"tune", "--set", "vm.swappiness=11", "--set", "vm.dirty_ratio=33"}, &out, &said); code != 130 {
				t.Errorf("exit code %d, want 130", code)
			}
			if !strings.HasPrefix(said.String(), c.say) || strings.Contains(said.String(), "cancel") {
				t.Errorf("said %q, want %q", said.String(), c.say)
			}
			if !strings.Contains(out.String(), c.output) {
				t.Errorf("printed %q, want %q in it", out.String(), c.output)
			}
			if b, err := os.ReadFile(swappiness); err != nil || strings.TrimSpace(string(b)) != "60" {
				t.Errorf("vm.swappiness is %q now (%v)", b, err)
			}
		})
	}
}
