package profile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sort"
	"strings"

	"fettle.dev/fettle/internal/host"
)

// DefaultProfile is the recommendation if no section's conditions are met.
const DefaultProfile = "balanced"

// Files with recommendations, in this order. Among files with the same name the second directory's
// is used.
const recommendConf = "/etc/tuned/recommend.conf"

var recommendDirs = []string{"/usr/lib/tuned/recommend.d", "/etc/tuned/recommend.d"}

// Recommendation is the recommended profile of a machine, with the reasons.
type Recommendation struct {
	Profile string `json:"profile"`
	// Pos is the section whose conditions are met. For DefaultProfile its File is "".
	Pos Pos `json:"pos"`
	// Why lists that section's conditions, all of which are met.
	Why []Condition `json:"why"`
	// Unknown lists conditions with unknown results in earlier sections whose other conditions are
	// met: the recommendation could be different.
	Unknown  []Condition `json:"unknown,omitempty"`
	Warnings []Warning   `json:"warnings,omitempty"`
}

// Condition is one condition in a section of a recommend file.
type Condition struct {
	Profile string `json:"profile"`
	Key     string `json:"key"`
	Pattern string `json:"pattern"` // regular expression, anchored at the start
	Pos     Pos    `json:"pos"`
	// Saw is the observed value, shortened, or the reason why it is unknown.
	Saw string `json:"saw"`
}

// subject names what the condition tests, such as virtualization or processes.
func (c Condition) subject() string {
	switch {
	case c.Key == "virt":
		return "virtualization"
	case c.Key == "system":
		return "/etc/system-release-cpe"
	case strings.HasPrefix(c.Key, "process"):
		return "processes"
	}
	return strings.ReplaceAll(c.Key, "_", " ")
}

func (c Condition) String() string {
	return fmt.Sprintf("%s: %s=%s: %s", c.Pos.place(), c.Key, c.Pattern, c.Saw)
}

// because describes the observation that met the condition.
func (c Condition) because() string {
	if strings.HasPrefix(c.Saw, c.subject()) {
		return c.Saw
	}
	return c.subject() + ": " + strings.TrimPrefix(c.Saw, "found ")
}

type verdict int

const (
	fails verdict = iota
	holds
	unknown
)

// Recommend returns the profile that TuneD's recommend files name for this machine. The first
// section with all conditions met decides. If the machine has no such files, it uses fettle's own.
func (l *Loader) Recommend(ctx context.Context) (Recommendation, error) {
	r := Recommendation{Profile: DefaultProfile, Why: []Condition{}}
	if !l.main().RecommendCommand {
		r.Pos = l.main().Where["recommend_command"]
		return r, nil
	}
	files, err := l.recommendFiles()
	if err != nil {
		return r, err
	}
	c := &conditions{Loader: l, ctx: ctx}
	for _, file := range files {
		if done, err := r.readRules(c, file); done || err != nil {
			return r, err
		}
	}
	return r, nil
}

// Has reports whether a profile with this name exists.
func (l *Loader) Has(name string) bool {
	file, _ := l.find(name, nil)
	return file != ""
}

func (l *Loader) recommendFiles() ([]string, error) {
	var files []string
	if st, err := l.Host.Files.Stat(recommendConf); err == nil && st.Mode().IsRegular() {
		files = append(files, recommendConf)
	}
	byName := map[string]string{}
	for _, dir := range recommendDirs {
		entries, err := l.Host.Files.ReadDir(dir)
		if err != nil && !host.NotFound(err) {
			return nil, err
		}
		for _, e := range entries {
			byName[e.Name()] = path.Join(dir, e.Name())
		}
	}
	names := make([]string, 0, len(byName))
	for name := range byName {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if st, err := l.Host.Files.Stat(byName[name]); err == nil && st.Mode().IsRegular() {
			files = append(files, byName[name])
		}
	}
	if own := path.Join(BuiltinDir, "recommend.conf"); len(files) == 0 && l.Builtin != nil {
		files = append(files, own)
	}
	return files, nil
}

// readRules evaluates the sections of one file. done is true if a section's conditions are met.
func (r *Recommendation) readRules(c *conditions, file string) (done bool, err error) {
	var data []byte
	if IsBuiltin(file) {
		name, _ := builtinName(file)
		data, err = fs.ReadFile(c.Builtin, name)
	} else {
		data, err = c.Host.Files.ReadFile(file)
	}
	var conf *configFile
	if err == nil {
		conf, err = parseConfig(file, data, parseSyntax{})
	}
	if err != nil {
		// TuneD continues with the next file.
		r.Warnings = append(r.Warnings, Warning{Pos{File: file}, "file ignored: " + err.Error()})
		return false, nil
	}
	for _, s := range conf.sections {
		name := s.name
		if i := strings.LastIndexByte(name, ','); i >= 0 {
			name = name[:i] // only makes section names unique
		}
		why, open := []Condition{}, []Condition(nil)
		failed := false
		for _, e := range conf.options(s) {
			cond := Condition{Profile: name, Key: e.key, Pattern: e.value, Pos: e.pos}
			answer, err := c.ask(&cond)
			if err != nil {
				return false, err
			}
			switch answer {
			case fails:
				failed = true
			case holds:
				why = append(why, cond)
			case unknown:
				open = append(open, cond)
			}
			if failed {
				break
			}
		}
		switch {
		case failed:
		case len(open) > 0:
			r.Unknown = append(r.Unknown, open...)
		default:
			r.Profile, r.Pos, r.Why = name, s.pos, why
			return true, nil
		}
	}
	return false, nil
}

// conditions evaluates conditions on a machine and caches the values it reads.
type conditions struct {
	*Loader
	ctx       context.Context
	virt      *virtualisation
	processes []string
}

// ask evaluates one condition and sets its Saw. Unknown keywords count as met, as in TuneD.
func (c *conditions) ask(cond *Condition) (verdict, error) {
	if err := c.ctx.Err(); err != nil {
		return fails, err
	}
	pattern := cond.Pattern
	if pattern == "" {
		pattern = "^$"
	}
	flags := AnchorStart | DotAll
	switch {
	case cond.Key == "chassis_type" || cond.Key == "syspurpose_role":
		flags = AnchorStart | IgnoreCase
	case strings.HasPrefix(cond.Key, "process"):
		flags = AnchorStart
	}
	re, err := CompileRegexp(pattern, flags)
	if err != nil {
		cond.Saw = err.Error()
		return unknown, nil
	}
	see := func(text string) verdict {
		cond.Saw = "found " + quoted(clip(strip(text)))
		if re.MatchString(text) {
			return holds
		}
		return fails
	}
	absent := func(err error) (verdict, error) {
		cond.Saw = err.Error()
		return unknown, nil
	}
	switch {
	case cond.Key == "virt":
		if c.virt == nil {
			v := c.Loader.virtualisation(c.ctx)
			c.virt = &v
		}
		cond.Saw = c.virt.String()
		return c.virt.match(re.MatchString), nil
	case cond.Key == "system":
		b, err := c.Host.Files.ReadFile("/etc/system-release-cpe")
		if errors.Is(err, fs.ErrNotExist) {
			cond.Saw = "/etc/system-release-cpe does not exist"
			if re.MatchString("") {
				return holds, nil
			}
			return fails, nil
		} else if err != nil {
			return absent(err)
		}
		return see(string(b)), nil
	case strings.HasPrefix(cond.Key, "/"):
		b, err := c.Host.Files.ReadFile(cond.Key)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			cond.Saw = cond.Key + " does not exist"
			return fails, nil
		case err != nil:
			return absent(err)
		}
		answer := see(string(b))
		if at := re.FindStringIndex(string(b)); at != nil {
			cond.Saw = lineAt(cond.Key, string(b), at[1]-1)
		}
		return answer, nil
	case strings.HasPrefix(cond.Key, "process"):
		return c.askProcesses(cond, re.MatchString), nil
	case cond.Key == "chassis_type":
		name, err := chassisType(c.Host)
		if err != nil {
			return absent(err)
		}
		return see(name), nil
	case cond.Key == "syspurpose_role":
		role, err := syspurposeRole(c.Host)
		if err != nil {
			return absent(err)
		}
		return see(role), nil
	}
	cond.Saw = "unknown keyword, which TuneD ignores"
	return holds, nil
}

// lineAt returns FILE:LINE and the text of the line that contains the byte at an offset.
func lineAt(file, text string, at int) string {
	at = max(at, 0)
	line := strings.Count(text[:at], "\n") + 1
	start := strings.LastIndexByte(text[:at], '\n') + 1
	rest, _, _ := strings.Cut(text[start:], "\n")
	return fmt.Sprintf("%s:%d: %s", file, line, clip(strip(rest)))
}

func (c *conditions) askProcesses(cond *Condition, match func(string) bool) verdict {
	if c.processes == nil {
		entries, err := c.Host.Files.ReadDir("/proc")
		if err != nil {
			cond.Saw = err.Error()
			return unknown
		}
		for _, e := range entries {
			if !isDigits(e.Name()) {
				continue
			}
			if b, err := c.Host.Files.ReadFile("/proc/" + e.Name() + "/comm"); err == nil {
				c.processes = append(c.processes, strings.TrimSuffix(string(b), "\n"))
			}
		}
	}
	if len(c.processes) == 0 {
		cond.Saw = host.NotRecorded("processes").Error()
		return unknown
	}
	for _, comm := range c.processes {
		if match(comm) {
			cond.Saw = "running: " + comm
			return holds
		}
	}
	cond.Saw = fmt.Sprintf("none of %d processes", len(c.processes))
	return fails
}

// chassisNames are the chassis types of SMBIOS 3.3.0, 7.4.1, by number.
var chassisNames = []string{
	1: "Other", "Unknown", "Desktop", "Low Profile Desktop", "Pizza Box", "Mini Tower", "Tower", "Portable",
	"Laptop", "Notebook", "Hand Held", "Docking Station", "All In One", "Sub Notebook", "Space-saving",
	"Lunch Box", "Main Server Chassis", "Expansion Chassis", "Sub Chassis", "Bus Expansion Chassis",
	"Peripheral Chassis", "RAID Chassis", "Rack Mount Chassis", "Sealed-case PC", "Multi-system", "CompactPCI",
	"AdvancedTCA", "Blade", "Blade Enclosing", "Tablet", "Convertible", "Detachable", "IoT Gateway",
	"Embedded PC", "Mini PC", "Stick PC",
}

// chassisType returns the name of the chassis type. It returns "" if the firmware reports none or
// an unknown one.
func chassisType(h *host.Host) (string, error) {
	b, err := h.Files.ReadFile("/sys/class/dmi/id/chassis_type")
	if errors.Is(err, fs.ErrNotExist) {
		if _, serr := h.Files.Stat("/sys/class"); serr != nil {
			return "", host.NotRecorded("chassis type")
		}
		return "", nil
	} else if err != nil {
		return "", err
	}
	n, ok := parseInt(string(b))
	if !ok || !n.IsInt64() || n.Int64() < 0 || n.Int64() >= int64(len(chassisNames)) {
		return "", nil
	}
	return chassisNames[n.Int64()], nil
}

// syspurposeRole returns the role recorded by subscription-manager, or "".
func syspurposeRole(h *host.Host) (string, error) {
	const file = "/etc/rhsm/syspurpose/syspurpose.json"
	b, err := h.Files.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	var purpose struct {
		Role string `json:"role"`
	}
	if err := json.Unmarshal(b, &purpose); err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	return purpose.Role, nil
}
