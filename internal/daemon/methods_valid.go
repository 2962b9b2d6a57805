package daemon

import "strings"

// maxLength is how long a text argument may be, in bytes, and alphabet what it
// may be made of (TuneD since 2.24.1, tuned/consts.py NAMES_MAX_LENGTH and
// NAMES_ALLOWED_CHARS; the answer to CVE-2024-52336 and CVE-2024-52337: no
// control bytes in names that end in a log or a command).
const (
	maxLength = 4096
	alphabet  = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789" +
		" !@'+-.,/:;_$&*()%<=>?#[]{|}^~\""
)

// Valid says whether a text argument may be looked at. The empty text may.
func Valid(s string) bool {
	if len(s) > maxLength {
		return false
	}
	for i := range len(s) {
		if strings.IndexByte(alphabet, s[i]) < 0 {
			return false
		}
	}
	return true
}

// methodsText makes a text fit for the bus, which closes the connection of who sends
// anything but UTF-8 without NUL: profiles are files, and hold any bytes.
func methodsText(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
}

func texts(list []string) []string {
	clean := make([]string, 0, len(list))
	for _, s := range list {
		clean = append(clean, methodsText(s))
	}
	return clean
}

func methodsTable(m map[string]string) map[string]string {
	clean := make(map[string]string, len(m))
	for key, value := range m {
		clean[methodsText(key)] = methodsText(value)
	}
	return clean
}

func pairs(list [][2]string) []Pair {
	clean := make([]Pair, 0, len(list))
	for _, p := range list {
		clean = append(clean, Pair{methodsText(p[0]), methodsText(p[1])})
	}
	return clean
}
