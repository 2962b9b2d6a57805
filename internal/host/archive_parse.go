package host

import (
	"bytes"
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
func ParseArchive(name string, text []byte) (*Host, error) {
	p := archiveParser{archive: newArchive(min(bytes.Count(text, []byte("\n-- ")), maxArchiveEntries)), rest: text}
	if err := p.parse(name); err != nil {
		if errors.Is(err, errNoArchive) {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return nil, fmt.Errorf("%s:%d: %w", name, p.line, err)
	}
	return p.archive.host(name), nil
}

func (a *archive) host(name string) *Host {
	return &Host{Name: name, Files: archivedFiles{a}, Exec: archivedExec{a}, Clock: archivedClock{a}, Net: archivedNet{a}, Sched: noSched{}, Querier: archivedQuerier{a}, SpaceReader: archivedSpace{a}, Incomplete: a.incomplete}
}

var errNoArchive = fmt.Errorf("not a fettle archive: the first line must be %q", archiveHeading)

type archiveParser struct {
	*archive
	rest []byte
	line int // of the heading being parsed, from 1
	next int
	last string // key of the command to which a stderr entry belongs
	ran  bool   // the previous entry is that command
	root bool   // the archive has an entry for "/"
	cut  []byte // dropped last entry of a truncated archive
}

func (p *archiveParser) parse(name string) error {
	p.next = 1
	switch string(bytes.TrimSuffix(p.takeLine(), []byte("\r"))) {
	case archiveHeading:
		if err := p.checkEndMark(); err != nil {
			return err
		}
	case archiveHeadingV1:
	default:
		return errNoArchive
	}
	for len(p.rest) > 0 && !bytes.HasPrefix(p.rest, []byte("-- ")) {
		line := string(p.takeLine())
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
		line := string(p.takeLine())
		head, ok := strings.CutSuffix(line, " --")
		if !ok {
			return fmt.Errorf(`heading %.80q does not end with " --"`, line)
		}
		words, err := splitHeading(strings.TrimPrefix(head, "-- "))
		if err != nil {
			return err
		}
		if err := p.entry(words, p.takeContent()); err != nil {
			return err
		}
		p.ran = words[0] == "run"
	}
	if p.cut != nil {
		p.markIncomplete(name)
	}
	return p.checkParents()
}

// takeLine returns the next line without its newline and counts it.
func (p *archiveParser) takeLine() []byte {
	p.line = p.next
	return p.skipLine()
}

// takeContent returns the lines up to the next heading.
func (p *archiveParser) takeContent() []byte {
	content := p.rest
	if bytes.HasPrefix(content, []byte("-- ")) {
		return nil
	}
	if i := bytes.Index(content, []byte("\n-- ")); i >= 0 {
		content = content[:i+1]
	}
	p.rest = p.rest[len(content):]
	p.next += bytes.Count(content, []byte("\n"))
	return content
}

func (p *archiveParser) skipLine() []byte {
	p.next++
	line, rest, _ := bytes.Cut(p.rest, []byte("\n"))
	p.rest = rest
	return line
}

// splitHeading splits a heading into words at single spaces. A quoted Go string, or the JSON
// form of a command, is one word.
func splitHeading(s string) ([]string, error) {
	words := make([]string, 0, 5) // few headings have more
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
func (p *archiveParser) entry(words []string, content []byte) error {
	kind, words := words[0], words[1:]
	switch kind {
	case "link":
		if len(words) != 3 || words[1] != "->" {
			return errors.New("want a link entry of the form -- link /path -> target --")
		}
		if words[2] == "" || len(words[2]) > 4096 || strings.ContainsRune(words[2], 0) {
			return fmt.Errorf("link target %.80q is not a path", words[2])
		}
		return p.add(words[0], &entry{mode: fs.ModeSymlink | 0o777, target: words[2]}, content)
	case "absent":
		if len(words) != 1 {
			return errors.New("want an entry of the form -- absent /path --")
		}
		return p.add(words[0], &entry{absent: true}, content)
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
		p.asks[h.name] = data
		return nil
	case "stderr":
		r, ok := p.commands[p.last]
		if !ok || h.name != "" || r.Stderr != nil {
			return errors.New("a stderr entry must follow its run entry")
		}
		r.Stderr = data
		p.commands[p.last] = r
		return nil
	}
	e := &entry{mode: h.mode, errno: h.errno}
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
		e.data = data
		return p.add(h.name, e, nil)
	}
	return p.add(h.name, e, nil)
}

func (p *archiveParser) run(h heading, stdout []byte) error {
	var argv []string
	if err := json.Unmarshal([]byte(h.name), &argv); err != nil || len(argv) == 0 {
		return errors.New(`want a command entry of the form -- run EXIT ["program","argument"] --`)
	}
	key := commandKey(argv)
	if _, dup := p.commands[key]; dup {
		return fmt.Errorf("command %s occurs twice", key)
	}
	p.commands[key] = Result{Stdout: stdout, ExitCode: h.exit}
	p.last = key
	return nil
}

func (p *archiveParser) add(name string, e *entry, extra []byte) error {
	if err := cleanPath(name); err != nil {
		return err
	}
	if len(bytes.TrimSpace(extra)) > 0 {
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
	return nil
}

// checkParents creates missing parents of entries. It returns an error if an entry is below a
// path that is not a directory: that of the first one by name.
func (p *archiveParser) checkParents() error {
	names := make([]string, 0, len(p.entries))
	below := "" // first name with a wrong parent
	for name, e := range p.entries {
		if e.absent {
			continue
		}
		names = append(names, name)
		if (below == "" || name < below) && p.wrongParent(name) != "" {
			below = name
		}
	}
	if below != "" {
		return fmt.Errorf("%s is below %s, which is not a directory", below, p.wrongParent(below))
	}
	for _, name := range names {
		for dir, _ := parentOf(name); p.entries[dir] == nil; dir, _ = parentOf(dir) {
			p.put(dir, &entry{mode: fs.ModeDir | 0o755})
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

func (h heading) decode(content []byte) ([]byte, error) {
	data := append([]byte{}, content...) // never nil: nil means unread
	if h.noeol {
		data = bytes.TrimSuffix(data, []byte("\n"))
	}
	if h.escaped {
		return unescape(data)
	}
	return data, nil
}
