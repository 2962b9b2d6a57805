package profile

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// NumaBalance says which processes the daemon moves between NUMA nodes, and how often it looks.
type NumaBalance struct {
	// Processes are names, units, containers, guests or pods; AllProcesses for all, nil for none.
	Processes []string
	// Exclude are those that are left alone.
	Exclude []string
	// Min is the interval after a pass that has moved a process, Max the longest one.
	Min, Max time.Duration
}

// AllProcesses is the value of numa_balance for all processes.
const AllProcesses = "all"

// On reports whether the daemon moves processes.
func (n *NumaBalance) On() bool { return len(n.Processes) > 0 }

// All reports whether all processes are considered.
func (n *NumaBalance) All() bool { return slices.Equal(n.Processes, []string{AllProcesses}) }

// Words returns which processes are considered, for messages.
func (n *NumaBalance) Words() string {
	if n.All() {
		return "all processes"
	}
	return strings.Join(n.Processes, ", ")
}

func setNumaBalance(c *MainConfig, v string) error {
	const want = "all, or a list of process names, units, containers, guests or pods; 0 turns it off"
	words := listOf(v)
	if len(words) == 1 {
		switch strings.ToLower(words[0]) {
		case "0", "no", "false", "off":
			words = nil
		case "1", "yes", "true", "on":
			return errors.New("expected " + want)
		}
	}
	if len(words) > 1 && slices.Contains(words, AllProcesses) {
		return errors.New(`expected "all" alone, or a list without it`)
	}
	c.NumaBalance.Processes = words
	return noNumbers(words)
}

func setNumaExclude(c *MainConfig, v string) error {
	c.NumaBalance.Exclude = listOf(v)
	return noNumbers(c.NumaBalance.Exclude)
}

// noNumbers rejects process numbers (at most 4194304, proc_sys_kernel(5)).
func noNumbers(words []string) error {
	for _, w := range words {
		if n, err := strconv.Atoi(w); err == nil && n <= 1<<22 {
			return fmt.Errorf("%q is a process number, which changes with every start; expected a name or a unit", w)
		}
	}
	return nil
}

// setNumaInterval reads numad's [MIN:]MAX in seconds. Without MIN it is 5 s, or MAX if that is less.
func setNumaInterval(c *MainConfig, v string) error {
	low, high, both := strings.Cut(v, ":")
	if !both {
		low, high = "5", low
	}
	shortest, err := strconv.Atoi(strip(low))
	longest, err2 := strconv.Atoi(strip(high))
	if !both {
		shortest = min(shortest, longest)
	}
	if err != nil || err2 != nil || shortest < 1 || longest < shortest || longest > 86400 {
		return errors.New("expected seconds as [MIN:]MAX, 1 to 86400, such as 5:15")
	}
	c.NumaBalance.Min, c.NumaBalance.Max = time.Duration(shortest)*time.Second, time.Duration(longest)*time.Second
	return nil
}
