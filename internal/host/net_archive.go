package host

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// netKey identifies a recorded parameter group of a network device.
type netKey struct {
	device string
	group  NetGroup
}

type netAnswer struct {
	params []NetParam
	errno  syscall.Errno
}

// archivedNet replays recorded network devices.
type archivedNet struct{ a *archive }

func (n archivedNet) Links() ([]Link, error) {
	if !n.a.linked {
		return nil, notRecordedNet("list")
	}
	return slices.Clone(n.a.links), nil
}

func (n archivedNet) Link(name string) (Link, error) {
	for _, l := range n.a.links {
		if l.Name == name || slices.Contains(l.AltNames, name) {
			return l, nil
		}
	}
	if n.a.linked {
		return Link{}, noDevice(name)
	}
	return Link{}, notRecordedNet(name)
}

func (n archivedNet) Params(device string, g NetGroup) ([]NetParam, error) {
	l, err := n.Link(device)
	if err == nil {
		device = l.Name
	} else if !Unknown(err) {
		return nil, err
	}
	a, ok := n.a.params[netKey{device, g}]
	switch {
	case !ok:
		return nil, notRecordedNet(device + ": " + string(g))
	case a.errno != 0:
		return nil, netError(device, string(g), a.errno)
	}
	return slices.Clone(a.params), nil
}

func (archivedNet) SetParam(device string, _ NetGroup, name, _ string) error {
	return readOnly("set "+name, device)
}
func (archivedNet) HoldTimestamping() (io.Closer, error) { return nil, ErrReadOnly }

// recordingNet records and returns the machine's answers.
type recordingNet struct {
	r     *answerRecorder
	inner Net
}

func (n recordingNet) Links() ([]Link, error) {
	n.r.mu.Lock()
	defer n.r.mu.Unlock()
	return n.list()
}

func (n recordingNet) list() ([]Link, error) {
	if !n.r.linked {
		links, err := n.inner.Links()
		if err != nil {
			return nil, err
		}
		n.r.links, n.r.linked = links, true
	}
	return archivedNet{n.r.archive}.Links()
}

func (n recordingNet) Link(name string) (Link, error) {
	n.r.mu.Lock()
	defer n.r.mu.Unlock()
	if _, err := n.list(); err != nil {
		return Link{}, err
	}
	return archivedNet{n.r.archive}.Link(name)
}

func (n recordingNet) Params(device string, g NetGroup) ([]NetParam, error) {
	n.r.mu.Lock()
	defer n.r.mu.Unlock()
	if _, err := n.list(); err != nil {
		return nil, err
	}
	l, err := archivedNet{n.r.archive}.Link(device)
	if err != nil {
		return nil, err
	}
	key := netKey{l.Name, g}
	if _, ok := n.r.params[key]; !ok {
		params, err := n.inner.Params(l.Name, g)
		switch {
		case Unknown(err):
			return nil, err
		case err != nil:
			n.r.params[key] = netAnswer{errno: errnoOf(err)}
		default:
			n.r.params[key] = netAnswer{params: params}
		}
	}
	return archivedNet{n.r.archive}.Params(device, g)
}

func (recordingNet) SetParam(device string, _ NetGroup, name, _ string) error {
	return readOnly("set "+name, device)
}
func (recordingNet) HoldTimestamping() (io.Closer, error) { return nil, ErrReadOnly }

// writeNet writes the recorded network devices (archive_text.go describes the format).
func (a *archive) writeNet(b *bytes.Buffer) {
	if a.linked {
		b.WriteString("-- links --\n")
		for _, l := range a.links {
			fmt.Fprintf(b, "%s index=%d", quoteName(l.Name), l.Index)
			for _, f := range []struct{ key, value string }{{"kind", l.Kind}, {"driver", l.Driver}, {"parent", l.Parent}} {
				if f.value != "" {
					fmt.Fprintf(b, " %s=%s", f.key, quotePath(f.value))
				}
			}
			for _, alt := range l.AltNames {
				fmt.Fprintf(b, " altname=%s", quotePath(alt))
			}
			b.WriteByte('\n')
		}
	}
	keys := make([]netKey, 0, len(a.params))
	for k := range a.params {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(x, y netKey) int {
		if x.device != y.device {
			return strings.Compare(x.device, y.device)
		}
		return slices.Index(NetGroups, x.group) - slices.Index(NetGroups, y.group)
	})
	for _, k := range keys {
		answer := a.params[k]
		if answer.errno != 0 {
			fmt.Fprintf(b, "-- net %s %s %s --\n", quotePath(k.device), k.group, errnoName(answer.errno))
			continue
		}
		fmt.Fprintf(b, "-- net %s %s --\n", quotePath(k.device), k.group)
		for _, p := range answer.params {
			fmt.Fprintf(b, "%s=%s", p.Name, quotePath(p.Value))
			if p.Requested != "" {
				b.WriteString(" requested=" + quotePath(p.Requested))
			}
			if p.Max != "" {
				b.WriteString(" max=" + quotePath(p.Max))
			}
			if p.Fixed {
				b.WriteString(" fixed")
			}
			b.WriteByte('\n')
		}
	}
}

// quoteName quotes a device name that could be misread. The kernel allows almost every byte
// (net/core/dev.c, dev_valid_name).
func quoteName(name string) string {
	if strings.ContainsAny(name, `="`) {
		return strconv.Quote(name)
	}
	return quotePath(name)
}

// maxArchiveLinks limits the number of network devices in an archive.
const maxArchiveLinks = 100_000

func (p *archiveParser) parseLinks(words []string, content string) error {
	if len(words) != 0 || p.linked {
		return errors.New("want exactly one -- links -- entry with all network devices")
	}
	p.linked = true
	seen := map[string]bool{}
	for line := range strings.Lines(content) {
		l, err := parseLink(strings.TrimSuffix(line, "\n"))
		if err != nil {
			return err
		}
		for _, name := range append([]string{l.Name}, l.AltNames...) {
			if name == "" || seen[name] {
				return fmt.Errorf("network device %.40q occurs twice, or has no name", name)
			}
			seen[name] = true
		}
		if p.links = append(p.links, l); len(p.links) > maxArchiveLinks {
			return fmt.Errorf("more than %d network devices", maxArchiveLinks)
		}
	}
	return nil
}

// parseLink parses a line such as "eth0 index=2 kind=device altname=...".
func parseLink(line string) (Link, error) {
	words, err := netWords(line)
	if err != nil {
		return Link{}, err
	}
	l := Link{Name: words[0].value}
	if words[0].key != "" {
		return l, fmt.Errorf("network device %.80q does not begin with its name", line)
	}
	for _, w := range words[1:] {
		switch w.key {
		case "index":
			if l.Index, err = strconv.Atoi(w.value); err != nil || l.Index < 0 {
				return l, fmt.Errorf("index %.40q of network device %.40s is not a number", w.value, l.Name)
			}
		case "kind":
			l.Kind = w.value
		case "driver":
			l.Driver = w.value
		case "parent":
			l.Parent = w.value
		case "altname":
			l.AltNames = append(l.AltNames, w.value)
		default:
			return l, fmt.Errorf("unknown word %.40q of network device %.40s", w.key, l.Name)
		}
	}
	return l, nil
}

func (p *archiveParser) parseNet(words []string, content string) error {
	if len(words) < 2 || len(words) > 3 {
		return errors.New("want a parameter entry of the form -- net DEVICE GROUP --, or -- net DEVICE GROUP ERRNO -- for unreadable parameters")
	}
	key := netKey{words[0], NetGroup(words[1])}
	if _, dup := p.params[key]; dup || key.device == "" || !slices.Contains(NetGroups, key.group) {
		return fmt.Errorf("network device %.40s: group %.40q is unknown, or occurs twice", key.device, key.group)
	}
	var a netAnswer
	if len(words) == 3 {
		errno, ok := errnoByName()[words[2]]
		if !ok || len(content) > 0 {
			return fmt.Errorf("network device %.40s: want an errno name and no parameters below, got %.40q", key.device, words[2])
		}
		a.errno = errno
	}
	for line := range strings.Lines(content) {
		np, err := parseParam(strings.TrimSuffix(line, "\n"))
		if err != nil {
			return err
		}
		a.params = append(a.params, np)
	}
	p.params[key] = a
	return nil
}

// parseParam parses a line such as "rx=256 max=4096" or "tx-gso-robust=off fixed".
func parseParam(line string) (NetParam, error) {
	words, err := netWords(line)
	if err != nil {
		return NetParam{}, err
	}
	p := NetParam{Name: words[0].key, Value: words[0].value}
	if p.Name == "" {
		return p, fmt.Errorf("parameter %.80q: want NAME=VALUE", line)
	}
	for _, w := range words[1:] {
		switch {
		case w.key == "requested":
			p.Requested = w.value
		case w.key == "max":
			p.Max = w.value
		case w.key == "" && w.value == "fixed":
			p.Fixed = true
		default:
			return p, fmt.Errorf("parameter %.80q: only requested=, max= and fixed may follow", line)
		}
	}
	return p, nil
}

type netWord struct{ key, value string }

// netWords splits a line into words and "key=value" pairs. Values may be quoted Go strings.
func netWords(line string) ([]netWord, error) {
	var words []netWord
	for rest := line; ; {
		var w netWord
		if i := strings.IndexAny(rest, `= "`); i >= 0 && rest[i] == '=' {
			w.key, rest = rest[:i], rest[i+1:]
		}
		if strings.HasPrefix(rest, `"`) {
			q, err := strconv.QuotedPrefix(rest)
			if err != nil {
				return nil, fmt.Errorf("bad quotes in %.80q", line)
			}
			if w.value, err = strconv.Unquote(q); err != nil {
				return nil, fmt.Errorf("bad quotes in %.80q", line)
			}
			rest = rest[len(q):]
		} else {
			w.value, _, _ = strings.Cut(rest, " ")
			rest = rest[len(w.value):]
		}
		if w.value == "" && w.key == "" {
			return nil, fmt.Errorf("empty word in %.80q", line)
		}
		words = append(words, w)
		if rest == "" {
			return words, nil
		}
		if rest[0] != ' ' {
			return nil, fmt.Errorf("the words of %.80q must be separated by exactly one space", line)
		}
		rest = rest[1:]
	}
}
