package setting

// Comparison is the result of comparing a requested or written value with the
// value that a setting reads.
type Comparison int

// The results. Unclear is for different texts of a file whose output format is
// unknown: the value may or may not be in force.
const (
	Different Comparison = iota
	Same
	Unclear
)

// Compare compares a requested value of a setting with the value that it reads.
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

// Equal reports whether a and b are the same value of a setting.
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
