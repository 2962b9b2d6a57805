package profile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/host"
)

// Loader finds and loads profiles. With only Host set, it loads the machine's profiles and runs
// nothing.
type Loader struct {
	Host *host.Host
	// Dirs is the search path; later directories win. If nil, it is SearchPath(Main).
	Dirs []string
	// Builtin holds fettle's own profiles as name/tuned.conf, searched after all of Dirs.
	Builtin fs.FS
	// Main is tuned-main.conf; DefaultMain if nil.
	Main *MainConfig
	// Execute allows functions to run programs, on a live host.
	Execute bool
	// Refuse, if not nil, returns an error for a built-in function that must not be called. The
	// error ends the load.
	Refuse func(function string) error
	// Answers are results, from an earlier load, of functions that run programs. The loader uses
	// them instead of running the programs. If nil, it uses the Snapshot's answers.
	Answers map[string]Answer
	// Snapshot, if set, is the source of every file; the loader then does not read the machine's
	// profile directories.
	Snapshot *Snapshot
	// Pending holds files, by path, that the caller is about to write: they are read from here.
	Pending map[string][]byte
}

// maxFiles is the maximum number of files of one load.
const maxFiles = 500

// loading is the state of one Load.
type loading struct {
	*Loader
	x        *expander
	profile  *Profile
	read     map[string]bool // tuned.conf files read so far
	open     []string        // files with includes in progress, outermost first
	raw      []*rawProfile
	distrust error // why the first untrusted file is not trusted
	warned   map[Warning]bool
}

// Load loads profiles with their includes and expands them; later profiles override earlier ones.
// A profile whose name begins with "-" may be missing. TuneD's post-loaded profile is the last
// name.
func (l *Loader) Load(ctx context.Context, names ...string) (*Profile, error) {
	if len(names) == 0 {
		return nil, errors.New("no profile named")
	}
	for _, name := range names {
		if !ValidName(name) {
			return nil, fmt.Errorf("profile name %q: %w", name, ErrName)
		}
	}
	s := l.begin(ctx)
	s.profile.Names = append([]string{}, names...)
	for _, name := range names {
		if err := s.load(name, Pos{}); err != nil {
			return nil, err
		}
	}
	m := merge(s.raw, s.warn)
	if err := s.defineVariables(m.variables); err != nil {
		return nil, err
	}
	for _, e := range m.main.values() {
		switch e.key {
		case "summary":
			s.profile.Summary = e.value
		case "description":
			s.profile.Description = e.value
		}
	}
	var errs Errors
	for _, u := range m.units.values() {
		unit, err := s.unit(u)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		s.profile.Units = append(s.profile.Units, *unit)
	}
	if err := errs.orNil(); err != nil {
		return nil, err
	}
	s.profile.Answers = s.x.given
	return s.profile, nil
}

func (l *Loader) main() *MainConfig {
	if l.Main == nil {
		return defaultMain
	}
	return l.Main
}

var defaultMain = DefaultMain()

func (l *Loader) recordedAnswers() map[string]Answer {
	if l.Answers == nil && l.Snapshot != nil {
		return l.Snapshot.Answers
	}
	return l.Answers
}

func (l *Loader) begin(ctx context.Context) *loading {
	s := &loading{
		Loader:  l,
		profile: &Profile{loader: l, Units: []Unit{}, Variables: []Variable{}, Sources: []Source{}},
		read:    map[string]bool{},
		warned:  map[Warning]bool{},
	}
	s.x = &expander{
		ctx:         ctx,
		answers:     l.recordedAnswers(),
		given:       map[string]Answer{},
		mayExecute:  s.mayExecute,
		refuse:      l.Refuse,
		values:      map[string]string{},
		definitions: map[string][]*definition{},
		warn:        s.warn,
	}
	s.x.env = &Env{Host: l.Host, Dirs: l.dirs(), Warn: func(format string, args ...any) {
		s.warn(s.x.pos, format, args...)
	}}
	return s
}

func (s *loading) warn(pos Pos, format string, args ...any) {
	w := Warning{pos, fmt.Sprintf(format, args...)}
	if !s.warned[w] {
		s.warned[w] = true
		s.profile.Warnings = append(s.profile.Warnings, w)
	}
}

func (s *loading) deferCalls(calls []Call) {
	for _, c := range calls {
		if !slices.ContainsFunc(s.profile.Deferred, func(d Call) bool { return d.Text == c.Text }) {
			s.profile.Deferred = append(s.profile.Deferred, c)
		}
	}
}

// source reads a file and records it.
func (s *loading) source(file, kind string) ([]byte, error) {
	if len(s.profile.Sources) == maxFiles {
		return nil, fmt.Errorf("the profile includes more than %d files", maxFiles)
	}
	data, err := s.readFile(file)
	if err != nil {
		return nil, err
	}
	if s.guarded(file) && s.distrust == nil {
		s.distrust = Trusted(s.Host, file)
	}
	sum := sha256.Sum256(data)
	s.profile.Sources = append(s.profile.Sources, Source{Path: file, SHA256: hex.EncodeToString(sum[:]), Data: data, Kind: kind})
	return data, nil
}

// load loads a profile after the profiles that it includes. from is the include= line that names
// it, or zero for a requested profile.
func (s *loading) load(name string, from Pos) error {
	plain, optional := strings.CutPrefix(name, "-")
	file, seen := s.find(plain, s.read)
	if file == "" {
		if seen {
			s.circle(plain, from)
			return nil
		}
		if optional {
			s.profile.absent = append(s.profile.absent, plain)
			return nil
		}
		return s.notFound(plain, from)
	}
	if from.File != "" && s.guarded(file) {
		if err := Trusted(s.Host, file); err != nil {
			return errAt(from, "include=%s: %w", plain, err)
		}
	}
	s.read[file] = true
	data, err := s.source(file, "profile")
	if err != nil {
		return errAt(Pos{File: file}, "%w", err)
	}
	s.profile.dirs = append(s.profile.dirs, path.Dir(file))
	conf, err := parseConfig(file, data, parseSyntax{})
	if err != nil {
		return err
	}
	for _, r := range conf.repeated {
		s.warn(r.last.pos, "[%s] sets %s again: %s is ignored, this line applies", r.section, r.last.key, r.earlier.pos)
	}
	raw := newRawProfile(file, conf)
	if include, ok := raw.main.remove(includeOption); ok {
		s.open = append(s.open, file)
		if err := s.include(include); err != nil {
			return err
		}
		s.open = s.open[:len(s.open)-1]
	}
	s.raw = append(s.raw, raw)
	return nil
}

// circle warns about an include cycle, which is cut at this include, as in TuneD. Including a
// profile twice on different paths is not a cycle.
func (s *loading) circle(name string, from Pos) {
	for _, file := range s.open {
		if path.Base(path.Dir(file)) == name {
			s.warn(from, "include=%s is circular: %s already includes this profile; ignored", name, file)
			return
		}
	}
}

func (s *loading) include(e *entry) error {
	text, calls, err := s.x.expand(e.value, e.pos)
	if err != nil {
		return err
	}
	s.deferCalls(calls)
	for _, name := range splitList(text, false) {
		if len(calls) > 0 && !ValidName(name) {
			s.profile.Unresolved = append(s.profile.Unresolved, Option{Name: includeOption, Value: e.value, Pos: e.pos, Deferred: calls})
			s.warn(e.pos, "include=%s is known only when the profile is applied; its content is not shown", e.value)
			continue
		}
		if err := s.load(name, e.pos); err != nil {
			return err
		}
	}
	return nil
}

// unit expands a merged unit.
func (s *loading) unit(u *rawUnit) (*Unit, error) {
	out := &Unit{
		Name: u.name, Type: u.typ.value, Enabled: isTrue(u.enabled.value),
		DevicesUdevRegex: u.udevRegex.value,
		ScriptPre:        u.scriptPre.value, ScriptPost: u.scriptPost.value,
		Priority: s.main().DefaultInstancePriority,
		Options:  []Option{},
		Pos:      u.pos, Where: map[string]Pos{},
	}
	for name, f := range map[string]*field{
		"type": &u.typ, "enabled": &u.enabled, "devices": &u.devices, "priority": &u.priority,
		"devices_udev_regex": &u.udevRegex, "cpuinfo_regex": &u.cpuinfoRegex, "uname_regex": &u.unameRegex,
		"script_pre": &u.scriptPre, "script_post": &u.scriptPost,
	} {
		if f.set {
			out.Where[name] = f.pos
		}
	}
	var errs Errors
	if u.priority.set {
		n, ok := parseInt(u.priority.value)
		if !ok || !n.IsInt64() || int64(int32(n.Int64())) != n.Int64() {
			errs = append(errs, errAt(u.priority.pos, "priority=%s: expected a whole number", u.priority.value))
		} else {
			out.Priority = int(n.Int64())
		}
	}
	for _, e := range []struct {
		from *field
		to   *string
	}{{&u.devices, &out.Devices}, {&u.cpuinfoRegex, &out.CPUInfoRegex}, {&u.unameRegex, &out.UnameRegex}} {
		text, calls, err := s.x.expand(e.from.value, e.from.pos)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		*e.to = text
		out.Deferred = append(out.Deferred, calls...)
		s.deferCalls(calls)
	}
	if out.Enabled && len(errs) == 0 {
		errs = append(errs, s.checkUnit(out)...)
	}
	for _, o := range u.options.values() {
		option, err := s.option(o)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out.Options = append(out.Options, option)
	}
	return out, errs.orNil()
}

func (s *loading) option(o rawOption) (Option, error) {
	out := Option{Name: o.name, Value: o.value, Raw: o.value, Pos: o.pos, Scripts: o.scripts}
	if o.scripts != nil {
		var paths []string
		for _, script := range o.scripts {
			paths = append(paths, script.Path)
		}
		out.Value = strings.Join(paths, "\n")
		return out, nil
	}
	var err error
	if out.Value, out.Deferred, err = s.x.expand(o.value, o.pos); err != nil {
		return out, err
	}
	s.deferCalls(out.Deferred)
	if len(out.Deferred) == 0 {
		for _, name := range undefinedVariables(out.Value) {
			s.warn(o.pos, "variable %q is not defined: the text ${%s} stays in %s", name, name, o.name)
		}
	}
	if strings.Contains(o.name, "${") {
		var calls []Call
		if out.ExpandedName, calls, err = s.x.expand(o.name, o.pos); err != nil {
			return out, err
		}
		out.Deferred = append(out.Deferred, calls...)
		s.deferCalls(calls)
	}
	return out, nil
}

func undefinedVariables(text string) []string {
	var names []string
	for {
		_, rest, found := strings.Cut(text, "${")
		if !found {
			return names
		}
		if name := wordPrefix(rest); name != "" && strings.HasPrefix(rest[len(name):], "}") {
			names = append(names, name)
		}
		text = rest
	}
}

// checkUnit returns errors of a unit that would otherwise appear only when the unit is applied.
func (s *loading) checkUnit(u *Unit) (errs []error) {
	for _, r := range []struct{ attribute, pattern string }{
		{"cpuinfo_regex", u.CPUInfoRegex}, {"uname_regex", u.UnameRegex}, {"devices_udev_regex", u.DevicesUdevRegex},
	} {
		if r.pattern == "" || len(u.Deferred) > 0 {
			continue
		}
		if _, err := CompileRegexp(r.pattern, Multiline); err != nil {
			errs = append(errs, errAt(u.At(r.attribute), "%s: %w", r.attribute, err))
		}
	}
	return errs
}
