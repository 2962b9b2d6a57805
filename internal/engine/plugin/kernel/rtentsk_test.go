package kernel

import (
	"context"
	"os"
	"strings"
	"testing"

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

// TestSocket looks at this process's descriptors: there is a UDP socket with
// receive timestamps as long as the value is open, and one only.
func TestSocket(t *testing.T) {
	ctx := context.Background()
	k := RtentskKinds(host.Live())[KindName]
	s, err := k.Resolve(setting.Setting{Kind: KindName, Name: Timestamps})
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
	if _, err := k.Resolve(setting.Setting{Kind: KindName, Name: "other_key"}); err == nil {
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
