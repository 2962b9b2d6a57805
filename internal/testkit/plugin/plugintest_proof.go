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

// Ground is the environment in which a test has shown that an option works.
type Ground string

// The grounds, strongest first.
const (
	// ThisHost: the value was written to the kernel that the tests run on, and read back.
	ThisHost Ground = "this host"
	// QEMU: as ThisHost, in a virtual machine with the required hardware.
	QEMU Ground = "QEMU"
	// TuneD: the real TuneD and fettle had the same effect on two simulated machines.
	TuneD Ground = "TuneD"
	// FakeTree: the option was planned, or applied and undone, on a tree of plain files.
	FakeTree Ground = "fake tree"
)

// Grounds lists all grounds.
var Grounds = []Ground{ThisHost, QEMU, TuneD, FakeTree}

// InVM is the variable that is set if tests run inside a virtual machine.
const InVM = "FETTLE_TEST_IN_VM"

// ProofFile is the variable that names the file to which tests append what they have proved.
// Each line has ground, plug-in, option and test, separated by tabs. `make proofs` sets it and
// generates the manual's table from the file.
const ProofFile = "FETTLE_PROOF_FILE"

// Here returns the ground of a test that writes to the kernel that it runs on.
func Here() Ground {
	if os.Getenv(InVM) != "" {
		return QEMU
	}
	return ThisHost
}

// Proves records that the test shows, on this ground, that an option works. The record counts
// only if the test passes. Call it after the option's effect has been asserted, not if the
// option is only mentioned.
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
	// A virtual machine has no module; the test that booted it adds the directory.
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
		// Use one write, because packages are tested concurrently.
		_, err = f.WriteString(line)
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if err != nil {
			t.Error(err)
		}
	})
}

// Planned records, for a machine of files, that an option led to items that are written. Tests
// that plan through this package or undotest need no call of their own, except for options that
// control others.
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
