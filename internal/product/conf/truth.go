package conf

// Truth is the value of a condition in a file. Its order is No, Perhaps, Yes: min is "and", max is
// "or".
type Truth int

// The values of Truth.
const (
	No Truth = iota
	Perhaps
	Yes
)

// TruthOf converts a bool to Yes or No.
func TruthOf(is bool) Truth {
	if is {
		return Yes
	}
	return No
}

// Not returns the opposite; Perhaps stays Perhaps.
func (t Truth) Not() Truth { return Yes - t }
