package tune_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/root"
)

// printer is a file that reads differently than it is written, and counts writes.
type printer struct {
	host.Files
	path   string
	prints func(written string) string
	writes *int
}

func (p printer) Store(path string, data []byte) error {
	if path == p.path {
		*p.writes++
		if data = []byte(p.prints(strings.TrimSpace(string(data)))); len(data) == 0 {
			return nil // accepted, and nothing of it shows
		}
	}
	return p.Files.Store(path, data)
}

// TestTextThatReadsOtherwise tests a file whose output format is unknown: fettle compares with the
// value read after its own accepted write, and does not write again.
func TestTextThatReadsOtherwise(t *testing.T) {
	for _, c := range []struct {
		name          string
		prints        func(string) string
		after, drift  plugin.Verdict // right after tune; after another program's write
		first, second string         // why
	}{
		{"another text", func(w string) string { return "mode " + w + "\n" }, plugin.OK, plugin.Unknown, "wrote fast, read back mode fast", "wrote fast, read back mode slow"},
		{"nothing shows", func(string) string { return "" }, plugin.Unknown, plugin.Unknown, "wrote fast, read back mode none, as before", "wrote fast, read back mode slow"},
	} {
		h, dir := fakeMachine(t, sysctls("dev.x", "mode none"))
		writes := 0
		h.Files = printer{h.Files, "/proc/sys/dev/x", c.prints, &writes}
		e := newEngine(t, h)
		verdict := func(when string, want plugin.Verdict, why string) {
			t.Helper()
			s, err := e.State()
			if err != nil {
				t.Fatal(err)
			}
			v, err := e.VerifyInForce(context.Background(), nil, s)
			if err != nil || len(v.Values) != 1 {
				t.Fatal(v, err)
			}
			got := v.Values[0]
			if got.Verdict != want || !strings.HasPrefix(got.Why, why) || v.Met != (want == plugin.OK) {
				t.Errorf("%s, %s: %s (%s), met %v; want %s (%s)", c.name, when, got.Verdict, got.Why, v.Met, want, why)
			}
		}
		a := apply(t, e, journal.Apply, set("dev.x", "fast"))
		if st := a.Plan.Steps[0]; st.Verdict != c.after || st.Why != c.first || a.Result != journal.ResultDone {
			t.Errorf("%s: tune: %s (%s), %s", c.name, st.Verdict, st.Why, a.Result)
		}
		verdict("after tune", c.after, c.first)
		a = apply(t, e, journal.Apply, set("dev.x", "fast"))
		if st := a.Plan.Steps[0]; st.Action != tune.Same || st.Verdict != c.after || writes != 1 {
			t.Errorf("%s: again: %s, %s, %d writes; want it not written again", c.name, st.Action, st.Verdict, writes)
		}
		verdict("after the second", c.after, c.first)
		if err := os.WriteFile(filepath.Join(dir, "proc/sys/dev/x"), []byte("mode slow\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		verdict("changed", c.drift, c.second)
	}
}

// TestFormatsOfTheKernel tests on the running kernel that each value is in force as written, that
// verify agrees, that it is not written again, and that undo restores the text.
func TestFormatsOfTheKernel(t *testing.T) {
	root.Disposable(t)
	e := newEngine(t, host.Live())
	tried := 0
	for _, c := range []struct{ name, value string }{
		{"net.ipv4.ip_local_reserved_ports", "18081,18080,19000-19010"},
		{"kernel.watchdog_cpumask", "1,0"},
		{"net.ipv4.tcp_max_syn_backlog", "04000"},
		{"kernel.printk", "5"},
		{"net.core.rps_sock_flow_entries", "1000"},
		{"fs.pipe-max-size", "1000000"},
		{"net.netfilter.nf_conntrack_buckets", "5000"},
		{"net.ipv4.neigh.default.retrans_time_ms", "1003"},
		{"/sys/kernel/mm/numa/demotion_enabled", "on"},
		{"/sys/kernel/mm/swap/vma_ra_enabled", "0"},
		{"/sys/kernel/mm/ksm/use_zero_pages", "yes"},
		{"/sys/module/printk/parameters/time", "off"},
		{"/sys/kernel/mm/lru_gen/enabled", "n"},
		{"/sys/block/loop0/queue/read_ahead_kb", "17"},
		{"/sys/block/vda/queue/nr_requests", "3"},
		{"/sys/block/vda/queue/wbt_lat_usec", "-1"},
		{"/sys/block/vda/queue/scheduler", "deadline"},
		{"/sys/block/vda/queue/write_cache", "none"},
		{"net.core.rps_default_mask", "01"},
		{"net.ipv4.tcp_fastopen_key", "1-2-3-4"},
	} {
		s, err := setting.Parse(c.name)
		if err != nil {
			t.Fatal(err)
		}
		if s, err = e.Kinds.Resolve(s); err != nil {
			t.Fatal(err)
		}
		before, err := e.Kinds.Read(context.Background(), s)
		if err != nil || before.Absent {
			t.Logf("%s: not on this kernel", c.name)
			continue
		}
		tried++
		change := setting.Change{Setting: s, Want: setting.Text(c.value), Reason: setting.Reason{Text: "test"}}
		a := apply(t, e, journal.Apply, change)
		now := liveRead(t, s)
		if v := a.Plan.Steps[0]; v.Verdict != plugin.OK {
			t.Errorf("%s = %s reads %s (was %s): %s (%s)", c.name, c.value, now, before, v.Verdict, v.Why)
		}
		state, err := e.State()
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range e.Asked(context.Background(), state) {
			if v.Verdict != plugin.OK {
				t.Errorf("%s = %s reads %s: verify: %s (%s)", c.name, c.value, now, v.Verdict, v.Why)
			}
		}
		if a := apply(t, e, journal.Apply, change); a.Plan.Steps[0].Action != tune.Same {
			t.Errorf("%s = %s reads %s: the second time: %s", c.name, c.value, now, a.Plan.Steps[0].Action)
		}
		if a.Tx != 0 {
			undo(t, e)
		}
		if now := liveRead(t, s); now != before.Text {
			t.Errorf("%s: undo left %q, want %q", c.name, now, before.Text)
		}
	}
	if tried < 8 {
		t.Errorf("only %d of the files are on this kernel", tried)
	}
	t.Logf("%d formats", tried)
}

// TestRefusedWriteOfTheKernelIsPutBack tests on the running kernel a sysctl with several numbers,
// which the kernel accepts one by one: a rejected write has changed the first numbers, and fettle
// restores them.
func TestRefusedWriteOfTheKernelIsPutBack(t *testing.T) {
	root.Disposable(t)
	rmem := sysctl("net.ipv4.tcp_rmem")
	before := liveRead(t, rmem)
	t.Cleanup(func() { liveWrite(t, rmem, before) })
	liveWrite(t, rmem, "4096 131072 6291456")
	const bad = "8192 200000 0"
	if err := setting.Kernel(host.Live()).Write(context.Background(), rmem, setting.Text(bad)); err == nil {
		t.Fatalf("this kernel takes %s", bad)
	}
	if got := liveRead(t, rmem); !strings.HasPrefix(got, "8192\t200000\t") {
		t.Logf("a refused write changed nothing here: %s", got)
	}
	liveWrite(t, rmem, "4096 131072 6291456")
	e := newEngine(t, host.Live())
	a := apply(t, e, journal.Apply, set("net.ipv4.tcp_rmem", bad))
	if st := a.Plan.Steps[0]; st.Verdict != plugin.Rejected {
		t.Errorf("%s (%s), want it rejected", st.Verdict, st.Why)
	}
	if got := liveRead(t, rmem); got != "4096\t131072\t6291456" {
		t.Errorf("tcp_rmem is %q: the refused write was not put back", got)
	}
}
