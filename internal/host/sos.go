package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// A sosreport contains many of a machine's files at their paths below its top directory. It
// has command output in sos_commands/PLUGIN/, in files named like the command with "_" for "
// ". The code in this file derives files from that output (sos 4.x, sos/report/plugins/*.py).
// sos_processes.go does the same for processes. sos_absent.go finds files that the machine
// certainly lacks.

// sosreport is a tree made by sos or a similar program. Each answer needs only its own file.
type sosreport struct {
	files rootedFiles

	sysctls   func() map[string][]byte
	manifest  func() *sosManifest
	processes func() map[int]*sosProcess
}

func newSosreport(files rootedFiles) *sosreport {
	s := &sosreport{files: files}
	s.sysctls = sync.OnceValue(s.readSysctls)
	s.manifest = sync.OnceValue(s.readManifest)
	s.processes = sync.OnceValue(s.readProcesses)
	return s
}

// is reports whether the tree is a sosreport.
func (s *sosreport) is() bool {
	st, err := os.Stat(s.files.outer("/sos_commands"))
	return err == nil && st.IsDir()
}

// incomplete describes a truncated report, or returns "". A report's archive has its files in
// alphabetical order, with version.txt as the last one.
func (s *sosreport) incomplete() string {
	if !s.is() {
		return ""
	}
	if _, err := s.files.Lstat("/version.txt"); err == nil {
		return ""
	}
	return s.files.root + " is a truncated sosreport: version.txt, the last of its files, is missing"
}

// sosCommands maps files to saved command outputs with the same content.
var sosCommands = []struct{ path, output string }{
	{"/proc/cmdline", "sos_commands/boot/cat_.proc.cmdline"},
	{"/proc/swaps", "sos_commands/memory/swapon_--summary"},
}

// sosDMI maps files of /sys/class/dmi/id to "section/key" of dmidecode's output.
var sosDMI = map[string]string{
	"sys_vendor":        "System Information/Manufacturer",
	"product_name":      "System Information/Product Name",
	"product_version":   "System Information/Version",
	"product_family":    "System Information/Family",
	"bios_vendor":       "BIOS Information/Vendor",
	"bios_version":      "BIOS Information/Version",
	"bios_date":         "BIOS Information/Release Date",
	"board_vendor":      "Base Board Information/Manufacturer",
	"board_name":        "Base Board Information/Product Name",
	"chassis_vendor":    "Chassis Information/Manufacturer",
	"chassis_asset_tag": "Chassis Information/Asset Tag",
}

// file derives the content of a file from command output, or returns false.
func (s *sosreport) file(p string) ([]byte, bool) {
	if strings.HasPrefix(p, "/sos_commands/") {
		return nil, false
	}
	if rest, ok := strings.CutPrefix(p, "/proc/sys/"); ok {
		// sysctl prints "." for "/", and "/" for a "." within a name
		// (net.ipv4.conf.eth0/100.mtu).
		key := strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(rest, "/", "\x00"), ".", "/"), "\x00", ".")
		b, ok := s.sysctls()[key]
		return b, ok
	}
	if dir, name := path.Split(p); dir == "/sys/class/dmi/id/" {
		return s.dmidecode(sosDMI[name])
	}
	if p == "/proc/uptime" {
		return s.uptime()
	}
	if rest, ok := strings.CutPrefix(p, "/proc/"); ok {
		if b, ok := s.processFile(rest); ok {
			return b, true
		}
	}
	for _, c := range sosCommands {
		if c.path != p {
			continue
		}
		if b, err := s.files.ReadFile("/" + c.output); err == nil {
			return b, true
		}
	}
	return nil, false
}

// readSysctls parses the saved output of "sysctl -a".
func (s *sosreport) readSysctls() map[string][]byte {
	b, err := s.files.ReadFile("/sos_commands/kernel/sysctl_-a")
	if err != nil {
		return nil
	}
	all := map[string][]byte{}
	for line := range bytes.Lines(b) {
		key, value, ok := bytes.Cut(line, []byte(" = "))
		if ok && bytes.HasSuffix(value, []byte("\n")) { // ignore a truncated last line
			all[string(key)] = append(all[string(key)], value...) // multi-line values repeat their key
		}
	}
	return all
}

func (s *sosreport) dmidecode(want string) ([]byte, bool) {
	section, key, ok := strings.Cut(want, "/")
	if !ok {
		return nil, false
	}
	for _, name := range []string{"/sos_commands/hardware/dmidecode", "/dmidecode"} {
		b, err := s.files.ReadFile(name)
		if err != nil {
			continue
		}
		in := ""
		for line := range strings.Lines(string(b)) {
			line = strings.TrimRight(line, "\r\n")
			if !strings.HasPrefix(line, "\t") {
				in = line
			} else if v, ok := strings.CutPrefix(line, "\t"+key+": "); ok && in == section {
				return []byte(strings.TrimSpace(v) + "\n"), true
			}
		}
	}
	return nil, false
}

// dateLayouts are the formats that date(1) prints in the locales that sos uses.
var dateLayouts = []string{"Mon Jan _2 15:04:05 MST 2006", "Mon Jan _2 03:04:05 PM MST 2006", "Mon 02 Jan 2006 03:04:05 PM MST"}

// date returns the time printed by date(1), and the abbreviation of its time zone.
func (s *sosreport) date(output string) (t time.Time, zone string, ok bool) {
	b, err := s.files.ReadFile("/sos_commands/date/" + output)
	if err != nil {
		return t, "", false
	}
	for _, layout := range dateLayouts {
		if t, err := time.Parse(layout, trimLine(b)); err == nil {
			zone, _ := t.Zone()
			return t, zone, true
		}
	}
	return t, "", false
}

// now returns the time at which the report was made.
func (s *sosreport) now() (time.Time, bool) {
	t, _, ok := s.date("date_--utc")
	return t, ok
}

// location returns the machine's time zone, which ps(1) uses.
func (s *sosreport) location() (*time.Location, bool) {
	if _, zone, ok := s.date("date"); ok && zone == "UTC" {
		return time.UTC, true
	}
	b, err := s.files.ReadFile("/etc/localtime")
	if err != nil {
		return nil, false
	}
	l, err := time.LoadLocationFromTZData("local", b)
	return l, err == nil
}

// boot returns the time of boot, in whole seconds.
func (s *sosreport) boot() (time.Time, bool) {
	b, err := s.files.ReadFile("/proc/stat")
	if err != nil {
		return time.Time{}, false
	}
	for line := range strings.Lines(string(b)) {
		var at int64
		if n, _ := fmt.Sscanf(line, "btime %d\n", &at); n == 1 && at > 0 {
			return time.Unix(at, 0).UTC(), true
		}
	}
	return time.Time{}, false
}

// uptime derives the content of /proc/uptime without the idle time, which is unknown.
func (s *sosreport) uptime() ([]byte, bool) {
	now, ok := s.now()
	boot, ok2 := s.boot()
	if !ok || !ok2 || now.Before(boot) {
		return nil, false
	}
	return fmt.Appendf(nil, "%.2f\n", now.Sub(boot).Seconds()), true
}

// sosClock is the clock of a sosreport. Now returns the time at which the report was made.
type sosClock struct{ *sosreport }

func (c sosClock) Now() time.Time {
	if t, ok := c.now(); ok {
		return t
	}
	return time.Now()
}

func (c sosClock) SinceBoot() (time.Duration, error) {
	now, ok := c.now()
	boot, ok2 := c.boot()
	if !ok || !ok2 {
		return 0, NotRecorded("uptime")
	}
	return now.Sub(boot), nil
}

// sosExec answers for commands. Run returns the recorded output of a command that the manifest
// lists with its exit code.
type sosExec struct{ *sosreport }

func (x sosExec) Run(ctx context.Context, c Command) (Result, error) {
	m := x.manifest()
	if m == nil {
		return noExec{}.Run(ctx, c)
	}
	for _, r := range m.commands[c.String()] {
		b, err := x.files.ReadFile("/" + r.File)
		if err == nil && strings.HasPrefix(path.Clean("/"+r.File), "/sos_commands/") {
			return Result{Stdout: b, ExitCode: r.Code}, nil
		}
	}
	return noExec{}.Run(ctx, c)
}

func (x sosExec) LookPath(name string) (string, error) { return noExec{}.LookPath(name) }

// sosManifest is the part of sos_reports/manifest.json (sos 4.0 and later) that lists the
// collected commands and files.
type sosManifest struct {
	commands map[string][]sosCommand // by command line
	specs    map[string]int          // number of files copied for each requested path
}

type sosCommand struct {
	Exec string `json:"exec"`
	File string `json:"filepath"`
	Code int    `json:"return_code"`
}

func (s *sosreport) readManifest() *sosManifest {
	b, err := s.files.ReadFile("/sos_reports/manifest.json")
	if err != nil {
		return nil
	}
	var read struct {
		Components struct {
			Report struct {
				Plugins map[string]struct {
					TimeoutHit bool         `json:"timeout_hit"`
					Commands   []sosCommand `json:"commands"`
					Files      []struct {
						Specification string            `json:"specification"`
						Copied        []json.RawMessage `json:"files_copied"`
					} `json:"files"`
				} `json:"plugins"`
			} `json:"report"`
		} `json:"components"`
	}
	if json.Unmarshal(b, &read) != nil {
		return nil
	}
	m := &sosManifest{map[string][]sosCommand{}, map[string]int{}}
	for _, p := range read.Components.Report.Plugins {
		if p.TimeoutHit {
			continue
		}
		for _, c := range p.Commands {
			m.commands[c.Exec] = append(m.commands[c.Exec], c)
		}
		for _, f := range p.Files {
			m.specs[path.Clean(f.Specification)] = max(m.specs[path.Clean(f.Specification)], len(f.Copied))
		}
	}
	return m
}

// space returns the size and the free space of a path's file system, in bytes, as printed by
// df(1).
func (s *sosreport) space(p string) (size, free uint64, err error) {
	missing := NotRecorded("the space of " + path.Clean(p) + ": df")
	if at, err := s.files.Resolve(p); err == nil {
		p = at
	} else if !errors.Is(err, fs.ErrNotExist) {
		return 0, 0, missing
	}
	names, _ := filepath.Glob(s.files.outer("/sos_commands/filesys/df_-al*"))
	best := ""
	for _, name := range names {
		b, err := s.files.ReadFile("/sos_commands/filesys/" + filepath.Base(name))
		if err != nil || !bytes.HasPrefix(b, []byte("Filesystem ")) || !bytes.Contains(b, []byte("1K-blocks")) {
			continue
		}
		for line := range strings.Lines(string(b)) {
			f, mount := cutFields(line, 5)
			var blocks, left uint64
			if f == nil || !below(p, mount) || len(mount) < len(best) {
				continue
			}
			if _, err := fmt.Sscan(f[1], &blocks); err != nil || blocks > 1<<53 {
				continue
			}
			if _, err := fmt.Sscan(f[3], &left); err != nil || left > blocks {
				continue
			}
			best, size, free = mount, blocks<<10, left<<10
		}
	}
	if best == "" {
		return 0, 0, missing
	}
	return size, free, nil
}

// below reports whether p is dir or inside it.
func below(p, dir string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir+"/")
}

// cutFields splits n words off the beginning of a line. rest is the remainder without leading
// spaces. fields is nil if there are fewer than n words.
func cutFields(line string, n int) (fields []string, rest string) {
	rest = strings.TrimRight(line, "\n")
	for range n {
		rest = strings.TrimLeft(rest, " ")
		end := strings.IndexByte(rest, ' ')
		if end < 0 {
			return nil, ""
		}
		fields = append(fields, rest[:end])
		rest = rest[end:]
	}
	return fields, strings.TrimLeft(rest, " ")
}
