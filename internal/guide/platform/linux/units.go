package linux

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strconv"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/systemd"
)

// units provides each limit set in the files of a running service, and the limit of the service's
// first process. After a change they differ until daemon-reload and a restart. Items are
// "nginx.service LimitNOFILE".
var units = platform.Source{
	Prefix: "units",
	Sets:   []string{"units"},
	Inputs: inputs("units",
		fact.Input{Name: "*.claimed", Type: fact.Text, Doc: "the hard limit of the effective line, including drop-ins and system.conf"},
		fact.Input{Name: "*.running", Type: fact.Text, Doc: "the hard limit of the first process; a process may raise its own soft limit"},
		fact.Input{Name: "*.same", Type: fact.Truth},
		fact.Input{Name: "*.service", Type: fact.Text},
	),
	Open: func(_ context.Context, s *platform.Subject) platform.Answers {
		t := &platform.Known{}
		running := s.Answer("services.running_units")
		names, ok := running.Value.([]string)
		if !ok {
			t.Rest(running.Unknown)
			return t
		}
		reader := systemd.New(s.Host)
		most := openFilesLimit(s)
		for _, name := range names[:min(len(names), maxUnits)] {
			u, err := reader.Load(name)
			if errors.Is(err, fs.ErrNotExist) {
				continue // a transient unit
			}
			if err != nil {
				unclear(t, name, err.Error())
				continue
			}
			if u.Partial {
				unclear(t, name, "the file of "+name+" is not in this copy")
			}
			for _, l := range limits {
				if claimed, ok := u.Limit(l.unit); ok {
					addLimit(t, u, l.unit, l.kernel, claimed.Hard, claimed.At, most)
				}
			}
		}
		t.Sort()
		return t
	},
}

// unclear makes the limits of a unit unknown.
func unclear(t *platform.Known, name, why string) {
	t.Add("units", name)
	in := "units." + name + "."
	t.Put(fact.Answer{Unknown: why}, in+"claimed", in+"running", in+"same")
}

// maxUnits is the maximum number of inspected services.
const maxUnits = 1024

// limits are the inspected limits, with the kernel's name for each
// (proc_pid_limits(5)).
var limits = []struct{ unit, kernel string }{
	{"NOFILE", "Max open files"}, {"NPROC", "Max processes"}, {"MEMLOCK", "Max locked memory"}, {"CORE", "Max core file size"},
}

// openFilesLimit returns the kernel's maximum for open files, which is the meaning of infinity.
func openFilesLimit(s *platform.Subject) float64 {
	if v, ok := s.Read("sysctl:fs.nr_open", fact.Number).Value.(float64); ok {
		return v
	}
	return math.Inf(1)
}

// addLimit adds one limit of one unit.
func addLimit(t *platform.Known, u *systemd.Unit, name, kernel string, claimed float64, at string, most float64) {
	if name == "NOFILE" {
		claimed = min(claimed, most)
	}
	l, runs, err := u.Running(kernel)
	if err == nil && !runs {
		return // the unit has no process
	}
	item := u.Name + " Limit" + name
	in := "units." + item + "."
	t.Add("units", item)
	t.Give(in+"service", u.Name, at)
	t.Give(in+"claimed", limitText(claimed), at)
	if err != nil {
		why := fact.Answer{Unknown: fmt.Sprintf("unknown with which limits %s runs: %v", u.Name, err), At: at}
		t.Put(why, in+"running", in+"same")
		return
	}
	t.Give(in+"running", limitText(l.Hard), l.At)
	t.Give(in+"same", l.Hard == claimed, at)
}

func limitText(v float64) string {
	if math.IsInf(v, 1) {
		return "unlimited"
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}
