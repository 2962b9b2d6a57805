package linux

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"

	"fettle.dev/fettle/internal/component/unit"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/platform"
	"fettle.dev/fettle/internal/rule"
)

// units has each limit that the files of a running service ask for, and what its
// first process runs with: a change needs daemon-reload and a restart. Items are
// "nginx.service LimitNOFILE".
var units = platform.Source{
	Prefix: "units",
	Sets:   []string{"units"},
	Inputs: inputs("units",
		rule.Input{Name: "*.claimed", Type: rule.Text, Doc: "the hard limit of the last line that counts, drop-ins and system.conf included"},
		rule.Input{Name: "*.running", Type: rule.Text, Doc: "the hard limit of the first process; a process may raise its soft one itself"},
		rule.Input{Name: "*.same", Type: rule.Truth},
		rule.Input{Name: "*.service", Type: rule.Text},
	),
	Open: func(_ context.Context, s *platform.Subject) platform.Answers {
		t := newTold()
		running := s.Answer("services.running_units")
		names, ok := running.Value.([]string)
		if !ok {
			t.unknown = running.Unknown
			return t
		}
		reader := unit.New(s.Host)
		most := openFilesLimit(s)
		for _, name := range names[:min(len(names), maxUnits)] {
			u, err := reader.Load(name)
			if errors.Is(err, fs.ErrNotExist) && !errors.Is(err, host.ErrNotRecorded) {
				continue // a transient unit
			}
			if err != nil {
				t.unclear(name, err.Error())
				continue
			}
			if u.Partial {
				t.unclear(name, "the file of "+name+" is not in this copy")
			}
			for _, l := range limits {
				if claimed, ok := u.Limit(l.unit); ok {
					t.limit(u, l.unit, l.kernel, claimed.Hard, claimed.At, most)
				}
			}
		}
		slices.Sort(t.items["units"])
		return t
	},
}

// unclear says why nobody knows what a unit asks for.
func (t *told) unclear(name, why string) {
	t.add("units", name)
	for _, input := range []string{".claimed", ".running", ".same"} {
		t.answers["units."+name+input] = rule.Answer{Unknown: why}
	}
}

// maxUnits bounds the services that are looked at.
const maxUnits = 1024

// limits are those that guidance is about, with the kernel's name for each
// (proc_pid_limits(5)).
var limits = []struct{ unit, kernel string }{
	{"NOFILE", "Max open files"}, {"NPROC", "Max processes"}, {"MEMLOCK", "Max locked memory"}, {"CORE", "Max core file size"},
}

// openFilesLimit is what the kernel allows at most, which infinity stands for.
func openFilesLimit(s *platform.Subject) float64 {
	if v, ok := s.Read("sysctl:fs.nr_open", rule.Number).Value.(float64); ok {
		return v
	}
	return math.Inf(1)
}

// limit gives one limit of one unit.
func (t *told) limit(u *unit.Unit, name, kernel string, claimed float64, at string, most float64) {
	if name == "NOFILE" {
		claimed = min(claimed, most)
	}
	l, runs, err := u.Running(kernel)
	if err == nil && !runs {
		return // it has no process at the moment
	}
	item := u.Name + " Limit" + name
	in := "units." + item + "."
	t.add("units", item)
	t.give(in+"service", u.Name, at)
	t.give(in+"claimed", limitText(claimed), at)
	if err != nil {
		why := rule.Answer{Unknown: fmt.Sprintf("the limits that %s runs with: %v", u.Name, err), At: at}
		t.answers[in+"running"], t.answers[in+"same"] = why, why
		return
	}
	t.give(in+"running", limitText(l.Hard), l.At)
	t.give(in+"same", l.Hard == claimed, at)
}

func limitText(v float64) string {
	if math.IsInf(v, 1) {
		return "unlimited"
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}
