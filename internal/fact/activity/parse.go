package activity

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
)

// counter identifies a counter or gauge of the kernel. item is the device, CPU or cgroup, or
// "" for the whole machine.
type counter struct{ name, item string }

// counters holds values in seconds, bytes or numbers of events.
type counters map[counter]float64

func (c counters) set(name string, v float64) { c[counter{name, ""}] = v }
func (c counters) add(name string, v float64) { c[counter{name, ""}] += v }

// errFormat is returned for a text that is not in the kernel's format.
var errFormat = errors.New("not in the format that the kernel writes")

// number parses an unsigned number, hexadecimal an unsigned hexadecimal one.
func number(s string) (float64, error)      { return parseUint(s, 10) }
func hexadecimal(s string) (float64, error) { return parseUint(s, 16) }

func parseUint(s string, base int) (float64, error) {
	n, err := strconv.ParseUint(s, base, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %.40q", errFormat, s)
	}
	return float64(n), nil
}

// numbers parses each word as an unsigned number.
func numbers(words []string) ([]float64, error) {
	out := make([]float64, len(words))
	for i, w := range words {
		n, err := number(w)
		if err != nil {
			return nil, err
		}
		out[i] = n
	}
	return out, nil
}

// parseStat parses /proc/stat (proc_stat(5)): the times of all CPUs and of each CPU, and the
// numbers of runnable and blocked tasks.
func parseStat(text string, c counters) error {
	for line := range strings.Lines(text) {
		w := strings.Fields(line)
		if len(w) == 2 && (w[0] == "procs_running" || w[0] == "procs_blocked" || w[0] == "ctxt") {
			n, err := number(w[1])
			if err != nil {
				return err
			}
			c.set(w[0], n)
		}
	}
	times, err := ParseCPUTimes(text)
	for item, t := range times {
		if item == "cpu" {
			item = ""
		} else {
			c.add("cpus", 1)
		}
		for name, s := range map[string]float64{"total": t.TotalS(), "busy": t.BusyS, "iowait": t.IOWaitS, "softirq": t.SoftIRQS, "steal": t.StealS} {
			c[counter{"cpu." + name, item}] = s
		}
	}
	return err
}

// parseSchedstat parses /proc/schedstat, versions 15 to 17 (Documentation/scheduler/sched-stats.rst):
// the time that tasks waited on the run queues of all CPUs.
func parseSchedstat(text string, c counters) error {
	version, known := "", false
	for line := range strings.Lines(text) {
		w := strings.Fields(line)
		switch {
		case len(w) == 2 && w[0] == "version":
			version = w[1]
		case len(w) >= 10 && strings.HasPrefix(w[0], "cpu"):
			if version != "15" && version != "16" && version != "17" {
				return fmt.Errorf("version %.20q is unknown", version)
			}
			ns, err := number(w[8])
			if err != nil {
				return err
			}
			c.add("sched.delay", ns/1e9)
			known = true
		}
	}
	if !known {
		return errFormat
	}
	return nil
}

// parsePressure returns a parser for a file of pressure stall information.
func parsePressure(resource, item string) func(string, counters) error {
	return func(text string, c counters) error {
		lines, err := ParsePressure(text)
		for kind, p := range lines {
			c[counter{"pressure." + resource + "." + kind, item}] = p.TotalS
			c[counter{"pressure." + resource + "." + kind + ".avg300", item}] = p.Avg300Percent
		}
		return err
	}
}

// parseKeyed returns a parser for lines of "name number". names maps the names to keep to
// counters; several names with the same counter are added up.
func parseKeyed(names map[string]string, item string, scale float64) func(string, counters) error {
	return func(text string, c counters) error {
		values, bad := ParseKeyed(text)
		if len(values) == 0 {
			return errFormat
		}
		for from, to := range names {
			if word, is := bad[from]; is {
				return fmt.Errorf("%w: %.40q", errFormat, word)
			}
			if n, ok := values[from]; ok {
				c[counter{to, item}] += n * scale
			}
		}
		return nil
	}
}

// vmEvents maps names in /proc/vmstat to counters.
var vmEvents = map[string]string{
	"pswpin": "swap.in", "pswpout": "swap.out", "oom_kill": "oom_kills", "pgmajfault": "major_faults",
	"allocstall_dma": "reclaims", "allocstall_dma32": "reclaims", "allocstall_normal": "reclaims", "allocstall_movable": "reclaims",
}

// parseDiskstats parses /proc/diskstats (Documentation/admin-guide/iostats.rst) with 14
// fields, or more with discards (4.18) and flushes (5.5).
func parseDiskstats(text string, c counters) error {
	return eachLine(text, 14, func(w []string) error {
		n, err := numbers(w[3:14])
		if err != nil {
			return err
		}
		for name, v := range map[string]float64{"ios": n[0] + n[4], "wait": (n[3] + n[7]) / 1e3, "busy": n[9] / 1e3, "queue": n[10] / 1e3} {
			c[counter{"disk." + name, w[2]}] = v
		}
		return nil
	})
}

// eachLine calls use with the words of each line that has at least least words. It returns an error
// if no line has.
func eachLine(text string, least int, use func(words []string) error) error {
	known := false
	for line := range strings.Lines(text) {
		w := strings.Fields(line)
		if len(w) < least {
			continue
		}
		if err := use(w); err != nil {
			return err
		}
		known = true
	}
	if !known {
		return errFormat
	}
	return nil
}

// parseSoftnet parses /proc/net/softnet_stat (net/core/net-procfs.c). It has a line of
// hexadecimal numbers for each CPU: packets, dropped packets, and how often the budget was
// used up.
func parseSoftnet(text string, c counters) error {
	sum := counters{}
	err := eachLine(text, 3, func(w []string) error {
		for i, name := range []string{"softnet.packets", "softnet.dropped", "softnet.squeezed"} {
			n, err := hexadecimal(w[i])
			if err != nil {
				return err
			}
			sum.add(name, n)
		}
		return nil
	})
	if err == nil {
		maps.Copy(c, sum)
	}
	return err
}

// parseNetDev parses /proc/net/dev.
func parseNetDev(text string, c counters) error {
	known := false
	for line := range strings.Lines(text) {
		name, rest, ok := strings.Cut(line, ":")
		w := strings.Fields(rest)
		if !ok || len(w) < 16 {
			continue
		}
		n, err := numbers(w[:16])
		if err != nil {
			return err
		}
		item := strings.TrimSpace(name)
		c[counter{"net.packets", item}] = n[1] + n[9]
		c[counter{"net.dropped", item}] = n[3] + n[11]
		c[counter{"net.errors", item}] = n[2] + n[10]
		known = true
	}
	if !known {
		return errFormat
	}
	return nil
}

// parseSNMP returns a parser for one group of /proc/net/snmp or /proc/net/netstat: a line of
// names and a line of values (Documentation/networking/snmp_counter.rst).
func parseSNMP(group string, names map[string]string) func(string, counters) error {
	return func(text string, c counters) error {
		var heads []string
		for line := range strings.Lines(text) {
			w := strings.Fields(line)
			if len(w) == 0 || w[0] != group+":" {
				continue
			}
			if heads == nil {
				heads = w
				continue
			}
			if len(w) != len(heads) {
				return errFormat
			}
			for i, head := range heads {
				name, wanted := names[head]
				if !wanted {
					continue
				}
				n, err := number(w[i])
				if err != nil {
					return err
				}
				c.set(name, n)
			}
			return nil
		}
		return errFormat
	}
}

// parseConntrack parses /proc/net/stat/nf_conntrack: a line of names, and a line of
// hexadecimal numbers for each CPU. The columns depend on the kernel.
func parseConntrack(text string, c counters) error {
	var heads []string
	known := false
	for line := range strings.Lines(text) {
		w := strings.Fields(line)
		if heads == nil {
			heads = w
			continue
		}
		if len(w) != len(heads) {
			return errFormat
		}
		for i, head := range heads {
			if head != "drop" && head != "early_drop" && head != "insert_failed" {
				continue
			}
			n, err := hexadecimal(w[i])
			if err != nil {
				return err
			}
			c.add("conntrack.dropped", n)
			known = true
		}
	}
	if !known {
		return errFormat
	}
	return nil
}

func parseFileNr(text string, c counters) error {
	used, limit, err := ParseFileNr(text)
	c.set("files.used", used)
	c.set("files.limit", limit)
	return err
}

// parseLoadavg parses the number of tasks in /proc/loadavg: "0.20 0.18 0.12 1/80 11206".
func parseLoadavg(text string, c counters) error {
	w := strings.Fields(text)
	if len(w) != 5 {
		return errFormat
	}
	_, tasks, ok := strings.Cut(w[3], "/")
	n, err := number(tasks)
	if !ok || err != nil {
		return errFormat
	}
	c.set("tasks.used", n)
	return nil
}

// parseFirst returns a parser for a file whose first word is a number.
func parseFirst(name, item string) func(string, counters) error {
	return func(text string, c counters) error {
		first, _, _ := strings.Cut(strings.TrimSpace(text), " ")
		n, err := strconv.ParseFloat(first, 64)
		if err != nil || !(n >= 0 && n < 1<<63) {
			return errFormat
		}
		c[counter{name, item}] = n
		return nil
	}
}
