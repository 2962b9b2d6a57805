// Package platform answers the inputs of rules for a machine. Its sources are facts, products, and
// data of single platforms. Each package below it has one platform's sources.
package platform

import (
	"context"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/engine/override"
	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// Source answers the inputs with one prefix.
type Source struct {
	// Prefix is the part of its inputs' names before the first dot. It is unique.
	Prefix string
	Inputs []fact.Input
	Sets   []string
	// Open reads the data for the answers. It is called at the first input, at most once per
	// subject.
	Open func(context.Context, *Subject) Answers
}

// Answers is an opened source.
type Answers interface {
	// Answer answers an input. For an input of a set, the item replaces the "*" in its name.
	Answer(input string) fact.Answer
	// Items lists the items of a set. unknown is the reason why the list is incomplete, or "".
	Items(set string) (names []string, unknown string)
}

// Subject is the audited machine in the form that rules read.
type Subject struct {
	Host  *host.Host
	Kinds setting.Kinds // of the settings that rules name
	// InForce returns the profiles that fettle has in force. It is nil if the journal is
	// unavailable.
	InForce func() ([]string, error)
	// Planned returns the kernel files that profiles would set on this machine. It is nil if they
	// cannot be planned.
	Planned func(ctx context.Context, profiles []string) ([]string, error)
	// RunsDir is the directory of fettle's measurements on the machine.
	RunsDir string
	// Probe sends requests to servers named by the user, and returns answers by input. It is nil
	// if not requested, and is called once.
	Probe func(context.Context) map[string]fact.Answer
	// DryRun allows running programs to check how they parse their files (product.Prober).
	DryRun bool
	// Earlier is an earlier measurement of the file systems, or nil.
	Earlier *Earlier
	// LogBytes is the number of bytes read at the end of each log; 0 means all.
	LogBytes int64
	// Unread has the number of unread bytes of logs, by file.
	Unread map[string]int64

	ctx     context.Context
	index   *fact.Index
	claims  *override.Claims
	sources map[string]*Source
	open    map[string]Answers
}

// Earlier is an earlier measurement of the machine's file systems.
type Earlier struct {
	From        string    // file of the measurement
	Time        time.Time // zero if unknown
	FileSystems []fact.FileSystem
}

// LogTail is the default of Subject.LogBytes, in bytes.
const LogTail = 16 << 20

// RunsDir is the default directory of fettle's runs.
const RunsDir = "/var/lib/fettle/runs"

// NewSubject returns a machine that answers inputs from the sources until ctx ends. It runs each
// program once.
func NewSubject(ctx context.Context, h *host.Host, kinds setting.Kinds, sources []Source) *Subject {
	s := &Subject{Host: host.CacheExec(h), Kinds: kinds, LogBytes: LogTail, Unread: map[string]int64{}, RunsDir: RunsDir, ctx: ctx, sources: map[string]*Source{}, open: map[string]Answers{}}
	for i := range sources {
		s.sources[sources[i].Prefix] = &sources[i]
	}
	return s
}

// Inputs lists the inputs and sets of the sources.
func Inputs(sources []Source) (inputs []fact.Input, sets []string) {
	for _, s := range sources {
		inputs = append(inputs, s.Inputs...)
		sets = append(sets, s.Sets...)
	}
	return inputs, sets
}

// Facts returns the machine's facts, read once.
func (s *Subject) Facts() *fact.Index {
	if s.index == nil {
		s.index = fact.Collect(s.Host).Index()
	}
	return s.index
}

// Claims returns the settings in the machine's files. It reads them once. Errors in some files do
// not hide the claims of others.
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

// Log calls each for every line of a log, or of its end (LogBytes). before is the number of unread
// bytes at the start.
func (s *Subject) Log(p string, each func(line []byte)) (before int64, err error) {
	before, err = s.Host.Lines(p, s.LogBytes, each)
	if before > 0 {
		s.Unread[p] = before
	}
	return before, err
}

// Counted returns the answer for a count in logs. If only the end of a log was read (cut), a count
// of 0 is unknown, and any other is a lower bound.
func (s *Subject) Counted(n int, at string, cut ...string) fact.Answer {
	ends := internaltext.Sprintf("in the last %d MiB of %s", s.LogBytes>>20, strings.Join(cut, ", "))
	switch {
	case len(cut) == 0:
		return fact.Answer{Value: float64(n), At: at}
	case n == 0:
		return fact.Answer{Unknown: "not found " + ends + "; --logs all reads the rest", At: at}
	}
	return fact.Answer{Value: float64(n), At: at, LowerBound: "counted only " + ends + "; --logs all reads the rest"}
}

// Answer implements fact.MachineTree.
func (s *Subject) Answer(input string) fact.Answer {
	a, ok := s.source(input)
	if !ok {
		return fact.Answer{Unknown: "no source contains this fact"}
	}
	return a.Answer(input)
}

// Items implements fact.MachineTree.
func (s *Subject) Items(set string) (names []string, unknown string) {
	a, ok := s.source(set)
	if !ok {
		return nil, "no source lists this set"
	}
	return a.Items(set)
}

// Read implements fact.MachineTree: it returns the current value of a setting.
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
	if as == fact.Number && strings.ContainsAny(text, "eExXpPiInN_+") { // the kernel does not write such numbers
		return fact.Answer{Unknown: at + " is " + strconv.Quote(text) + ", which is not a number", At: at}
	}
	return Typed(text, as, at)
}

// Typed parses text as a type.
func Typed(text string, as fact.Type, at string) fact.Answer {
	bad := func(want string) fact.Answer {
		return fact.Answer{Unknown: at + " is " + strconv.Quote(text) + ", which is not a " + want, At: at}
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
