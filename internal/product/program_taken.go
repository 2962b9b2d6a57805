package product

import (
	"context"
	"strconv"
	"time"

	"fettle.dev/fettle/internal/host"
)

// Taken is the answer whether a program has read its files since their last change, as far as
// times show it.
type Taken int

// The values of Taken.
const (
	Unclear Taken = iota // some of its processes are older than the change, some are not
	Yes
	No
)

// slack is the error of a process's start time in seconds: a tick of the kernel's clock, and
// the time between two readings.
const slack = 0.015

// settled is the difference from which on two times are distinct.
const settled = 2 * 15 * time.Millisecond

// settle waits until the last change of the files is at least settled ago, so that the start
// times of processes show which were started after it.
func settle(ctx context.Context, h *host.Host, files []string) error {
	for _, f := range files {
		st, err := h.Files.Stat(f)
		if err != nil {
			return err
		}
		rest := st.ModTime().Add(settled).Sub(h.Clock.Now())
		if rest <= 0 || rest > time.Second { // a file from the future
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(rest):
		}
	}
	return nil
}

// Since returns whether processes have read files that were changed at a time, in seconds since
// the epoch. A program that reads its files again keeps its main process and replaces the
// others.
func Since(changedS float64, main Process, children []Process) Taken {
	if main.StartedS == 0 || changedS == 0 {
		return Unclear
	}
	if main.StartedS > changedS {
		return Yes
	}
	oldest, newest := main.StartedS, main.StartedS
	for i, c := range children {
		if i == 0 || c.StartedS < oldest {
			oldest = c.StartedS
		}
		newest = max(newest, c.StartedS)
	}
	switch {
	case oldest > changedS:
		return Yes
	case newest+max(slack, main.WithinS) < changedS:
		return No
	}
	return Unclear
}

// mending is the time that the redaction of secrets in a copy of a machine may take. It changes
// the times of files.
const mending = time.Hour

// Changed returns the last change of any file of an instance, in seconds since the epoch, or 0
// if unknown. main is the instance's main file.
func Changed(ctx context.Context, h *host.Host, main string, files []string) float64 {
	last, err := host.QueryJSON(ctx, h, "last change of "+main+" and what it includes", func(_ context.Context, live *host.Host) (float64, error) {
		last := 0.0
		for _, f := range files {
			st, err := live.Files.Stat(f)
			if err != nil {
				return 0, err
			}
			if !live.Live && st.ModTime().After(live.Clock.Now().Add(-mending)) {
				return 0, host.NotRecorded("the last change of " + f)
			}
			last = max(last, float64(st.ModTime().UnixNano())/1e9)
		}
		return last, nil
	})
	if err != nil {
		return 0
	}
	return last
}

// filesOpen returns the number of open files of the process with the most. name is the
// product's. The error is host.Unknown if they are not recorded.
func filesOpen(ctx context.Context, h *host.Host, name string, processes ...Process) (int, error) {
	return host.QueryJSON(ctx, h, "open files of "+name, func(_ context.Context, live *host.Host) (int, error) {
		most := 0
		for _, p := range processes {
			open, err := live.Files.ReadDir("/proc/" + strconv.Itoa(p.PID) + "/fd")
			if err != nil {
				return 0, err
			}
			most = max(most, len(open))
		}
		return most, nil
	})
}
