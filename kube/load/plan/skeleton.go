package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Skeleton is a JSON text with holes, so that thousands of objects that differ in a few texts
// are put together without being serialized.
type Skeleton struct {
	pieces [][]byte // one more than holes
	holes  []int    // which variable goes there
	size   int      // about the length of the text, in bytes
}

// Cut makes a skeleton of a JSON text in which marks stand for the variables of the same
// number. A mark is letters and digits that are nowhere else in the text.
func Cut(text []byte, marks []string) *Skeleton {
	s := &Skeleton{size: len(text)}
	for {
		at, which := len(text), -1
		for i, mark := range marks {
			if k := bytes.Index(text, []byte(mark)); k >= 0 && k < at {
				at, which = k, i
			}
		}
		s.pieces = append(s.pieces, bytes.Clone(text[:at]))
		if which < 0 {
			return s
		}
		s.holes = append(s.holes, which)
		text = text[at+len(marks[which]):]
	}
}

// Text returns the text with the values of the variables, each escaped for a text of JSON.
func (s *Skeleton) Text(values []string) []byte {
	dst := make([]byte, 0, s.size)
	for i, hole := range s.holes {
		dst = append(dst, s.pieces[i]...)
		dst = appendEscaped(dst, values[hole])
	}
	return append(dst, s.pieces[len(s.pieces)-1]...)
}

// appendEscaped writes a value as it stands between the quotes of a text.
func appendEscaped(dst []byte, value string) []byte {
	for i := range len(value) {
		if c := value[i]; c < 0x20 || c >= 0x7f || strings.IndexByte(`"\<>&`, c) >= 0 {
			text, _ := json.Marshal(value) // a text can always be written
			return append(dst, text[1:len(text)-1]...)
		}
	}
	return append(dst, value...)
}

// Mark is the i-th of marks that are not in a text. Marks are decimal digits, so that one
// may stand where a number does.
func Mark(text string, i int) string {
	for n := 7346210937 + 1009*i; ; n += 1_000_003 {
		if m := fmt.Sprint(n); !strings.Contains(text, m) {
			return m
		}
	}
}
