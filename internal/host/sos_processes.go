package host

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// sosProcess is a process in a sosreport's ps(1) listings (sos/report/plugins/process.py). One
// listing has control groups, one start times and ids, and "ps auxwww" the memory.
type sosProcess struct {
	comm   string // at most 15 bytes
	cgroup string
	args   string // command line, separated by spaces
	state  string
	uid    int // effective
	parent int
	rssKiB int64 // -1 if unknown
	began  time.Time
}

// readProcesses parses the listings. It returns nil if one of the first two is missing or
// truncated: missing processes would count as not running.
func (s *sosreport) readProcesses() map[int]*sosProcess {
	names, _ := filepath.Glob(s.files.outer("/sos_commands/process/ps_axo_*"))
	all := map[int]*sosProcess{}
	groups, times := false, false
	for _, name := range names {
		b, err := s.files.ReadFile("/sos_commands/process/" + filepath.Base(name))
		if err != nil || !strings.HasSuffix(string(b), "\n") {
			continue
		}
		header, rows, _ := strings.Cut(string(b), "\n")
		words := strings.Fields(header)
		switch {
		case len(words) > 1 && words[len(words)-1] == "CGROUP" && words[len(words)-2] == "COMMAND":
			groups = s.eachProcess(all, words[:len(words)-2], rows, (*sosProcess).takeGroup)
		case len(words) > 4 && strings.HasSuffix(header, " CMD") && words[len(words)-4] == "STARTED":
			at, ok := s.location()
			times = s.eachProcess(all, words[:len(words)-4], rows, func(p *sosProcess, row map[string]string, rest string) bool {
				return p.takeTimes(row, rest, at, ok)
			})
		}
	}
	if !groups || !times {
		return nil
	}
	self := false // each listing contains the ps process itself
	for pid, p := range all {
		self = self || p.comm == "ps"
		if p.comm == "" || p.args == "" || p.state == "Z" || p.state == "X" {
			delete(all, pid) // ended between the listings, or a zombie
		}
	}
	if !self {
		return nil
	}
	s.takeMemory(all)
	return all
}

// eachProcess calls take for each row of a listing, with the columns by name and the rest of
// the line. It reports whether all rows were valid.
func (s *sosreport) eachProcess(all map[int]*sosProcess, columns []string, rows string, take func(p *sosProcess, row map[string]string, rest string) bool) bool {
	for line := range strings.Lines(rows) {
		f, rest := cutFields(line, len(columns))
		if f == nil {
			return false
		}
		row := map[string]string{}
		for i, c := range columns {
			row[c] = f[i]
		}
		pid, err := strconv.Atoi(row["PID"])
		if err != nil || pid <= 0 {
			return false
		}
		if all[pid] == nil {
			all[pid] = &sosProcess{rssKiB: -1}
		}
		if !take(all[pid], row, rest) {
			return false
		}
	}
	return rows != ""
}

// takeGroup parses "COMMAND CGROUP". The command may contain spaces.
func (p *sosProcess) takeGroup(_ map[string]string, rest string) bool {
	const width = 15
	if len(rest) <= width || rest[width] != ' ' {
		name, group, ok := strings.Cut(rest, " ")
		p.comm, p.cgroup = name, strings.TrimSpace(group)
		return ok
	}
	p.comm, p.cgroup = strings.TrimRight(rest[:width], " "), strings.TrimSpace(rest[width:])
	return p.comm != ""
}

// takeTimes parses a row such as "Sun Nov 22 04:58:59 2026 ? 00:00:00 CMD".
func (p *sosProcess) takeTimes(row map[string]string, rest string, at *time.Location, known bool) bool {
	f, args := cutFields(rest, 7)
	if f == nil {
		return false
	}
	began, err := time.Parse("Mon Jan _2 15:04:05 2006", strings.Join(f[:5], " "))
	if err != nil {
		return false
	}
	if known {
		p.began = time.Date(began.Year(), began.Month(), began.Day(), began.Hour(), began.Minute(), began.Second(), 0, at)
	}
	uid, err := strconv.Atoi(row["UID"])
	parent, err2 := strconv.Atoi(row["PPID"])
	p.uid, p.parent, p.state, p.args = uid, parent, row["S"], args
	return err == nil && err2 == nil && args != ""
}

// takeMemory parses the output of "ps auxwww".
func (s *sosreport) takeMemory(all map[int]*sosProcess) {
	b, err := s.files.ReadFile("/sos_commands/process/ps_auxwww")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(b)) {
		f, _ := cutFields(line, 6) // USER PID %CPU %MEM VSZ RSS
		if f == nil {
			continue
		}
		pid, err := strconv.Atoi(f[1])
		rss, err2 := strconv.ParseInt(f[5], 10, 64)
		if p := all[pid]; p != nil && err == nil && err2 == nil && rss >= 0 {
			p.rssKiB = rss
		}
	}
}

// processFile derives the content of /proc/PID/FILE from the output of ps(1).
func (s *sosreport) processFile(rest string) ([]byte, bool) {
	number, file, _ := strings.Cut(rest, "/")
	pid, err := strconv.Atoi(number)
	if err != nil {
		return nil, false
	}
	p := s.processes()[pid]
	if p == nil {
		return nil, false
	}
	switch file {
	case "comm":
		return []byte(p.comm + "\n"), true
	case "cmdline":
		if strings.HasPrefix(p.args, "[") {
			return nil, true // a kernel thread
		}
		return []byte(strings.ReplaceAll(p.args, " ", "\x00") + "\x00"), true
	case "cgroup":
		if p.cgroup == "" || p.cgroup == "-" {
			return nil, false
		}
		return []byte(cgroupLines(p.cgroup)), true
	case "status":
		text := fmt.Sprintf("Name:\t%s\nState:\t%s\nPid:\t%d\nPPid:\t%d\n", p.comm, p.state, pid, p.parent)
		// ps(1) prints only the effective user.
		text += fmt.Sprintf("Uid:\t%d\t%d\t%d\t%d\n", p.uid, p.uid, p.uid, p.uid)
		if p.rssKiB >= 0 {
			text += fmt.Sprintf("VmRSS:\t%8d kB\n", p.rssKiB)
		}
		return []byte(text), true
	}
	return nil, false
}

// cgroupLines converts a list printed by ps(1), "12:cpu,cpuacct:/a,0::/b", to one line per
// hierarchy, as the kernel prints it.
func cgroupLines(list string) string {
	var out strings.Builder
	for i, part := range strings.Split(list, ",") {
		number, _, ok := strings.Cut(part, ":")
		if _, err := strconv.Atoi(number); i > 0 && ok && err == nil {
			out.WriteByte('\n')
		} else if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString(part)
	}
	return out.String() + "\n"
}

// sosQuerier answers queries from the process list, if the report has one, or from file times.
type sosQuerier struct{ machine *Host }

func (x sosQuerier) Query(ctx context.Context, question string, ask func(context.Context, *Host) ([]byte, error)) ([]byte, error) {
	c, ok := x.machine.Files.(copiedFiles)
	if ok && (strings.HasPrefix(question, "processes ") && c.sos.processes() != nil || strings.HasPrefix(question, "last change of ")) {
		return ask(ctx, x.machine)
	}
	return noQuerier{}.Query(ctx, question, ask)
}

// listProcesses adds the listed processes to the entries of /proc.
func (s *sosreport) listProcesses(d []fs.DirEntry) []fs.DirEntry {
	seen := map[string]bool{}
	for _, e := range d {
		seen[e.Name()] = true
	}
	for pid := range s.processes() {
		if name := strconv.Itoa(pid); !seen[name] {
			d = append(d, archivedInfo{name, &entry{mode: os.ModeDir | 0o555}})
		}
	}
	return d
}

// ProcessStart returns the start time of a process on a copy, in whole seconds. For live
// machines it returns false: read /proc/PID/stat instead.
func (h *Host) ProcessStart(pid int) (time.Time, bool) {
	if c, ok := h.Files.(copiedFiles); ok {
		if p := c.sos.processes()[pid]; p != nil && !p.began.IsZero() {
			return p.began, true
		}
	}
	return time.Time{}, false
}

// lower lists the devices below a block device: none. It returns false for device mapper, md and
// bcache devices, the only ones that may have some (bd_link_disk_holder() in block/holder.c).
func (s *sosreport) lower(p string) ([]fs.DirEntry, bool) {
	dir, last := path.Split(p)
	dir = path.Clean(dir)
	if last != "slaves" || path.Dir(dir) != "/sys/block" {
		return nil, false
	}
	name := path.Base(dir)
	for _, prefix := range []string{"dm-", "md", "bcache"} {
		if strings.HasPrefix(name, prefix) {
			return nil, false
		}
	}
	if _, err := s.files.Stat(dir + "/queue"); err != nil {
		return nil, false
	}
	return nil, true
}
