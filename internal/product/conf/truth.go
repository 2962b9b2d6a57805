package conf

// Truth is what is known of a condition in a file. The values are ordered No, Perhaps, Yes,
// so that min is "and" and max is "or".
type Truth int

// The values of Truth.
const (
	No Truth = iota
	Perhaps
	Yes
)

// TruthOf is Yes or No.
func TruthOf(is bool) Truth {
	if is {
		return Yes
	}
	return No
}

// Not is the opposite; Perhaps is its own.
func (t Truth) Not() Truth { return Yes - t }
