package plugin

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/root"
)

// Ground is where a test has shown that an option does what it should.
type Ground string

// The grounds, the strongest first.
const (
	// ThisHost: the value was written to the kernel that the tests run on, and
	// read back.
	ThisHost Ground = "this host"
	// QEMU: the same in a virtual machine that has the hardware.
	QEMU Ground = "QEMU"
	// TuneD: the real TuneD and fettle left the same on two invented machines.
	TuneD Ground = "TuneD"
	// FakeTree: planned, or applied and undone, on a tree of plain files.
	FakeTree Ground = "fake tree"
)

// Grounds lists them all.
var Grounds = []Ground{ThisHost, QEMU, TuneD, FakeTree}

// InVM is the variable that is set where tests run inside a virtual machine.
const InVM = "FETTLE_TEST_IN_VM"

// ProofFile is the variable that names the file to which tests add what they
// have proved, one line each: ground, plug-in, option and test, between tabs.
// `make proofs` sets it and makes the manual's table from the file.
const ProofFile = "FETTLE_PROOF_FILE"

// Here is the ground of a test that writes to the kernel it runs on.
func Here() Ground {
	if os.Getenv(InVM) != "" {
		return QEMU
	}
	return ThisHost
}

// Proves notes that the test shows, on this ground, that an option does what it
// should. It counts only if the test passes. Call it where the effect of the
// option has been asserted, not where it is only mentioned.
func Proves(t testing.TB, ground Ground, plugin, option string) {
	t.Helper()
	file := os.Getenv(ProofFile)
	if file == "" {
		return
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	// Inside a virtual machine there is no module; who booted it knows.
	if os.Getenv(InVM) == "" {
		if dir, err = filepath.Rel(root.Module(t), dir); err != nil {
			t.Fatal(err)
		}
	}
	test, _, _ := strings.Cut(t.Name(), "/")
	line := fmt.Sprintf("%s\t%s\t%s\t%s.%s\n", ground, plugin, option, dir, test)
	t.Cleanup(func() {
		if t.Failed() || t.Skipped() {
			return
		}
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			t.Error(err)
			return
		}
		// One write, because packages are tested side by side.
		_, err = f.WriteString(line)
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if err != nil {
			t.Error(err)
		}
	})
}

// Planned notes, for a machine of files, an option of a unit that led to items
// that are written. Tests that plan through this package or undotest need no
// call of their own, except for options that steer others.
func Planned(t testing.TB, h *host.Host, p plugin.Plugin, given profile.Option, items []plugin.Item) {
	t.Helper()
	if h.Name == host.Live().Name {
		return
	}
	for _, it := range items {
		if it.Verdict == "" {
			Proves(t, FakeTree, p.Name, given.Name)
			return
		}
	}
}
