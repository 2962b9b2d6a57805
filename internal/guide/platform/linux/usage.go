package linux

import (
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact"
	kernel "fettle.dev/fettle/internal/fact/activity"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/host"
	internaltext "fettle.dev/fettle/internal/text"
)

// usage provides the number of file handles in use on the machine, and the limit
// (Documentation/admin-guide/sysctl/fs.rst, file-nr).
var usage = platform.Source{
	Prefix: "usage",
	Inputs: inputs("usage",
		fact.Input{Name: "files_open", Type: fact.Number, Doc: "file handles in use"},
		fact.Input{Name: "files_max", Type: fact.Number, Doc: "limit of file handles (fs.file-max)"},
	),
	Open: live(func(h *host.Host) *platform.Known {
		const file = "/proc/sys/fs/file-nr"
		t := &platform.Known{}
		text, why, ok := read(h, file)
		if !ok {
			t.Put(why, "usage.files_open", "usage.files_max")
			return t
		}
		open, limit, err := kernel.ParseFileNr(text)
		if err != nil {
			bad := fact.Answer{Unknown: file + " is " + strconv.Quote(clip(text)) + ", not three numbers", At: file}
			t.Put(bad, "usage.files_open", "usage.files_max")
			return t
		}
		t.Give("usage.files_open", open, file)
		t.Give("usage.files_max", limit, file)
		return t
	}),
}

func clip(text string) string { return internaltext.Truncate(strings.TrimSpace(text), 60) }

// pressure provides the share of the last five minutes in which tasks waited, in percent
// (Documentation/accounting/psi.rst).
var pressure = platform.Source{
	Prefix: "pressure",
	Inputs: inputs("pressure",
		fact.Input{Name: "cpu_some_percent", Type: fact.Number, Unit: "%", Doc: "at least one task waited for a CPU"},
		fact.Input{Name: "memory_some_percent", Type: fact.Number, Unit: "%", Doc: "at least one task waited for memory"},
		fact.Input{Name: "memory_full_percent", Type: fact.Number, Unit: "%", Doc: "all tasks waited for memory"},
		fact.Input{Name: "io_some_percent", Type: fact.Number, Unit: "%", Doc: "at least one task waited for a disk"},
		fact.Input{Name: "io_full_percent", Type: fact.Number, Unit: "%", Doc: "all tasks waited for a disk"},
	),
	Open: live(func(h *host.Host) *platform.Known {
		t := &platform.Known{}
		for _, resource := range []string{"cpu", "memory", "io"} {
			file := "/proc/pressure/" + resource
			text, why, ok := read(h, file)
			if !ok {
				if why.Unknown != "" && strings.Contains(why.Unknown, "operation not supported") {
					why = fact.Answer{At: file} // built in but disabled: psi=0
				}
				t.Put(why, "pressure."+resource+"_some_percent", "pressure."+resource+"_full_percent")
				continue
			}
			lines, _ := kernel.ParsePressure(text)
			for _, kind := range []string{"some", "full"} {
				if p, ok := lines[kind]; ok {
					t.Give("pressure."+resource+"_"+kind+"_percent", p.Avg300Percent, file)
				} else if kind == "some" || resource != "cpu" || strings.Contains(text, kind) { // kernels before 5.13 have no full for CPUs
					t.Unclear("pressure."+resource+"_"+kind+"_percent", file, file+": cannot read "+strconv.Quote(clip(text)))
				}
			}
		}
		return t
	}),
}

// activity provides kernel counters since boot (/proc/vmstat).
var activity = platform.Source{
	Prefix: "activity",
	Inputs: inputs("activity",
		fact.Input{Name: "swap_pages_per_s", Type: fact.Number, Doc: "pages read from and written to swap, the mean since the start"},
		fact.Input{Name: "swapped_pages", Type: fact.Number, Doc: "pages read from and written to swap since the start"},
		fact.Input{Name: "oom_kills", Type: fact.Number, Doc: "processes that the kernel killed for lack of memory since the start (counted since Linux 4.13)"},
		fact.Input{Name: "uptime_s", Type: fact.Number, Unit: "s"},
	),
	Open: live(func(h *host.Host) *platform.Known {
		const file, uptime = "/proc/vmstat", "/proc/uptime"
		t := &platform.Known{}
		text, why, ok := read(h, file)
		if !ok {
			t.Put(why, "activity.swap_pages_per_s", "activity.swapped_pages", "activity.oom_kills")
			return t
		}
		counted, bad := kernel.ParseKeyed(text)
		for input, names := range map[string][]string{"oom_kills": {"oom_kill"}, "swapped_pages": {"pswpin", "pswpout"}, "swap_pages_per_s": {"pswpin", "pswpout"}} {
			for _, name := range names {
				switch word, isBad := bad[name]; {
				case isBad:
					t.Unclear("activity."+input, file, file+": "+name+" is "+strconv.Quote(clip(word))+", not a number")
				case counted["nr_free_pages"] == 0 && len(counted) < 2: // every kernel has more
					t.Unclear("activity."+input, file, file+" is empty or truncated")
				}
			}
		}
		if n, ok := counted["oom_kill"]; ok {
			t.Give("activity.oom_kills", n, file)
		}
		in, ok1 := counted["pswpin"]
		out, ok2 := counted["pswpout"]
		if !ok1 || !ok2 {
			return t // a kernel without swap
		}
		t.Give("activity.swapped_pages", in+out, file)
		up, why, ok := read(h, uptime)
		if !ok {
			t.Put(why, "activity.swap_pages_per_s", "activity.uptime_s")
			return t
		}
		first, _, _ := strings.Cut(up, " ")
		if s, err := strconv.ParseFloat(strings.TrimSpace(first), 64); err == nil && s > 0 && s <= 1<<53 {
			t.Give("activity.uptime_s", s, uptime)
			t.Give("activity.swap_pages_per_s", (in+out)/s, file)
		} else {
			bad := fact.Answer{Unknown: uptime + " is " + strconv.Quote(clip(up)) + ", which does not begin with a time", At: uptime}
			t.Put(bad, "activity.swap_pages_per_s", "activity.uptime_s")
		}
		return t
	}),
}
