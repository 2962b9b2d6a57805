package product

import (
	"context"
	"strconv"
	"time"

	"fettle.dev/fettle/internal/host"
)

// Taken is the answer to the question whether a program has read its files since their last change.
// It is derived from times only.
type Taken int

// The values of Taken.
const (
	Unclear Taken = iota // only some of its processes are older than the change
	Yes
	No
)

// slack is the possible error of a process's start time, in seconds: one clock tick and the time
// between two readings.
const slack = 0.015

// settled is the minimum difference of two distinguishable times.
const settled = 2 * 15 * time.Millisecond

// settle waits until the last change of the files is at least settled ago. Start times then show
// which processes started after the change.
func settle(ctx context.Context, h *host.Host, files []string) error {
	for _, f := range files {
		st, err := h.Files.Stat(f)
		if err != nil {
			return err
		}
		rest := st.ModTime().Add(settled).Sub(h.Clock.Now())
		if rest <= 0 || rest > time.Second { // the file's time is in the future
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

// Since returns whether processes have read files that changed at changedS, in seconds since the
// epoch. A reload keeps the main process and replaces its children.
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

// mending is the time that redacting secrets in a copied machine may take, which changes file
// times.
const mending = time.Hour

// Changed returns the time of the last change of an instance's files, in seconds since the epoch; 0
// if unknown. main is its main file.
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

// filesOpen returns the largest number of open files of any of the processes. name is the
// product's, for messages. The error is host.Unknown if the numbers are not recorded.
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
