package conf

// Truth is the value of a condition in a file. The values are ordered No, Perhaps, Yes, so that
// min is "and" and max is "or".
type Truth int

// The values of Truth.
const (
	No Truth = iota
	Perhaps
	Yes
)

// TruthOf returns Yes or No.
func TruthOf(is bool) Truth {
	if is {
		return Yes
	}
	return No
}

// Not returns the opposite; the opposite of Perhaps is Perhaps.
func (t Truth) Not() Truth { return Yes - t }
