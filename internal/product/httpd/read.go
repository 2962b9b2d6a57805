package httpd

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product/conf"
)

// Limits: a copied file tree may contain anything. httpd's own limit of includes is 20.
const (
	maxDepth    = 20
	maxFiles    = 3000
	maxSettings = 500000
)

// settings holds the directives that httpd reads for one instance.
type settings struct {
	all     []conf.Place // in reading order
	files   []string     // the main one first
	modules map[string]string
	// mpm is "event", "worker", "prefork" or ""; modulesAt is the position of the line that loads
	// it.
	mpm   string
	mpmAt string
	// values are the arguments, parallel to all, with variables replaced.
	values []string
	// unsure is parallel to all: why httpd may not read the line, or "".
	unsure []string
	listen []string
	logs   []logDirective
	root   string // ServerRoot
	main   string // the main file
}

// told is a directive's value in the files.
type told struct {
	value string
	at    conf.Place
	// unknown says why the line that applies is unknown, or is "".
	unknown string
}

// value returns a directive's value for the whole server: the last line applies. ok is false if no
// line sets it.
func (s settings) value(key string) (found told, ok bool) {
	for i, p := range slices.Backward(s.all) {
		switch {
		case p.Key != key:
			continue
		case !ok:
			found, ok = told{s.values[i], p, s.unsure[i]}, true
		case found.value != s.values[i]:
			return found, true
		}
		if s.unsure[i] == "" {
			found.unknown = "" // the value is the same in both cases
			return found, true
		}
	}
	return found, ok
}

// Paths implements product.Files.
func (s settings) Paths() []string { return s.files }

// Value implements product.Files.
func (s settings) Value(key string) (value, at string, ok bool, err error) {
	t, ok := s.value(key)
	if t.unknown != "" {
		err = errors.New(t.unknown)
	}
	return t.value, t.at.String(), ok, err
}

// readSettings reads a main file like httpd, with the loaded modules and the defined names.
func readSettings(h *host.Host, in instance) (settings, error) {
	r := reader{
		host: h, settings: settings{root: in.root, main: in.Main}, defines: map[string]string{}, env: environment(h, in),
		includes: conf.Includes{From: h.Files, Depth: maxDepth, Most: maxFiles},
	}
	r.modules = map[string]string{"core.c": "", "core_module": "", "mod_so.c": "", "so_module": "", "http_core.c": "", "http_module": ""}
	for _, m := range in.builtIn {
		r.modules["mod_"+m+".c"], r.modules[m+"_module"] = "", ""
	}
	for _, d := range commandDefines(h, in, r.env) {
		r.defines[d] = ""
	}
	r.version = versionNumber(h)
	err := r.file(in.Main, nil)
	r.files = r.includes.Read
	return r.settings, err
}

type reader struct {
	settings
	host     *host.Host
	includes conf.Includes
	defines  map[string]string
	env      map[string]string
	version  string   // httpd's version; "" if unknown
	doubts   []string // why the current lines may not apply, outermost first
	macros   map[string]macro
	using    []string // positions of the current Use lines, outermost first
	uses     int
	hosts    int // number of virtual hosts so far
	server   int // the current server; 0 is the main server
}

// file reads one file; context has the sections around its include.
func (r *reader) file(name string, context []string) error {
	return r.includes.File(name, func(text string) error { return r.text(name, text, context) })
}

func (r *reader) text(name, text string, context []string) error {
	lines, err := scan(text)
	if err != nil {
		return fmt.Errorf("%s:%w", name, err)
	}
	context = slices.Clone(context)
	type section struct {
		line
		scopes, doubted bool
	}
	var sections []section
	skip := 0 // nesting depth of skipped sections
	for _, l := range lines {
		at := fmt.Sprintf("%s:%d", name, l.number)
		switch {
		case strings.HasPrefix(l.name, "</"):
			if len(sections) == 0 || sections[len(sections)-1].name != "<"+l.name[2:] {
				return fmt.Errorf("%s: %s> without a matching opening tag", at, l.name)
			}
			last := sections[len(sections)-1]
			sections = sections[:len(sections)-1]
			if skip > 0 {
				if skip--; skip == 0 && last.name == "<macro" {
					r.define(name, text, last.line, l)
				}
			} else if last.doubted {
				r.doubts = r.doubts[:len(r.doubts)-1]
			} else if last.scopes {
				context = context[:len(context)-1]
				if last.name == "<virtualhost" {
					r.server = 0
				}
			}
		case skip == 0 && !isDirective(strings.TrimPrefix(l.name, "<")):
			return fmt.Errorf("%s: %.60q is not a directive name", at, l.name)
		case strings.HasPrefix(l.name, "<"):
			if len(sections) >= maxDepth {
				return fmt.Errorf("%s: sections nest more than %d deep", at, maxDepth)
			}
			s := section{line: l}
			switch kind := l.name[1:]; {
			case skip > 0, kind == "macro":
				skip++
			case conditional(kind):
				switch is, unknown := r.holds(kind, r.resolve(l.args)); is {
				case conf.No:
					skip++
				case conf.Perhaps:
					s.doubted = true
					r.doubts = append(r.doubts, fmt.Sprintf("%s: inside %s %s>: %s", at, sectionNames[kind], l.args, unknown))
				case conf.Yes:
				}
			default:
				s.scopes = true
				context = append(context, scope(kind, r.resolve(l.args)))
				if kind == "virtualhost" {
					r.hosts++
					r.server = r.hosts
				}
			}
			sections = append(sections, s)
		case skip > 0:
		default:
			if slices.Contains(logDirectives, l.name) {
				r.keepLog(name, text, l)
			}
			switch l.name {
			case "use":
				if err := r.use(name, l, context); err != nil {
					return fmt.Errorf("%s: %w", at, err)
				}
				continue
			case "undefmacro":
				delete(r.macros, strings.ToLower(strings.Join(words(r.resolve(l.args)), " ")))
			}
			if err := r.directive(name, l, context); err != nil {
				return fmt.Errorf("%s: %w", at, err)
			}
		}
	}
	if len(sections) > 0 {
		last := sections[len(sections)-1]
		return fmt.Errorf("%s:%d: %s> is not closed", name, last.number, last.name)
	}
	return nil
}

// directive records a directive that applies.
func (r *reader) directive(file string, l line, context []string) error {
	value := r.resolve(l.args)
	args := words(value)
	arg := func(n int) string {
		if n < len(args) {
			return args[n]
		}
		return ""
	}
	switch l.name {
	case "include", "includeoptional":
		return r.include(arg(0), l.name == "include", context)
	case "define":
		r.defines[arg(0)] = arg(1)
	case "undefine":
		delete(r.defines, arg(0))
	case "serverroot":
		if strings.HasPrefix(arg(0), "/") {
			r.root = path.Clean(arg(0))
		}
	case "loadmodule":
		r.load(arg(0), arg(1), fmt.Sprintf("%s:%d", file, l.number))
	case "listen":
		r.listen = append(r.listen, arg(0))
	}
	if len(r.using) > 0 && len(context) > 0 {
		return nil
	}
	prefix := ""
	for _, c := range context {
		prefix += c + "/"
	}
	key, err := syntax{}.Key(prefix + l.name)
	if err != nil {
		return nil //nolint:nilerr // not the name of an option
	}
	if len(r.all) >= maxSettings {
		return fmt.Errorf("more than %d directives", maxSettings)
	}
	r.all = append(r.all, conf.Place{File: file, Assignment: conf.Assignment{Key: key, Literal: l.args, Line: l.number, From: l.from, To: l.to}})
	r.values = append(r.values, strings.Join(args, " "))
	doubt := ""
	switch {
	case len(r.using) > 0:
		doubt = fmt.Sprintf("%s:%d sets %s in a macro (Use at %s), which fettle cannot change", file, l.number, name(l.name), r.using[0])
	case len(r.doubts) > 0:
		doubt = r.doubts[0]
	}
	r.unsure = append(r.unsure, doubt)
	return nil
}

// load records a loaded module under its two names for IfModule: identifier and source file.
func (r *reader) load(identifier, file, at string) {
	r.modules[identifier] = at
	if mpm, ok := strings.CutPrefix(identifier, "mpm_"); ok {
		r.mpm, r.mpmAt = strings.TrimSuffix(mpm, "_module"), at
		r.modules[r.mpm+".c"] = at // its source file is not mod_mpm_NAME.c
		return
	}
	r.modules[strings.TrimSuffix(path.Base(file), ".so")+".c"] = at
}

// resolve replaces ${NAME} with a definition or an environment variable. Like httpd, it keeps
// undefined ones.
func (r *reader) resolve(text string) string {
	var b strings.Builder
	for {
		i := strings.Index(text, "${")
		if i < 0 {
			break
		}
		end := strings.IndexByte(text[i:], '}')
		if end < 0 {
			break
		}
		name := text[i+2 : i+end]
		value, ok := r.defines[name]
		if !ok {
			value, ok = r.env[name]
		}
		b.WriteString(text[:i])
		if ok {
			b.WriteString(value)
		} else {
			b.WriteString(text[i : i+end+1])
		}
		text = text[i+end+1:]
		if b.Len() > 1<<16 {
			break // a value that grows without end
		}
	}
	b.WriteString(text)
	return b.String()
}

func (r *reader) path(name string) string {
	if strings.HasPrefix(name, "/") {
		return path.Clean(name)
	}
	return path.Join(r.root, name)
}

// include reads files in name order, and directories recursively.
func (r *reader) include(name string, must bool, context []string) error {
	pattern := r.path(name)
	if !strings.ContainsAny(pattern, "*?[") {
		st, err := r.host.Files.Stat(pattern)
		if err == nil && st.IsDir() {
			return r.dir(pattern, context)
		}
		if errors.Is(err, fs.ErrNotExist) && !must {
			return nil
		}
		return r.file(pattern, context)
	}
	found, err := host.Glob(r.host.Files, pattern)
	if err == nil && len(found) == 0 {
		err = r.uncopied(pattern, must)
	}
	if err != nil {
		return err
	}
	hidden := strings.HasPrefix(path.Base(pattern), ".")
	for _, f := range found {
		if strings.HasPrefix(path.Base(f), ".") && !hidden {
			continue
		}
		if st, err := r.host.Files.Stat(f); err == nil && st.IsDir() {
			if err := r.dir(f, context); err != nil {
				return err
			}
			continue
		}
		if err := r.file(f, context); err != nil {
			return err
		}
	}
	return nil
}

// uncopied returns an error if a copied machine lacks the directory of a pattern: the matching
// files are then unknown. For IncludeOptional (must is false) the directory may be missing if its
// parent was copied.
func (r *reader) uncopied(pattern string, must bool) error {
	dir := pattern
	for strings.ContainsAny(dir, "*?[") {
		dir = path.Dir(dir)
	}
	_, err := r.host.Files.ReadDir(dir)
	if _, above := r.host.Files.ReadDir(path.Dir(dir)); !must && above == nil {
		return nil
	}
	if host.Unknown(err) {
		return host.NotRecorded(dir)
	}
	return nil
}

func (r *reader) dir(name string, context []string) error {
	return r.includes.Dir(name, func(paths []string) error {
		for _, f := range paths {
			st, err := r.host.Files.Stat(f)
			switch {
			case err != nil:
			case st.IsDir():
				err = r.dir(f, context)
			default:
				err = r.file(f, context)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}
