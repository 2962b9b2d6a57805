package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ParseArchive parses the text of an archive. name is used in messages.
func ParseArchive(name string, text []byte) (*Host, error) { return parseArchive(name, string(text)) }

// parseArchive is ParseArchive for a string. The paths and contents of the host are parts of it.
func parseArchive(name, text string) (*Host, error) {
	heads := headings(text)
	entries := min(len(heads), maxArchiveEntries)
	p := archiveParser{archive: newArchive(entries), text: text, rest: text, heads: heads, order: make([]archivedPath, 0, entries)}
	if err := p.parse(name); err != nil {
		if errors.Is(err, errNoArchive) {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return nil, fmt.Errorf("%s:%d: %w", name, p.line(p.at), err)
	}
	return p.archive.host(name), nil
}

func (a *archive) host(name string) *Host {
	return &Host{Name: name, Files: archivedFiles{a}, Exec: archivedExec{a}, Clock: archivedClock{a}, Net: archivedNet{a}, Sched: noSched{}, Querier: archivedQuerier{a}, SpaceReader: archivedSpace{a}, Incomplete: a.incomplete}
}

var errNoArchive = fmt.Errorf("not a fettle archive: the first line must be %q", archiveHeading)

type archiveParser struct {
	*archive
	text  string
	rest  string   // what is left of it
	heads []int    // where the headings begin that are left
	at    int      // where the heading being parsed begins
	words []string // of that heading
	order []archivedPath
	slab  []entry // room for entries
	last  string  // key of the command to which a stderr entry belongs
	ran   bool    // the previous entry is that command
	root  bool    // the archive has an entry for "/"
	cut   string  // dropped last entry of a truncated archive
}

type archivedPath struct {
	path string
	*entry
}

// headings returns where the headings of a text begin.
func headings(text string) []int {
	const heading = "\n-- "
	var heads []int
	for at := 0; ; {
		i := strings.Index(text[at:], heading)
		if i < 0 {
			return heads
		}
		if heads == nil {
			heads = make([]int, 0, min(len(text)/64, maxArchiveEntries))
		}
		at += i + 1
		heads = append(heads, at)
	}
}

// newEntry returns a pointer to a copy of e. It allocates entries in blocks of 128.
func (p *archiveParser) newEntry(e entry) *entry {
	if len(p.slab) == 0 {
		p.slab = make([]entry, 128)
	}
	p.slab[0] = e
	out := &p.slab[0]
	p.slab = p.slab[1:]
	return out
}

// line returns the number, from 1, of the line that begins at an offset.
func (p *archiveParser) line(at int) int { return 1 + strings.Count(p.text[:at], "\n") }

// offset returns where the rest begins.
func (p *archiveParser) offset() int { return len(p.text) - len(p.cut) - len(p.rest) }

func (p *archiveParser) parse(name string) error {
	switch strings.TrimSuffix(p.takeLine(), "\r") {
	case archiveHeading:
		if err := p.checkEndMark(); err != nil {
			return err
		}
	case archiveHeadingV1:
	default:
		return errNoArchive
	}
	for len(p.rest) > 0 && !strings.HasPrefix(p.rest, "-- ") {
		line := p.takeLine()
		if stamp, ok := strings.CutPrefix(line, "time "); ok {
			t, err := time.Parse(time.RFC3339Nano, stamp)
			if err != nil {
				return fmt.Errorf("time %q is not RFC 3339", stamp)
			}
			p.time = t
		} else if line != "" && line[0] != '#' {
			return fmt.Errorf("want an entry (-- file /path --), found %.80q", line)
		}
	}
	for len(p.rest) > 0 {
		if len(p.entries) > maxArchiveEntries {
			return fmt.Errorf("more than %d entries", maxArchiveEntries)
		}
		line := p.takeLine()
		head, ok := strings.CutSuffix(line, " --")
		if !ok {
			return fmt.Errorf(`heading %.80q does not end with " --"`, line)
		}
		var err error
		if p.words, err = splitHeading(p.words[:0], strings.TrimPrefix(head, "-- ")); err != nil {
			return err
		}
		if err := p.entry(p.words, p.takeContent()); err != nil {
			return err
		}
		p.ran = p.words[0] == "run"
	}
	if p.cut != "" {
		p.markIncomplete(name)
	}
	return p.checkParents()
}

// takeLine returns the next line without its newline, and notes where it began.
func (p *archiveParser) takeLine() string {
	p.at = p.offset()
	line, rest, _ := strings.Cut(p.rest, "\n")
	p.rest = rest
	return line
}

// takeContent returns the lines up to the next heading.
func (p *archiveParser) takeContent() string {
	from, to := p.offset(), p.offset()+len(p.rest)
	for len(p.heads) > 0 && p.heads[0] < from {
		p.heads = p.heads[1:]
	}
	if len(p.heads) > 0 {
		to = min(to, p.heads[0])
	}
	content := p.rest[:to-from]
	p.rest = p.rest[to-from:]
	return content
}

// splitHeading splits a heading at single spaces and appends its words. A quoted Go string, or the
// JSON form of a command, is one word.
func splitHeading(words []string, s string) ([]string, error) {
	for s != "" {
		switch s[0] {
		case '"':
			q, err := strconv.QuotedPrefix(s)
			if err != nil {
				return nil, fmt.Errorf("bad quotes in %.80q", s)
			}
			u, err := strconv.Unquote(q)
			if err != nil {
				return nil, fmt.Errorf("bad quotes in %.80q", s)
			}
			words = append(words, u)
			s = s[len(q):]
		case '[':
			return append(words, s), nil
		default:
			w, _, _ := strings.Cut(s, " ")
			words = append(words, w)
			s = s[len(w):]
		}
		if s != "" {
			if s[0] != ' ' || len(s) == 1 {
				return nil, fmt.Errorf("the words of a heading must be separated by exactly one space")
			}
			s = s[1:]
		}
	}
	if len(words) == 0 {
		return nil, errors.New("empty heading")
	}
	return words, nil
}

// entry parses one entry, given the words of its heading and its content.
func (p *archiveParser) entry(words []string, content string) error {
	kind, words := words[0], words[1:]
	switch kind {
	case "link":
		if len(words) != 3 || words[1] != "->" {
			return errors.New("want a link entry of the form -- link /path -> target --")
		}
		if words[2] == "" || len(words[2]) > 4096 || strings.ContainsRune(words[2], 0) {
			return fmt.Errorf("link target %.80q is not a path", words[2])
		}
		return p.add(words[0], p.newEntry(entry{mode: fs.ModeSymlink | 0o777, target: words[2]}), content)
	case "absent":
		if len(words) != 1 {
			return errors.New("want an entry of the form -- absent /path --")
		}
		return p.add(words[0], p.newEntry(entry{absent: true}), content)
	case "program":
		if len(words) != 2 || len(content) > 0 {
			return errors.New("want a program entry of the form -- program name /path -- or -- program name absent --")
		}
		if _, dup := p.programs[words[0]]; dup {
			return fmt.Errorf("program %s occurs twice", words[0])
		}
		if words[1] == "absent" {
			words[1] = ""
		}
		p.programs[words[0]] = words[1]
		return nil
	case "links":
		return p.parseLinks(words, content)
	case "net":
		return p.parseNet(words, content)
	case "end":
		return p.end(words, content)
	}
	h, err := parseHeading(kind, words)
	if err != nil {
		return err
	}
	data, err := h.decode(content)
	if err != nil {
		return err
	}
	switch kind {
	case "run":
		return p.run(h, data)
	case "ask":
		if _, dup := p.asks[h.name]; dup {
			return fmt.Errorf("query %q occurs twice", h.name)
		}
		p.asks[h.name] = []byte(data)
		return nil
	case "stderr":
		r, ok := p.commands[p.last]
		if !ok || h.name != "" || r.Stderr != nil {
			return errors.New("a stderr entry must follow its run entry")
		}
		r.Stderr = []byte(data)
		p.commands[p.last] = r
		return nil
	}
	e := p.newEntry(entry{mode: h.mode, errno: h.errno})
	switch {
	case h.unread || h.errno != 0:
		if len(data) > 0 {
			return fmt.Errorf("%s is marked unread, but has content", h.name)
		}
	case e.mode.IsDir():
		e.listed = true
		return p.add(h.name, e, data)
	case e.mode.Type() == fs.ModeIrregular:
		return fmt.Errorf("%s: a denied entry needs an errno name", h.name)
	default:
		e.data, e.read = data, true
		return p.add(h.name, e, "")
	}
	return p.add(h.name, e, "")
}

func (p *archiveParser) run(h heading, stdout string) error {
	var argv []string
	if err := json.Unmarshal([]byte(h.name), &argv); err != nil || len(argv) == 0 {
		return errors.New(`want a command entry of the form -- run EXIT ["program","argument"] --`)
	}
	key := commandKey(argv)
	if _, dup := p.commands[key]; dup {
		return fmt.Errorf("command %s occurs twice", key)
	}
	p.commands[key] = Result{Stdout: []byte(stdout), ExitCode: h.exit}
	p.last = key
	return nil
}

func (p *archiveParser) add(name string, e *entry, extra string) error {
	if err := cleanPath(name); err != nil {
		return err
	}
	if strings.TrimSpace(extra) != "" {
		return fmt.Errorf("%s has content, but is not the entry of a file", name)
	}
	if name == "/" {
		if p.root || !e.mode.IsDir() || e.absent {
			return errors.New("/ occurs twice, or is not a directory")
		}
		p.root = true
	} else if p.entries[name] != nil {
		return fmt.Errorf("%s occurs twice", name)
	}
	p.put(name, e)
	p.order = append(p.order, archivedPath{name, e})
	return nil
}

// checkParents creates missing parents of entries. It returns an error for the first entry, by
// name, that is below a path that is not a directory.
func (p *archiveParser) checkParents() error {
	below := ""      // first name with a wrong parent
	proper := "\x00" // the directory of the name before, which is right
	for _, o := range p.order {
		if o.absent {
			continue
		}
		dir, _ := parentOf(o.path)
		switch {
		case dir == proper:
		case p.wrongParent(o.path) == "":
			proper = dir
		case below == "" || o.path < below:
			below = o.path
		}
	}
	if below != "" {
		return fmt.Errorf("%s is below %s, which is not a directory", below, p.wrongParent(below))
	}
	for _, o := range p.order {
		if o.absent {
			continue
		}
		for dir, _ := parentOf(o.path); p.entries[dir] == nil; dir, _ = parentOf(dir) {
			p.put(dir, p.newEntry(entry{mode: fs.ModeDir | 0o755}))
		}
	}
	return nil
}

// wrongParent returns the nearest entry above a name if it is not a directory, or "".
func (p *archiveParser) wrongParent(name string) string {
	for name != "/" {
		name, _ = parentOf(name)
		if e := p.entries[name]; e != nil {
			if e.absent || !e.mode.IsDir() {
				return name
			}
			return ""
		}
	}
	return ""
}

// heading holds the words of a heading between the type and the path.
type heading struct {
	mode           fs.FileMode
	errno          syscall.Errno
	exit           int
	noeol, escaped bool
	unread         bool
	name           string
}

func parseHeading(kind string, words []string) (heading, error) {
	var h heading
	known := kind == "run" || kind == "stderr" || kind == "ask"
	for _, t := range archiveTypes {
		if t.word == kind {
			h.mode, known = t.mode|0o644, true
			if t.mode == fs.ModeDir {
				h.mode = fs.ModeDir | 0o755
			}
		}
	}
	if !known {
		return h, fmt.Errorf("unknown entry type %.40q", kind)
	}
	if kind != "stderr" {
		if len(words) == 0 {
			return h, fmt.Errorf("%s entry without a path", kind)
		}
		h.name, words = words[len(words)-1], words[:len(words)-1]
	}
	for i, w := range words {
		errno, isErrno := errnoByName()[w]
		switch {
		case w == "noeol":
			h.noeol = true
		case w == "escaped":
			h.escaped = true
		case w == "unread":
			h.unread = true
		case isErrno && kind != "run":
			h.errno = errno
		case kind == "run" && i == 0:
			n, err := strconv.Atoi(w)
			if err != nil {
				return h, fmt.Errorf("exit code %.40q is not a number", w)
			}
			h.exit = n
		case i == 0 && kind != "stderr":
			bits, err := strconv.ParseUint(w, 8, 12)
			if err != nil {
				return h, fmt.Errorf("mode %.40q is not octal permission bits", w)
			}
			h.mode = h.mode.Type() | fileMode(uint32(bits))
		default:
			return h, fmt.Errorf("unknown word %.40q in a heading (noeol, escaped, unread, or an errno's name)", w)
		}
	}
	return h, nil
}

func (h heading) decode(content string) (string, error) {
	if h.noeol {
		content = strings.TrimSuffix(content, "\n")
	}
	if h.escaped {
		return unescape(content)
	}
	return content, nil
}
