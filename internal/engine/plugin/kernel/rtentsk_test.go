package kernel

import (
	"context"
	"debug/elf"
	"encoding/binary"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/plugin"
)

func TestRtentskPlan(t *testing.T) {
	h, err := host.ParseArchive("x", []byte("fettle archive v1\n"))
	if err != nil {
		t.Fatal(err)
	}
	got := plugin.PlanPlugintest(t, RTEntsk, h, plugin.Unit("rtentsk"))
	if diff := cmp.Diff([]string{"statickey:netstamp_needed_key = open"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestSocket checks this process's descriptors: there is exactly one UDP socket with receive
// timestamps while the value is open.
func TestSocket(t *testing.T) {
	ctx := context.Background()
	k := RtentskKinds(host.Live())[staticKeyKind]
	s, err := k.Resolve(setting.Setting{Kind: staticKeyKind, Name: netTimestamps})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		value setting.Value
		want  string
		open  int
	}{
		{setting.Text("open"), "open", 1},
		{setting.Text("open"), "open", 1},
		{setting.Text("closed"), "closed", 0},
		{setting.Absent, "closed", 0},
		{setting.Text("open"), "open", 1},
		{setting.Absent, "closed", 0},
	} {
		if err := k.Write(ctx, s, step.value); err != nil {
			t.Fatal(err)
		}
		v, err := k.Read(ctx, s)
		if n := timestamping(t); err != nil || v.Text != step.want || n != step.open {
			t.Errorf("after %s: %s, %v, %d sockets; want %s and %d", step.value, v, err, n, step.want, step.open)
		}
	}
	if err := k.Write(ctx, s, setting.Text("ajar")); err == nil {
		t.Error("a value that is neither was taken")
	}
	if _, err := k.Resolve(setting.Setting{Kind: staticKeyKind, Name: "other_key"}); err == nil {
		t.Error("a key that we do not hold was resolved")
	}
}

func timestamping(t *testing.T) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range fds {
		to, _ := os.Readlink("/proc/self/fd/" + e.Name())
		if !strings.HasPrefix(to, "socket:") {
			continue
		}
		var fd int
		for _, c := range e.Name() {
			fd = fd*10 + int(c-'0')
		}
		flags, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPING)
		if err == nil && flags&unix.SOF_TIMESTAMPING_RX_SOFTWARE != 0 {
			n++
		}
	}
	return n
}

// TestKey reads the kernel's memory: the number of users of timestamps (net/core/dev.c,
// netstamp_wanted) increases by one with the socket and decreases when it is closed, and the key is
// enabled in between. The test of package net runs it in its virtual machine.
func TestKey(t *testing.T) {
	if os.Getenv("FETTLE_TEST_IN_VM") == "" {
		t.Skip("is run by TestInVM of package net")
	}
	wanted := func() int32 { return kernelWord(t, "netstamp_wanted") }
	before := wanted()
	t.Logf("wanted %d, key %d", before, kernelWord(t, "netstamp_needed_key"))
	k := RtentskKinds(host.Live())[staticKeyKind]
	s := setting.Setting{Kind: staticKeyKind, Name: netTimestamps}
	for _, step := range []struct {
		value string
		want  int32
	}{{"open", before + 1}, {"closed", before}} {
		if err := k.Write(context.Background(), s, setting.Text(step.value)); err != nil {
			t.Fatal(err)
		}
		// A work queue counts them, and then switches the key.
		key := func() int32 { return kernelWord(t, "netstamp_needed_key") }
		done := func() bool { return wanted() == step.want && (step.want == 0 || key() == 1) }
		for end := time.Now().Add(time.Minute); !done() && time.Now().Before(end); {
			time.Sleep(20 * time.Millisecond)
		}
		t.Logf("%s: wanted %d, key %d", step.value, wanted(), key())
		if got := wanted(); got != step.want {
			t.Errorf("%s: %d want timestamps, want %d", step.value, got, step.want)
		}
		if step.want > 0 && key() != 1 {
			t.Errorf("%s: the key is %d", step.value, key())
		}
	}
}

// kernelWord reads 32 bits of the running kernel at the address of a variable.
func kernelWord(t *testing.T, name string) int32 {
	t.Helper()
	symbols, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		t.Fatal(err)
	}
	var at uint64
	for line := range strings.Lines(string(symbols)) {
		if f := strings.Fields(line); len(f) >= 3 && f[2] == name {
			at, _ = strconv.ParseUint(f[0], 16, 64)
		}
	}
	if at == 0 {
		t.Fatalf("/proc/kallsyms has no address of %s", name)
	}
	core, err := elf.Open("/proc/kcore")
	if err != nil {
		t.Fatal(err)
	}
	defer core.Close()
	for _, p := range core.Progs {
		if p.Type == elf.PT_LOAD && p.Vaddr <= at && at+4 <= p.Vaddr+p.Memsz {
			var b [4]byte
			if _, err := p.ReadAt(b[:], int64(at-p.Vaddr)); err != nil {
				t.Fatal(err)
			}
			return int32(binary.LittleEndian.Uint32(b[:]))
		}
	}
	t.Fatalf("%s at %#x is in no segment of /proc/kcore", name, at)
	return 0
}
