// Package platform makes a machine answer the rules: it knows which source -
// facts, a product, what a platform reads beside them - has the answer to which
// input. The packages below bundle what makes one platform.
package platform

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/engine/override"
	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/unit"
)

// Source answers inputs.
type Source struct {
	// Prefix is the part before the first dot of all of its inputs; no other
	// source has it.
	Prefix string
	Inputs []fact.Input
	Sets   []string
	// Open reads what the answers need. It is called when the first rule asks, at
	// most once for a subject.
	Open func(context.Context, *Subject) Answers
}

// Answers is an opened source.
type Answers interface {
	// Answer is for one of the inputs, the "*" of a set replaced by an item.
	Answer(input string) fact.Answer
	// Items lists a set.
	Items(set string) (names []string, unknown string)
}

// Subject is a machine as the rules see it.
type Subject struct {
	Host  *host.Host
	Kinds setting.Kinds // for the settings that rules name
	// InForce answers the profiles that fettle has in force; nil where its journal
	// is not at hand.
	InForce func() ([]string, error)
	// Planned are the kernel's files that profiles would set here; nil where they cannot be
	// planned.
	Planned func(ctx context.Context, profiles []string) ([]string, error)
	// RunsDir is where fettle keeps what it has measured, on the machine.
	RunsDir string
	// Probe asks servers that a person has named, and returns what they have shown, by
	// the name of the input; nil where nobody wants them asked. It is called once.
	Probe func(context.Context) map[string]fact.Answer
	// DryRun reports whether programs are asked how they read their files
	// (product.Prober).
	DryRun bool
	// Earlier is what file systems of the machine held at another time; nil where nobody
	// has said.
	Earlier *Earlier
	// LogBytes is how much of the end of each log is read, in bytes; 0 is all of it.
	LogBytes int64
	// Unread is what of logs was not read, in bytes, by file.
	Unread map[string]int64

	ctx     context.Context
	index   *fact.Index
	claims  *override.Claims
	sources map[string]*Source
	open    map[string]Answers
}

// Earlier is a measurement of the machine's file systems before this one.
type Earlier struct {
	From        string    // the file that it is from
	Time        time.Time // zero where that is not known
	FileSystems []fact.FileSystem
}

// LogTail is how much of the end of each log is read unless somebody wants it all,
// in bytes.
const LogTail = 16 << 20

// RunsDir is where fettle keeps its runs by default.
const RunsDir = "/var/lib/fettle/runs"

// NewSubject makes a machine answer through the sources until ctx ends; of logs it
// reads the last LogTail, and each program is asked once.
func NewSubject(ctx context.Context, h *host.Host, kinds setting.Kinds, sources []Source) *Subject {
	s := &Subject{Host: host.CacheExec(h), Kinds: kinds, LogBytes: LogTail, Unread: map[string]int64{}, RunsDir: RunsDir, ctx: ctx, sources: map[string]*Source{}, open: map[string]Answers{}}
	for i := range sources {
		s.sources[sources[i].Prefix] = &sources[i]
	}
	return s
}

// Inputs lists what the sources answer, and the sets.
func Inputs(sources []Source) (inputs []fact.Input, sets []string) {
	for _, s := range sources {
		inputs = append(inputs, s.Inputs...)
		sets = append(sets, s.Sets...)
	}
	return inputs, sets
}

// Facts are the machine's, read once.
func (s *Subject) Facts() *fact.Index {
	if s.index == nil {
		s.index = fact.Collect(s.Host).Index()
	}
	return s.index
}

// Claims are the wishes of the machine's files for its settings, read once. What
// is wrong in the files hides no other of them.
func (s *Subject) Claims() *override.Claims {
	if s.claims == nil {
		s.claims, _ = override.Read(s.ctx, s.Host, s.Kinds)
	}
	return s.claims
}

func (s *Subject) source(name string) (Answers, bool) {
	prefix, _, _ := strings.Cut(name, ".")
	if a, ok := s.open[prefix]; ok {
		return a, true
	}
	source, ok := s.sources[prefix]
	if !ok {
		return nil, false
	}
	s.open[prefix] = source.Open(s.ctx, s)
	return s.open[prefix], true
}

// Log hands the lines of a log to each, or of its end (LogBytes), and notes what of
// it was not read: before, in bytes.
func (s *Subject) Log(p string, each func(line []byte)) (before int64, err error) {
	before, err = s.Host.Lines(p, s.LogBytes, each)
	if before > 0 {
		s.Unread[p] = before
	}
	return before, err
}

// Counted is the answer of a count in logs. cut are those of which only the end was
// read: none in them is not known to be none, and any number is at least that many.
func (s *Subject) Counted(n int, at string, cut ...string) fact.Answer {
	ends := fmt.Sprintf("in the last %d MiB of %s", s.LogBytes>>20, strings.Join(cut, ", "))
	switch {
	case len(cut) == 0:
		return fact.Answer{Value: float64(n), At: at}
	case n == 0:
		return fact.Answer{Unknown: "none " + ends + "; --logs all reads the rest", At: at}
	}
	return fact.Answer{Value: float64(n), At: at, LowerBound: "so many are " + ends + "; --logs all reads the rest"}
}

// Answer implements rule.Machine.
func (s *Subject) Answer(input string) fact.Answer {
	a, ok := s.source(input)
	if !ok {
		return fact.Answer{Unknown: "nothing here answers it"}
	}
	return a.Answer(input)
}

// Items implements rule.Machine.
func (s *Subject) Items(set string) (names []string, unknown string) {
	a, ok := s.source(set)
	if !ok {
		return nil, "nothing here lists it"
	}
	return a.Items(set)
}

// Read implements rule.Machine: what a setting holds now.
func (s *Subject) Read(name string, as fact.Type) fact.Answer {
	place, err := setting.Parse(name)
	if err == nil {
		place, err = s.Kinds.Resolve(place)
	}
	if err != nil {
		return fact.Answer{Unknown: err.Error()}
	}
	at := place.String()
	if files := s.Kinds.KernelFiles(place); len(files) > 0 {
		at = files[0]
	}
	v, err := s.Kinds.Read(s.ctx, place)
	if err != nil || v.Absent {
		return fact.Unread(at, err)
	}
	text := strings.TrimSpace(v.Text)
	if as == fact.Number && strings.ContainsAny(text, "eExXpPiInN_+") { // no number as the kernel writes one
		return fact.Answer{Unknown: at + " is " + strconv.Quote(text) + ", which is no number", At: at}
	}
	return Typed(text, as, at)
}

// Typed reads text as a type.
func Typed(text string, as fact.Type, at string) fact.Answer {
	bad := func(want string) fact.Answer {
		return fact.Answer{Unknown: at + " is " + strconv.Quote(text) + ", which is no " + want, At: at}
	}
	switch as {
	case fact.Number:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return bad("number")
		}
		return fact.Answer{Value: n, At: at}
	case fact.Bytes:
		n, err := unit.ParseSize(text)
		if err != nil {
			return bad("size")
		}
		return fact.Answer{Value: float64(n), At: at}
	case fact.Truth:
		switch strings.ToLower(text) {
		case "1", "y", "yes", "on", "true", "enabled":
			return fact.Answer{Value: true, At: at}
		case "0", "n", "no", "off", "false", "disabled":
			return fact.Answer{Value: false, At: at}
		}
		return bad("truth value")
	case fact.List:
		return fact.Answer{Value: strings.Fields(text), At: at}
	}
	return fact.Answer{Value: text, At: at}
}
