package vm

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/testkit/root"
)

// consoleTail is the number of bytes of the console that a report about an unresponsive machine
// quotes. The test's log has all of it.
const consoleTail = 4096

// errWedged is returned if the emulator has lost a CPU's wake-up during the boot: observed with
// QEMU 7.2, TCG with a thread for each CPU, on processors that were not idle. A CPU sleeps with
// the timer's bit in its IRR, and others spin forever until it answers.
var errWedged = errors.New("the emulator has lost a CPU")

// mostBoots limits the attempts to boot a machine.
const mostBoots = 3

// lockup matches the message of the kernel's watchdog about a CPU that does not schedule.
var lockup = regexp.MustCompile(`watchdog: BUG: soft lockup - CPU#\d+ stuck for (\d+)s!`)

// stuckFor is the time after which a stuck CPU is given up. A CPU that a busy host delays
// recovers earlier.
const stuckFor = 100 * time.Second

// blocked matches the kernel's message about a task that has waited without being woken:
// observed in a boot on busy processors for systemd and all its mounts, while every CPU slept.
var blocked = regexp.MustCompile(`INFO: task systemd:1 blocked for more than (\d+) seconds`)

// blockedFor is the time until process 1 counts as blocked; the kernel checks every 120 s.
const blockedFor = 240 * time.Second

// wedged reports whether a console shows that a CPU, or process 1, will not recover.
func wedged(console string) bool {
	for _, m := range blocked.FindAllStringSubmatch(console, -1) {
		if s, err := strconv.Atoi(m[1]); err == nil && time.Duration(s)*time.Second >= blockedFor {
			return true
		}
	}
	for _, m := range lockup.FindAllStringSubmatch(console, -1) {
		if s, err := strconv.Atoi(m[1]); err == nil && time.Duration(s)*time.Second >= stuckFor {
			return true
		}
	}
	return false
}

// watch monitors the console of a booting machine, and cuts the power if it is wedged. The
// returned function ends that, and returns the machine's state at that time.
func (vm *VM) watch() (end func() string) {
	before := len(vm.Console())
	over, ended := make(chan struct{}), make(chan struct{})
	var state string
	go func() {
		defer close(ended)
		for {
			select {
			case <-over:
				return
			case <-time.After(time.Second):
			}
			if console := vm.Console(); wedged(console[min(before, len(console)):]) {
				state = vm.state()
				vm.Kill()
				return
			}
		}
	}()
	return func() string {
		close(over)
		<-ended
		return state
	}
}

// state describes an unresponsive machine, so that the reason can be found afterwards: the
// emulator's status, the position and pending interrupts of each CPU, and the kernel's report
// on its tasks. It takes up to two minutes and never fails.
func (vm *VM) state() string {
	if !vm.Running() {
		return "the machine is switched off"
	}
	var b strings.Builder
	if vm.monitor == nil {
		b.WriteString("qemu has not opened its monitor\n")
	} else {
		status, err := vm.monitor.execute("query-status", nil)
		fmt.Fprintf(&b, "qemu says: %s%s\n", status, because(err))
		registers, err := vm.human("info registers -a")
		fmt.Fprintf(&b, "CPUs:%s\n%s", because(err), whereCPUs(registers, vm.symbols()))
		for cpu := range 4 {
			// A CPU that sleeps with an acceptable bit in IRR has lost its wake-up: the
			// emulator's fault, not the guest's.
			lapic, err := vm.human(fmt.Sprintf("info lapic %d", cpu))
			fmt.Fprintf(&b, "interrupts of CPU %d:%s\n%s", cpu, because(err), indent(lapic))
		}
		if err := vm.dumpTasks(); err != nil {
			fmt.Fprintf(&b, "the kernel was not asked for its tasks: %v\n", err)
		}
	}
	vm.mu.Lock()
	boot := vm.bootID
	vm.mu.Unlock()
	if boot == "" {
		b.WriteString("the agent has not greeted since the machine was switched on\n")
	} else {
		fmt.Fprintf(&b, "the agent has greeted, boot id %s\n", boot)
	}
	console := vm.Console()
	if len(console) > consoleTail {
		console = "..." + console[len(console)-consoleTail:]
	}
	fmt.Fprintf(&b, "end of the console:\n%s", indent(console))
	return b.String()
}

// human runs a command of QEMU's monitor for people.
func (vm *VM) human(command string) (string, error) {
	answer, err := vm.monitor.execute("human-monitor-command", map[string]any{"command-line": command})
	if err != nil {
		return "", err
	}
	var text string
	err = json.Unmarshal(answer, &text)
	return strings.ReplaceAll(text, "\r\n", "\n"), err
}

// dumpTasks presses the keys that make the kernel print to its console what its CPUs do and
// where its tasks wait (Documentation/admin-guide/sysrq.rst; 9 makes it print everything). It
// returns when nothing has been printed for some seconds.
func (vm *VM) dumpTasks() error {
	for _, key := range []string{"9", "l", "w", "t"} {
		var keys []map[string]string
		for _, k := range []string{"alt", "sysrq", key} {
			keys = append(keys, map[string]string{"type": "qcode", "data": k})
		}
		if _, err := vm.monitor.execute("send-key", map[string]any{"keys": keys, "hold-time": 100}); err != nil {
			return err
		}
		length, since := len(vm.Console()), time.Now()
		root.Eventually(30*time.Second, func() bool {
			if now := len(vm.Console()); now != length {
				length, since = now, time.Now()
			}
			return time.Since(since) > 5*time.Second || !vm.Running()
		})
	}
	return nil
}

// cpuState matches the values in "info registers -a" that whereCPUs prints.
var cpuState = regexp.MustCompile(`(?s)CPU#(\d+)\n.*?RIP=([0-9a-f]+) RFL=([0-9a-f]+) .*?HLT=(\d)`)

// interruptFlag is the IF bit of the x86 flags register: interrupts are enabled.
const interruptFlag = 1 << 9

// whereCPUs prints for each CPU its kernel function, whether it sleeps, and whether it accepts
// interrupts.
func whereCPUs(registers string, symbols []symbol) string {
	var b strings.Builder
	for _, m := range cpuState.FindAllStringSubmatch(registers, -1) {
		rip, _ := strconv.ParseUint(m[2], 16, 64)
		flags, _ := strconv.ParseUint(m[3], 16, 64)
		what, takes := "runs", "takes interrupts"
		if m[4] == "1" {
			what = "sleeps"
		}
		if flags&interruptFlag == 0 {
			takes = "takes no interrupts"
		}
		fmt.Fprintf(&b, "  CPU %s %s at %#x %s, %s\n", m[1], what, rip, nearest(symbols, rip), takes)
	}
	if b.Len() == 0 {
		return indent(registers)
	}
	return b.String()
}

// symbol is a function of the guest's kernel.
type symbol struct {
	address uint64
	name    string
}

// symbols reads the kernel's symbol list. Its addresses are valid because the guest's kernel
// boots with nokaslr.
func (vm *VM) symbols() []symbol {
	found, _ := filepath.Glob(filepath.Join(vm.cache, "root/boot/System.map-*"))
	if len(found) == 0 {
		return nil
	}
	data, err := os.ReadFile(found[0])
	if err != nil {
		return nil
	}
	return parseSymbols(string(data))
}

// parseSymbols parses the lines of a System.map: address, type, name.
func parseSymbols(text string) []symbol {
	var symbols []symbol
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 3 || !strings.ContainsAny(f[1], "tTwW") {
			continue
		}
		if address, err := strconv.ParseUint(f[0], 16, 64); err == nil {
			symbols = append(symbols, symbol{address, f[2]})
		}
	}
	sort.SliceStable(symbols, func(i, j int) bool { return symbols[i].address < symbols[j].address })
	return symbols
}

func nearest(symbols []symbol, address uint64) string {
	n := sort.Search(len(symbols), func(i int) bool { return symbols[i].address > address })
	switch {
	case len(symbols) == 0:
		return "(no list of the kernel's functions)"
	case n == 0:
		return "(in a program)"
	}
	return fmt.Sprintf("%s+%#x", symbols[n-1].name, address-symbols[n-1].address)
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return " (" + err.Error() + ")"
}

func indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("  " + line)
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		b.WriteString("\n")
	}
	return b.String()
}
