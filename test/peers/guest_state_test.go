package peers

import (
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/root"
	"fettle.dev/fettle/internal/unit"
)

// guestState reads what a profile can change in the guest: every file of /proc/sys and
// /sys that can be written, and what the programs of the field say of the rest.
type guestState struct {
	files []string // kept: walking costs more than reading
	moves map[string]bool
}

// guestFiles are files of interest outside what testroot.Settings walks.
var guestFiles = []string{
	"/sys/kernel/debug/sched/*", "/sys/kernel/debug/sched/numa_balancing/*",
	"/etc/default/irqbalance", "/etc/default/grub", "/etc/default/grub.d/*", "/boot/grub/grub.cfg", "/etc/tuned/bootcmdline",
	"/etc/systemd/system/*.service.d/*", "/run/guest-script",
}

// ofNoProfile are files that no profile here names and the kernel does not couple, or
// that follow the traffic: reading them is what a snapshot costs in an emulated machine.
var ofNoProfile = regexp.MustCompile(`/power/async$|/trace/|/byte_queue_limits/|/carrier$|^/sys/devices/virtual/(tty|vc|mem|graphics|input|misc|block/nbd|block/ram|bdi/43:)|^/sys/firmware/|^/sys/devices/(platform|pnp0|LNXSYSTM)|/broken_parity_status$|/driver_override$|/config$`)

func newGuestState(t *testing.T) *guestState {
	t.Helper()
	s := &guestState{moves: map[string]bool{}}
	for _, f := range keys(root.Settings()) {
		if !ofNoProfile.MatchString(f) {
			s.files = append(s.files, f)
		}
	}
	// Three looks at a machine at rest show what moves by itself.
	was := s.read(nil)
	for range 3 {
		now := s.read(nil)
		for _, k := range differing(was, now) {
			s.moves[k] = true
		}
	}
	return s
}

// read takes a snapshot; plugins says which programs need to be asked.
func (s *guestState) read(plugins map[string]bool) root.Tree {
	m := root.Tree{}
	files := slices.Clone(s.files)
	for _, pattern := range guestFiles {
		found, _ := filepath.Glob(pattern)
		files = append(files, found...)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	const parts = 4
	for k := range parts {
		wg.Go(func() {
			part := root.Tree{}
			buf := make([]byte, 4096)
			for i := k; i < len(files); i += parts {
				if s.moves[files[i]] {
					continue
				}
				f, err := os.OpenFile(files[i], os.O_RDONLY|syscall.O_NONBLOCK, 0)
				if err != nil {
					continue
				}
				n, err := f.Read(buf)
				f.Close()
				part[files[i]] = strings.TrimSpace(string(buf[:max(n, 0)]))
				if err != nil && n <= 0 {
					part[files[i]] = "?" + err.Error()
				}
			}
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(m, part)
		})
	}
	wg.Wait()
	m["cpu_dma_latency"] = wakeUpLatency()
	m["arguments of the next boot"] = nextArguments()
	m["CPUs that irqbalance leaves alone"] = bannedCPUs()
	m["options of modules"] = moduleOptions()
	m["CPUAffinity of the next boot"] = managerAffinity()
	b, _ := os.ReadFile("/proc/modules")
	for line := range strings.Lines(string(b)) {
		if name, _, _ := strings.Cut(line, " "); name == "dummy" || name == "nbd" {
			m["module "+name] = "loaded"
		}
	}
	b, _ = os.ReadFile("/proc/self/mounts")
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); strings.HasPrefix(f[0], "/dev/vd") {
			m["mount "+f[1]] = f[3]
		}
	}
	if plugins["net"] || plugins == nil {
		for _, device := range []string{"net0", "net1"} {
			for _, flag := range []string{"-k", "-c", "-a", "-g", "-l", ""} {
				ethtoolState(m, device, flag)
			}
		}
	}
	if plugins["service"] || plugins["irqbalance"] || plugins == nil {
		out, _ := exec.Command("systemctl", "show", "-p", "Id,ActiveState,UnitFileState,Nice", "one", "two", "irqbalance").Output()
		for part := range strings.SplitSeq(strings.TrimSpace(string(out)), "\n\n") {
			id := ""
			for line := range strings.Lines(part) {
				if v, ok := strings.CutPrefix(line, "Id="); ok {
					id = strings.TrimSpace(v)
				}
			}
			m["unit "+id] = strings.ReplaceAll(part, "\n", " ")
		}
	}
	if plugins["scheduler"] || plugins == nil {
		maps.Copy(m, tasksByName())
	}
	for k := range s.moves {
		delete(m, k)
	}
	return m
}

// wakeUpLatency is the limit that the kernel keeps to, in microseconds.
func wakeUpLatency() string {
	b, err := os.ReadFile("/dev/cpu_dma_latency")
	if err != nil || len(b) != 4 {
		return "unknown"
	}
	return fmt.Sprint(binary.NativeEndian.Uint32(b))
}

// ethtoolState adds what ethtool says of a device, a line each.
func ethtoolState(m root.Tree, device, flag string) {
	args := []string{flag, device}
	if flag == "" {
		args = args[1:]
	}
	out, err := exec.Command("ethtool", args...).Output()
	if err != nil {
		return
	}
	section := ""
	for line := range strings.Lines(strings.ToLower(string(out))) {
		k, v, ok := strings.Cut(strings.TrimSpace(line), ":")
		if flag == "" && k != "wake-on" {
			continue
		}
		if v = strings.TrimSpace(v); ok && v != "" {
			m[strings.Join([]string{"ethtool", flag, device, section + k}, " ")] = v
		} else if ok {
			section = k + ": "
		}
	}
}

// moduleOptions are the lines of the files of modprobe, of both tuners' files alike.
func moduleOptions() string {
	var lines []string
	for _, f := range []string{"/etc/modprobe.d/tuned.conf", "/etc/modprobe.d/zz-fettle.conf"} {
		b, _ := os.ReadFile(f)
		for line := range strings.Lines(string(b)) {
			if line = strings.Join(strings.Fields(line), " "); strings.HasPrefix(line, "options ") {
				lines = append(lines, line)
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "; ")
}

// nextArguments are the kernel arguments that a tuner added: TuneD's own file holds its
// own, and fettle's are in GRUB's configuration.
func nextArguments() string {
	b, _ := os.ReadFile("/etc/tuned/bootcmdline")
	if m := tunedArguments.FindStringSubmatch(string(b)); m != nil && m[1] != "" {
		return strings.Join(strings.Fields(m[1]), " ")
	}
	b, _ = os.ReadFile("/boot/grub/grub.cfg")
	if m := grubArguments.FindStringSubmatch(string(b)); m != nil {
		return strings.Join(strings.Fields(strings.TrimPrefix(strings.TrimSpace(m[1]), "quiet")), " ")
	}
	return ""
}

// bannedCPUs are the CPUs of irqbalance's file, as a list: a mask or a list is there.
func bannedCPUs() (list string) {
	b, _ := os.ReadFile("/etc/default/irqbalance")
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		value = strings.Trim(value, `"`)
		switch name {
		case "IRQBALANCE_BANNED_CPULIST":
			list = value
		case "IRQBALANCE_BANNED_CPUS":
			cpus, err := unit.ParseCPUMask(value)
			if list = cpus.String(); err != nil {
				list = value
			}
		}
	}
	return list
}

// managerAffinity is the last CPUAffinity= of systemd's files.
func managerAffinity() (value string) {
	files, _ := filepath.Glob("/etc/systemd/system.conf.d/*.conf")
	for _, f := range append([]string{"/etc/systemd/system.conf"}, files...) {
		b, _ := os.ReadFile(f)
		for line := range strings.Lines(string(b)) {
			if v, ok := strings.CutPrefix(line, "CPUAffinity="); ok {
				value = strings.TrimSpace(v)
			}
		}
	}
	return value
}

// tasksByName are affinity and policy of the tasks that stay, by number and name.
func tasksByName() root.Tree {
	m := root.Tree{}
	for k, v := range root.Tasks() {
		f := strings.Fields(k) // "task N since T"
		comm, err := os.ReadFile("/proc/" + f[1] + "/comm")
		if name := strings.TrimSpace(string(comm)); err == nil && !shortLived.MatchString(name) && !strings.HasSuffix(v, " nice -20") {
			m[k+" "+name] = v
		}
	}
	return m
}

// shortLived are tasks that come and go, and those of the test and the tuners. The
// kernel itself moves the workers and rescuers of work queues, whose nice value is -20.
var shortLived = regexp.MustCompile(`^(kworker/|peers|python3|tuned|fettle|systemd-udevd|\(udev-worker\)|ethtool)`)

// differing are the keys whose values differ; what only one of them has counts too, but
// tasks end, and interrupts come and go with their drivers.
func differing(a, b root.Tree) (out []string) {
	for _, m := range []root.Tree{a, b} {
		for k := range m {
			va, ina := a[k]
			vb, inb := b[k]
			if ina != inb && (strings.HasPrefix(k, "task ") || strings.HasPrefix(k, "/proc/irq/")) || va == vb && ina == inb {
				continue
			}
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// giveBack writes what the files had, and returns what could not be given back.
func (s *guestState) giveBack(before root.Tree, plugins map[string]bool) []string {
	left := differing(before, s.read(plugins))
	for range 3 {
		for _, k := range left {
			had, ok := before[k]
			switch {
			case strings.HasPrefix(k, "/etc/") || strings.HasPrefix(k, "/run/") || strings.HasPrefix(k, "/boot/"):
				if ok {
					_ = os.WriteFile(k, []byte(had+"\n"), 0o644)
				} else {
					_ = os.Remove(k)
				}
			case strings.HasPrefix(k, "/"):
				if ok && (had != "0" || !strings.HasSuffix(k, "_bytes")) {
					_ = os.WriteFile(k, []byte(setting.ActiveWord(had)+"\n"), 0o600)
				}
			case strings.HasPrefix(k, "ethtool ") || strings.HasPrefix(k, "task "):
				giveBackOther(k, had)
			}
		}
		if len(left) > 0 {
			left = differing(before, s.read(plugins))
		}
	}
	return left
}

// giveBackOther sets what is not a file: TuneD forgets some of it.
func giveBackOther(key, had string) {
	f := strings.Fields(key)
	if f[0] == "ethtool" && len(f) == 4 {
		switch f[1] {
		case "-k", "-c", "-a", "-g", "-l":
			_ = exec.Command("ethtool", strings.ToUpper(f[1]), f[2], f[3], had).Run()
		}
	} else if _, rest, ok := strings.Cut(had, "affinity "); ok && f[0] == "task" {
		cpus, _, _ := strings.Cut(rest, ", policy")
		_ = exec.Command("taskset", "-cp", cpus, f[1]).Run()
	}
}
