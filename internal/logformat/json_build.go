package logformat

import (
	"fmt"
	"slices"
	"strings"
)

// JSONLines is the name of the format of JSON lines.
const JSONLines = "JSON lines"

// jsonBuilder builds a format from the names and sampled values of members.
type jsonBuilder struct {
	*sample
	f       *Format
	k       *jsonScanner
	product *jsonProduct
	times   []string // times in the logger prefix
	used    map[string]bool
	guesses []string
}

// JSON creates a format for JSON lines from the first lines of a log. It returns nil if no
// line is an object. The names and values of members determine their roles. units maps a
// duration whose unit cannot be detected to its unit in nanoseconds ("took": 1e6).
func JSON(lines [][]byte, units map[string]int64) *Format {
	s := sampleOf(lines)
	if len(s.rows) == 0 {
		return nil
	}
	b := newBuilder(s, JSONLines)
	b.build(units)
	return b.f
}

func newBuilder(s *sample, name string) *jsonBuilder {
	return &jsonBuilder{sample: s, used: map[string]bool{}, product: s.product(), f: &Format{Name: name, Source: "its members' names", backslash: true}, k: newJSONScanner()}
}

func (b *jsonBuilder) build(units map[string]int64) {
	b.sample.requests(b.product)
	b.duration(units)
	b.time()
	if b.k.front != nil && b.f.Field(FieldTime) < 0 {
		b.k.clock = len(b.f.Fields)
		b.f.Fields = append(b.f.Fields, Field{Name: FieldTime, Kind: Time, Layout: ISO, Source: "the time of " + b.k.front.name})
		// Caddy writes UTC without naming it (time_local: the server's time zone).
		utc := b.product != nil && strings.HasPrefix(b.product.name, "Caddy")
		if b.product == nil && b.f.Field(FieldDuration) >= 0 {
			b.guess("the time in the prefix of %s is when the response was sent", b.k.front.name)
		}
		b.f.NoZone, b.f.TimeIsEnd = !utc && !slices.ContainsFunc(b.times, zoned), true
	}
	for i := range roles {
		b.role(&roles[i])
	}
	for _, member := range b.list() {
		n := name(member)
		if reserved(n) {
			n = "member_" + n
		}
		if !b.used[member] && b.f.Field(n) < 0 {
			b.add(Field{Name: n}, member)
		}
	}
	b.requests()
	b.f.scan, b.f.json = b.k.scan, b.k
	b.why()
}

func (b *jsonBuilder) add(field Field, member string) {
	b.used[member] = true
	field.Source, field.Escape = member, JSONString
	b.k.add(member, len(b.f.Fields))
	b.f.Fields = append(b.f.Fields, field)
}

// taken reports whether a member already has a role.
func (b *jsonBuilder) taken(member string) bool {
	for _, f := range b.f.Fields {
		if f.Source == member {
			return f.Name != name(member) || reserved(f.Name)
		}
	}
	return false
}

// byName returns the members with a normalized name, in order.
func (b *jsonBuilder) byName(n string) (members []string) {
	for _, member := range b.list() {
		if normal(member) == n {
			members = append(members, member)
		}
	}
	return members
}

// role assigns a role to the first member with a matching name and matching values. Members of
// the known product take precedence.
func (b *jsonBuilder) role(r *role) {
	taken := ""
	try := func(member string, sure bool) {
		switch {
		case b.used[member] || !r.accepts(b.members[member]):
		case taken == "":
			taken = member
			b.add(r.field, member)
		case !sure && r.fits != nil && b.membersDiffer(taken, member):
			b.guess("%q is the %s, not %q", taken, r.field.Name, member)
		}
	}
	if b.product != nil {
		for _, member := range b.product.roles[r.field.Name] {
			try(member, true)
		}
		if taken != "" {
			return
		}
	}
	for _, n := range r.names {
		for _, member := range b.byName(n) {
			try(member, false)
		}
	}
}

// requests determines which members identify requests: the product's, or a request or URL
// together with a status, duration or method.
func (b *jsonBuilder) requests() {
	field := func(member string) int {
		return slices.IndexFunc(b.f.Fields, func(f Field) bool { return f.Source == member })
	}
	if b.product != nil && len(b.product.required) > 0 {
		for _, group := range b.product.requiredGroups() {
			var any []int
			for _, member := range group {
				if at := field(member); at >= 0 {
					any = append(any, at)
				}
			}
			b.k.required, b.k.dashCounts = append(b.k.required, any), true
		}
		if at := field(b.product.logger); at >= 0 {
			b.k.logger, b.k.prefix = at, []byte(b.product.prefix)
		}
	} else {
		for _, names := range [][]string{{FieldRequest, FieldURL}, {FieldStatus, FieldDuration, FieldMethod, FieldRequest}} {
			var any []int
			for _, n := range names {
				if at := b.f.Field(n); at >= 0 {
					any = append(any, at)
				}
			}
			if len(any) > 0 {
				b.k.required = append(b.k.required, any)
			}
		}
	}
	b.k.client, b.k.status, b.k.bytes = b.f.Field(FieldClient), b.f.Field(FieldStatus), b.f.Field(FieldBytes)
}

// why appends the reasons for the detection to the format.
func (b *jsonBuilder) why() {
	if b.product != nil {
		b.f.Why += "; members of " + b.product.name
	}
	if len(b.guesses) > 0 {
		b.f.Guessed = "that " + strings.Join(b.guesses, ", that ")
		b.f.Why += "; guessed: " + b.f.Guessed
	}
	d := b.f.Field(FieldDuration)
	switch {
	case d >= 0 && b.members[b.f.Fields[d].Source] != nil:
		b.f.Why += fmt.Sprintf("; %q is the duration, in %s", b.f.Fields[d].Source, UnitName(b.f.Fields[d].Unit))
	case d >= 0: // named by the user
		b.f.NoMember = len(b.members) < maxMembers
		b.f.Why += fmt.Sprintf("; --duration %s: no line has this member; members found: %s", b.f.Fields[d].Source, strings.Join(b.list(), ", "))
		for _, member := range b.list() {
			b.f.Members = append(b.f.Members, member)
			if !b.taken(member) && share(b.members[member], isDuration) >= nearlyAll {
				b.f.Numbers = append(b.f.Numbers, member)
			}
		}
	case b.f.UnitUnknown != "":
		b.f.Why += fmt.Sprintf("; the unit of %q is unknown; set it with --duration %s --unit s (or ms, us, ns)", b.f.UnitUnknown, b.f.UnitUnknown)
	}
}
