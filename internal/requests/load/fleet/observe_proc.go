package fleet

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact/activity"
)

// Files are the files of a sample, in reading order; a kernel may lack some. Each begins with
// different words, so they can be concatenated.
var Files = []string{"/proc/uptime", "/proc/stat", "/proc/schedstat", "/proc/meminfo", "/proc/net/dev"}

// snapshot holds the state of a machine at one time. Counters count since boot.
type snapshot struct {
	uptime float64 // s
	// times are the times of each processor, and with the name cpu those of all.
	times map[string]activity.CPUTime
	// runnable is the number of running or waiting processes at that time, including the reader.
	runnable int
	// queued is the total time for which tasks ran or waited on each processor, in ns. It is
	// empty if the kernel does not record it.
	queued           []uint64
	memory, free     int64 // bytes; free means available without swapping
	received, posted map[string]uint64
}

// parse reads the concatenated files.
func parse(text []byte) (*snapshot, error) {
	s := &snapshot{memory: -1, free: -1, received: map[string]uint64{}, posted: map[string]uint64{}}
	part := ""
	var stat strings.Builder
	for line := range bytes.Lines(text) {
		words := strings.Fields(string(line))
		if len(words) == 0 {
			continue
		}
		switch {
		case part == "":
			part = "uptime"
			var err error
			if s.uptime, err = strconv.ParseFloat(words[0], 64); err != nil || len(words) != 2 {
				return nil, fmt.Errorf("%q is not the beginning of /proc/uptime", short(line))
			}
			continue
		case words[0] == "cpu":
			part = "stat"
		case words[0] == "version":
			part = "schedstat"
		case words[0] == "MemTotal:":
			part = "meminfo"
		case words[0] == "Inter-|":
			part = "net"
			continue
		}
		var err error
		switch part {
		case "stat":
			stat.Write(line)
			if words[0] == "procs_running" && len(words) == 2 {
				s.runnable, err = strconv.Atoi(words[1])
			}
		case "schedstat":
			err = s.schedstat(words)
		case "meminfo":
			err = s.meminfo(words)
		case "net":
			err = s.net(string(line))
		}
		if err != nil {
			return nil, fmt.Errorf("/proc: %q: %w", short(line), err)
		}
	}
	var err error
	switch s.times, err = activity.ParseCPUTimes(stat.String()); {
	case err != nil:
		return nil, fmt.Errorf("/proc/stat: %w", err)
	case len(s.times) < 2:
		return nil, errors.New("/proc/stat lists no processors")
	case s.memory <= 0 || s.free < 0:
		return nil, errors.New("/proc/meminfo lacks MemTotal or MemAvailable")
	}
	return s, nil
}

func short(line []byte) string { return string(bytes.TrimSpace(line[:min(len(line), 60)])) }

// schedstat parses a line of /proc/schedstat. Numbers 7 and 8 of a processor are the times for
// which tasks ran and waited, in ns (kernel, Documentation/scheduler/sched-stats.rst).
func (s *snapshot) schedstat(words []string) error {
	if !strings.HasPrefix(words[0], "cpu") {
		return nil
	}
	if len(words) < 10 {
		return errors.New("want nine numbers")
	}
	ran, err := strconv.ParseUint(words[7], 10, 64)
	if err != nil {
		return err
	}
	waited, err := strconv.ParseUint(words[8], 10, 64)
	s.queued = append(s.queued, ran+waited)
	return err
}

func (s *snapshot) meminfo(words []string) error {
	var to *int64
	switch words[0] {
	case "MemTotal:":
		to = &s.memory
	case "MemAvailable:":
		to = &s.free
	default:
		return nil
	}
	if len(words) != 3 || words[2] != "kB" {
		return errors.New("want a number of kB")
	}
	n, err := strconv.ParseInt(words[1], 10, 50)
	*to = n << 10
	return err
}

// net parses a line of /proc/net/dev: number 1 is received bytes, number 9 sent bytes.
func (s *snapshot) net(line string) error {
	name, numbers, ok := strings.Cut(line, ":")
	words := strings.Fields(numbers)
	if !ok || len(words) < 16 {
		return nil // second header line
	}
	in, err := strconv.ParseUint(words[0], 10, 64)
	if err != nil {
		return err
	}
	out, err := strconv.ParseUint(words[8], 10, 64)
	name = strings.TrimSpace(name)
	s.received[name], s.posted[name] = in, out
	return err
}
