package product

import (
	"context"
	"strconv"
	"time"

	"fettle.dev/fettle/internal/host"
)

// Taken says whether a program has read its files since they were last changed.
type Taken int

// What can be told of that by times.
const (
	Unclear Taken = iota // some of its processes are older, some are not
	Yes
	No
)

// slack is what a process's time may be off: a tick of the kernel's clock for
// processes, and what is between two readings.
const slack = 0.015

// settled is after how long two times are told apart.
const settled = 2 * 15 * time.Millisecond

// settle waits for a moment after the last change of some files, so that what is
// started then can be told by its time from what was started before.
func settle(ctx context.Context, h *host.Host, files []string) error {
	for _, f := range files {
		st, err := h.Files.Stat(f)
		if err != nil {
			return err
		}
		rest := st.ModTime().Add(settled).Sub(h.Clock.Now())
		if rest <= 0 || rest > time.Second { // of a file from the future nothing can be told
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

// Since says whether processes that were all started after a reading have read
// what was changed at a time, in seconds since the epoch. A program that reads
// again keeps its main process and replaces the others.
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

// mending is how long whoever copies a machine may take to blot secrets out of the
// files, which changes their times.
const mending = time.Hour

// Changed is the last change of any file of an instance, in seconds since the
// epoch; 0 where one cannot be seen. main names the instance.
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

// FilesOpen is how many files a process of a product has open, of several the
// most; name is the product's. The error is host.Unknown where it is
// not recorded.
func FilesOpen(ctx context.Context, h *host.Host, name string, processes ...Process) (int, error) {
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
