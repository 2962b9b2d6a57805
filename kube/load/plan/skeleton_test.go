package plan

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzSkeleton tests that an object built from a skeleton equals the object with the values.
func FuzzSkeleton(f *testing.F) {
	f.Add("name", "a\"b\\c", "<&>\x00\u00e9")
	f.Add("", "\xff", "73462109377346211946")
	f.Fuzz(func(t *testing.T, fixed, one, two string) {
		marks := []string{Mark(fixed, 0), Mark(fixed, 1)}
		text, err := json.Marshal(map[string]string{"a": fixed + marks[0], "b": marks[1] + marks[0] + "-" + marks[1]})
		if err != nil {
			t.Fatal(err)
		}
		s := Cut(text, marks)
		var got map[string]string
		whole := s.Text([]string{one, two})
		if err := json.Unmarshal(whole, &got); err != nil {
			t.Fatalf("%v: %s", err, whole)
		}
		perByte := func(s string) string { // as encoding/json replaces each invalid byte
			var b strings.Builder
			for _, r := range s {
				b.WriteRune(r)
			}
			return b.String()
		}
		if got["a"] != perByte(fixed)+perByte(one) || got["b"] != perByte(two)+perByte(one)+"-"+perByte(two) || len(s.holes) != 4 {
			t.Errorf("%q", got)
		}
	})
}
