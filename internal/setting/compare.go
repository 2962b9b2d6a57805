package setting

// Comparison is how a value that is requested, or was written, relates to what a place
// reads.
type Comparison int

// The likenesses. Unclear is for texts that differ in a file of which it is not known
// how the kernel prints it: neither "in force" nor "not in force" would be known.
const (
	Different Comparison = iota
	Same
	Unclear
)

// Compare relates what is wanted of a setting to what it reads.
func (k Kinds) Compare(s Setting, want, read Value) Comparison {
	if want == read {
		return Same
	}
	kind, err := k.For(s)
	switch c, each := kind.(Comparer); {
	case err != nil || want.Absent != read.Absent || want.Unknown || read.Unknown:
		return Different
	case want.Absent:
		return Same
	case each:
		return c.Compare(s, want, read)
	case kind.Equal(want, read):
		return Same
	}
	return Different
}

// Equal reports whether a place that reads b has a.
func (k Kinds) Equal(s Setting, a, b Value) bool { return k.Compare(s, a, b) == Same }

// Compare implements Comparer.
func (k sysctl) Compare(s Setting, want, read Value) Comparison {
	p, err := SysctlPath(s.Name)
	if err != nil {
		return Different
	}
	return compareFile(comparisonInput{k.host, p, want.Text, read.Text})
}

// Compare implements Comparer.
func (k sysfs) Compare(s Setting, want, read Value) Comparison {
	return compareFile(comparisonInput{k.host, s.Name, want.Text, read.Text})
}
